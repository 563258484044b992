"""The wheel in an environment of its own: every command, and Flower's, from a hostile folder."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hostile import hostile_folder

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"
SMALL = ["num-supernodes=2", "num-rounds=1"]


@pytest.fixture(scope="module")
def bin_folder(tmp_path_factory) -> Path:
    """Where the programs of an environment are that knows nothing of the checkout: a node's, by the
    two files of `make wheel` and one command that checks hashes."""
    folder = tmp_path_factory.mktemp("node")
    files = folder / "dist"
    environment = UV.parents[1]
    make = ["make", f"--assume-old={environment}/.stamp", "wheel"]
    subprocess.run([*make, f"VENV={environment}", f"DIST={files}"], cwd=ROOT, check=True)
    assert {path.name for path in files.iterdir()} - {".gitignore"} == {
        *(path.name for path in files.glob("curvfed-*.whl")),
        "requirements-node.txt",
    }
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    install = [UV, "pip", "install", "--quiet", "--python", python, "--require-hashes"]
    subprocess.run([*install, "--requirement", "requirements-node.txt"], cwd=files, check=True)
    return python.parent


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Path:
    return hostile_folder(tmp_path_factory.mktemp("working folder"))


def call(bin_folder: Path, hostile: Path, program: str, *words: str, status: int = 0) -> str:
    """What a command says in the hostile folder, with a home of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [bin_folder / program, *words],
        cwd=hostile,
        env=environment | {"HOME": str(hostile / "home")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    assert done.returncode == status, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def curvfed(bin_folder, hostile) -> Callable[..., str]:
    """What `python -m curvfed` says for these words."""
    return partial(call, bin_folder, hostile, "python", "-m", "curvfed")


@pytest.fixture(scope="module")
def run(curvfed, hostile) -> Path:
    """A run by Flower."""
    words = [
        "method=flatland",
        "dataset=trees",
        *SMALL,
        f"results-dir={hostile / 'runs'}",
        "run-name=one",
    ]
    notes = curvfed("run", *words)
    assert " files of the app, " in notes
    return hostile / "runs" / "one"


def test_a_run_by_flower(run):
    assert json.loads((run / "summary.json").read_text())["status"] == "completed"


def test_predict(curvfed, hostile):
    words = [
        "method=hull",
        "dataset=uniform",
        "num-supernodes=2",
        f"results-dir={hostile / 'runs'}",
        "run-name=points",
    ]
    curvfed("simulate", *words)
    (hostile / "new.csv").write_text("x,y\n0.1,0.2\n-0.3,0.1\n")
    assert "points" in curvfed("predict", str(hostile / "runs" / "points"), "new.csv")


@pytest.mark.parametrize("method", ["flatland", "hyperfed", "spherefed", "hull"])
def test_check_and_simulate(curvfed, hostile, method):
    words = [f"method={method}", *SMALL, f"results-dir={hostile / 'runs'}", f"run-name={method}"]
    curvfed("check", *words)
    curvfed("simulate", *words)
    assert (hostile / "runs" / method / "report.html").exists()


def test_a_shipped_preset_by_its_name(curvfed):
    """The working folder has a file of this name, which is asked for as a file alone."""
    assert "quick" in curvfed("presets")
    curvfed("simulate", "quick", *SMALL, "method=fedavg")


def test_a_sweep(curvfed, hostile):
    (hostile / "own.toml").write_text(
        '[settings]\nmethod = ["fedavg", "local"]\nnum-rounds = 1\nnum-supernodes = 2\n'
    )
    curvfed("sweep", "own.toml", "--results", str(hostile / "sweeps"))
    assert len(list((hostile / "sweeps").glob("*/summary.json"))) == 2


def test_the_bundle_runs_and_not_what_is_installed(bin_folder, hostile):
    """The checkout by `flwr run` where an installed wheel must not be imported."""
    (package,) = (bin_folder.parent / "lib").glob("*/site-packages/curvfed")
    # the modules that Flower's processes import, and the command that starts them does not
    for module in ("server_app/app.py", "client_app/app.py", "strategies/methods/fedavg.py"):
        (package / module).unlink()  # a hard link into uv's cache
        (package / module).write_text("raise SystemExit('the installed version was imported')\n")
    config = (
        f'method="fedavg" dataset="trees" num-rounds=1 results-dir="{hostile / "runs"}"'
        ' run-name="sent"'
    )
    code = (
        "import sys; from curvfed.deployments.commands.run import run_isolated as run; "
        "print(run(['flwr', 'run', sys.argv[1], '--stream', '--run-config', sys.argv[2], "
        "'--federation-config', 'num-supernodes=2 client-resources-num-cpus=1']))"
    )
    notes = call(bin_folder, hostile, "python", "-c", code, str(ROOT), config)
    assert "finished:completed" in notes
    assert (
        json.loads((hostile / "runs" / "sent" / "summary.json").read_text())["status"]
        == "completed"
    )
