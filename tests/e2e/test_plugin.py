"""The example plug-in, installed into a folder and used from another that has nothing of curvfed's:
in one process, by `flwr run`, by `curvfed run`, and on a cluster of two nodes, of which one may
lack it."""

import csv
import json
import subprocess
import sys
import tomllib

import numpy as np
import pytest
from local_cluster import cluster, shares
from plugin_package import EXAMPLE, ROOT, environment, install_example, python
from safetensors.numpy import load_file

CLIENTS, ROUNDS, EPSILON = 2, 2, 1e-2
KEYS = {
    "method": "fedexp",
    "dataset": "blocks",
    "model": "sage",
    "num-rounds": ROUNDS,
    "embedding-dim": 8,
}

SIMULATE = """
import json, sys
from curvfed.deployments.inprocess import simulate
settings, intercept = json.loads(sys.argv[1]), None
if len(sys.argv) > 2:
    import os, signal
    left = int(sys.argv[2])
    def intercept(request, handle):
        global left
        left -= request.content["header"]["phase"] == "train"
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return handle(request)
simulate(settings, 2, intercept=intercept)
"""

FLWR = """
import sys
from curvfed.deployments.commands.run import run_isolated
print("status:", *run_isolated(sys.argv[1:], 400))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return install_example(tmp_path_factory.mktemp("plugin"))


def simulated(home, site, name, *words, status=0, **keys):
    settings = KEYS | {"results-dir": str(home / "results"), "run-name": name} | keys
    output = python(SIMULATE, home, site, words=(json.dumps(settings), *words), status=status)
    return home / "results" / name, output


@pytest.fixture(scope="module")
def here(site, tmp_path_factory):
    """A run in one process, whose keys came in `extra`."""
    folder, _ = simulated(
        tmp_path_factory.mktemp("here"), site, "run", extra=f"fedexp.epsilon={EPSILON}"
    )
    return folder


def rounds(folder):
    with (folder / "rounds.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def same_run(one, other):
    """Equal to the bit in the model and in the method's own column."""
    models = [load_file(folder / "model.safetensors") for folder in (one, other)]
    assert models[0].keys() == models[1].keys()
    assert all(np.array_equal(models[0][name], models[1][name]) for name in models[0])
    columns = [[row["extrapolation"] for row in rounds(folder)] for folder in (one, other)]
    assert columns[0] == columns[1]
    assert len(columns[0]) == ROUNDS
    assert all(float(cell) >= 1 for cell in columns[0])


def test_its_own_tests_pass(site, tmp_path):
    program = (
        "import sys, pytest; sys.exit(pytest.main(['-p', 'no:cacheprovider', '--rootdir', '.',"
        " sys.argv[1]]))"
    )
    assert "passed" in python(
        program, tmp_path / "home", site, words=(str(EXAMPLE / "test_fedexp.py"),)
    )


@pytest.mark.long
def test_in_one_process(here):
    summary = json.loads((here / "summary.json").read_text())
    assert (summary["status"], summary["method"], summary["dataset"]) == (
        "completed",
        "fedexp",
        "blocks",
    )
    header = (here / "rounds.csv").read_text().splitlines()[0]
    assert "extrapolation" in header.split(",")
    written = (here / "config.toml").read_text()
    assert f"[fedexp]\nepsilon = {EPSILON}\n" in written
    assert 'extra = ""\n' in written
    assert "fedexp.epsilon" in (here / "report.html").read_text()


@pytest.mark.long
def test_who_runs_something_else_needs_it_not(site, tmp_path):
    """Neither the bundle nor the run directory of another method names its keys."""
    program = """
import tomllib
from curvfed.deployments.package_files import app_folder
for method in ("fedavg", "fedexp"):
    with app_folder(method) as folder:
        app = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
        print(method, "fedexp" in app["config"])
"""
    notes = python(program, tmp_path / "home", site)
    assert "fedavg False\n" in notes
    assert "fedexp True\n" in notes
    folder, _ = simulated(tmp_path / "home", site, "other", method="fedavg")
    assert "[fedexp]" not in (folder / "config.toml").read_text()


@pytest.mark.long
def test_a_key_given_directly_is_the_same_run(here, site, tmp_path):
    other, _ = simulated(tmp_path / "home", site, "run", **{"fedexp.epsilon": EPSILON})
    same_run(here, other)
    notes = [
        tomllib.loads((folder / "config.toml").read_text()) | {"results-dir": ""}
        for folder in (other, here)
    ]
    assert notes[0] == notes[1]


@pytest.mark.long
def test_killed_in_the_middle_and_resumed(here, site, tmp_path):
    home = tmp_path / "home"
    simulated(home, site, "run", "3", status=-9, **{"fedexp.epsilon": EPSILON})
    folder, _ = simulated(home, site, "run", extra=f"fedexp.epsilon={EPSILON}", resume=True)
    same_run(here, folder)
    clients = [(one / "clients.csv").read_text().count("\n") for one in (here, folder)]
    assert clients[0] == clients[1]
    _, output = simulated(home, site, "run", status=1, resume=True)
    assert "resume = true: fedexp.epsilon = 0.001, but the run began with 0.01" in output


def by_flwr(home, site, **keys):
    """The run directory of a run by `flwr run`."""
    home.mkdir()
    pairs = keys | {"results-dir": str(home / "results"), "run-name": "run"}
    notes = " ".join(f"{key}={json.dumps(value)}" for key, value in pairs.items())
    federation = f"num-supernodes={CLIENTS} client-resources-num-cpus=1"
    words = ("flwr", "run", str(ROOT), "--stream", "--run-config", notes)
    words += ("--federation-config", federation)
    assert "status: finished:completed" in python(FLWR, home, site, words=words)
    return home / "results" / "run"


@pytest.mark.long
def test_by_flwr_run(here, site, tmp_path):
    same_run(here, by_flwr(tmp_path / "home", site, **KEYS, extra=f"fedexp.epsilon={EPSILON}"))


@pytest.mark.long
@pytest.mark.parametrize("method", ["fedavg", "flatland"])
@pytest.mark.parametrize("model", ["gat", "Curved"])
def test_networks_of_pyg_and_of_lorentz_layers_by_flwr_run(model, method, site, tmp_path):
    """By their dotted names; the same bits as in one process."""
    keys = {"method": method, "model": f"curvfed_fedexp.model:{model}"}
    one, _ = simulated(tmp_path / "home", site, "run", **keys)
    other = by_flwr(tmp_path / "other", site, **KEYS | keys)
    models = [load_file(folder / "model.safetensors") for folder in (one, other)]
    assert models[0].keys() == models[1].keys()
    assert all(np.array_equal(models[0][name], models[1][name]) for name in models[0])
    assert ("k" in models[0]) == ((model, method) == ("Curved", "fedavg"))


@pytest.mark.long
def test_by_curvfed_run(here, site, tmp_path):
    """Its keys are in the bundle that is made for the run."""
    home = tmp_path / "home"
    home.mkdir()
    pairs = KEYS | {
        "fedexp.epsilon": EPSILON,
        "results-dir": str(home / "results"),
        "run-name": "run",
    }
    words = [f"{key}={value}" for key, value in pairs.items()]
    command = [sys.executable, "-m", "curvfed", "run", *words, f"num-supernodes={CLIENTS}"]
    done = subprocess.run(
        command, cwd=home, env=environment(home, site), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    same_run(here, home / "results" / "run")


@pytest.mark.long
def test_on_a_cluster(here, site, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", environment(tmp_path, site)["PYTHONPATH"])
    monkeypatch.chdir(tmp_path)
    with cluster(tmp_path / "cluster", shares(CLIENTS)) as one:
        for name in one.node_configs:  # a node runs only the networks that its site names
            one.files.node(name).policy.write_text(
                '[data]\npublic = ["blocks"]\n[runs.keys]\nmodel = ["sage"]\n'
            )
        code, output = one.run(
            *(f"{key}={value}" for key, value in KEYS.items()),
            f"extra=fedexp.epsilon={EPSILON}",
            "run-name=run",
        )
        assert code == 0, output
        same_run(here, one.results / "run")


@pytest.mark.long
def test_a_node_that_lacks_it_says_so(site, tmp_path, monkeypatch):
    """The server and one node have it, the other has not: refused by name with the remedy."""
    without = environment(tmp_path)["PYTHONPATH"]
    monkeypatch.setenv("PYTHONPATH", environment(tmp_path, site)["PYTHONPATH"])
    prefixes = {"n1": ("env", f"PYTHONPATH={without}")}
    with cluster(tmp_path / "cluster", shares(CLIENTS), prefixes=prefixes) as one:
        pairs = [f"{key}={value}" for key, value in KEYS.items() if key not in ("dataset", "model")]
        code, output = one.run(*pairs, "dataset=trees", "run-name=run")
        assert code == 0, output
        (reason,) = json.loads((one.results / "run" / "clients.json").read_text())[
            "refused"
        ].values()
        assert '"fedexp' in reason
        assert "must be installed wherever server and clients run" in reason
