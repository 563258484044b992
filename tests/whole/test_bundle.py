"""What Flower sends: the app's own files, whatever else lies in the checkout."""

import importlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from flwr.cli.build import build_fab_from_disk
from flwr.cli.config_utils import load_and_validate
from flwr.cli.install import install_from_fab

from curvfed.deployments import package_files
from curvfed.deployments.package_files import ROOMS, TEMPLATES, app_folder
from curvfed.strategies.base.keys import dotted
from curvfed.strategies.config.run_config import defaults
from curvfed.strategies.methods import INDEX
from curvfed.tasks.plugins import LOCAL

pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # Flower's

ROOT = Path(__file__).parents[2]
FILES = {
    path.relative_to(ROOT).as_posix()
    for path in [
        *(ROOT / "curvfed").glob("*.py"),
        *(
            path
            for room in ROOMS
            for path in (ROOT / room).rglob("*.py")
            if LOCAL.isdisjoint(path.parts)
        ),
        *(ROOT / "extensions").glob("*/entry_points.toml"),
        *(ROOT / TEMPLATES).iterdir(),
        ROOT / "strategies" / "methods" / INDEX,
    ]
}

STRAY = (
    *(
        "patients.json",
        "patients, 2024.json",
        "own.toml",
        "notes.md",
        "tasks.py",
        "own.py",
        "plot, 2.py",
    ),
    *(
        "results of runs/one/summary.json",
        "curvfed_results/one/config.toml",
        "deployments/results, old/report.json",
    ),
    *(
        "tasks/patients, 2024.json",
        "tasks/graphs/own.toml",
        "strategies/notes.md",
        "geometry/a, b.py",
    ),
    *("server_app/results, old/summary.json", "server_app/report/templates/run, 2.md"),
    *("client_app/results of runs/plot.py", "curvfed/patients.json"),
)
"""What people leave in a checkout."""

LOCAL = shutil.ignore_patterns(
    ".git", ".venv*", "build", "dist", "__pycache__", ".*_cache", ".hypothesis", "docs"
)


@pytest.fixture(scope="module")
def dirty(tmp_path_factory) -> Path:
    """A checkout with more in it than was checked out."""
    folder = tmp_path_factory.mktemp("dirty") / "curvfed"
    shutil.copytree(ROOT, folder, ignore=LOCAL)
    for name in STRAY:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text('{"name": "a patient"}')
    return folder


def packed(folder: Path, to: Path) -> set[str]:
    """The files of the bundle that Flower makes of a folder, and installs."""
    fab = build_fab_from_disk(folder)
    with zipfile.ZipFile(io.BytesIO(fab)) as opened:
        names = set(opened.namelist()) - {".info/CONTENT"}
    installed = install_from_fab(fab, to, skip_prompt=True)
    assert {
        path.relative_to(installed).as_posix() for path in installed.rglob("*") if path.is_file()
    } == names
    return names


def in_the_wheel(name: str) -> str:
    return f"curvfed/{name.removeprefix('curvfed/')}"


def test_a_checkout_is_sent_without_what_is_not_the_apps(dirty, tmp_path):
    assert len(FILES) > 200
    assert packed(dirty, tmp_path) == FILES | {"pyproject.toml"}


def test_so_is_the_folder_made_for_a_run(dirty, tmp_path):
    """From the dirty checkout, in a working folder with modules of the same names."""
    code = """
import shutil, sys
import curvfed
from curvfed.deployments.package_files import app_folder
with app_folder("fedavg") as folder:
    shutil.copytree(folder, sys.argv[1])
print(curvfed.__file__)
"""
    made, own = tmp_path / "made" / "curvfed", tmp_path / "own"
    (own / "strategies").mkdir(parents=True)
    for name in ("tasks.py", "geometry.py", "strategies/__init__.py", "pyproject.toml"):
        (own / name).write_text("raise SystemExit('the wrong one')")
    done = subprocess.run(
        [sys.executable, "-c", code, str(made)],
        cwd=own,
        env=os.environ | {"PYTHONPATH": str(dirty)},
        capture_output=True,
        text=True,
        check=True,
    )
    notes, where = done.stdout.splitlines()
    assert Path(where).is_relative_to(dirty)
    files = {path.relative_to(made).as_posix(): path for path in made.rglob("*") if path.is_file()}
    assert set(files) == {in_the_wheel(name) for name in FILES} | {"pyproject.toml"}
    assert packed(made, tmp_path / "there") == set(files)
    size = sum(path.stat().st_size for path in files.values())
    assert re.match(rf"{len(files)} files of the app, {size:,} bytes, ", notes)


def test_the_folder_is_gone_after_the_run():
    with app_folder("fedavg") as folder:
        assert (folder / "curvfed" / "__init__.py").exists()
    assert not folder.parent.exists()


def test_every_key_of_this_installation_is_declared(monkeypatch):
    """A SuperLink takes no others; those of plug-ins are in no file of ours."""
    keys = defaults() | {"fedexp.epsilon": 1e-3, "fedexp.name": "a", "own": True}
    monkeypatch.setattr(package_files, "defaults_of", lambda method: keys)
    with app_folder("fedavg") as folder:
        project = tomllib.loads((folder / "pyproject.toml").read_text())
    assert dotted(project["tool"]["flwr"]["app"]["config"]) == keys
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"].items() <= ours["project"].items()
    assert project["tool"]["flwr"]["app"]["components"] == ours["tool"]["flwr"]["app"]["components"]


@pytest.mark.long
def test_a_node_runs_what_was_sent_and_not_what_is_installed_there(tmp_path):
    """The bundle comes first; an installed version of the name must not be mixed in."""
    installed = tmp_path / "site"
    for name in (
        "curvfed",
        "curvfed/server_app",
        "curvfed/client_app",
        "curvfed/strategies",
        "server_app",
    ):
        (installed / name).mkdir(parents=True)
        (installed / name / "__init__.py").write_text("raise SystemExit('the installed one')")
    code = """
import json, sys
from flwr.supercore.object_ref import load_app
for name in ("server", "client"):
    load_app(f"curvfed.app:{name}", RuntimeError, sys.argv[1])
files = {name: module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "curvfed"}
print(json.dumps(files))
"""
    with app_folder("fedavg") as folder:
        done = subprocess.run(
            [sys.executable, "-c", code, str(folder)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(installed)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        files = json.loads(done.stdout.splitlines()[-1])
        assert {
            "curvfed.server_app.app",
            "curvfed.client_app.app",
            "curvfed.strategies.config.parse",
        } <= files.keys()
        assert all(Path(file).is_relative_to(folder) for file in files.values())


@pytest.mark.long
def test_the_client_is_found_while_another_thread_imports_the_server(dirty, tmp_path):
    """In a simulation Flower does both at once; a slow import makes them always meet."""
    code = """
import sys, threading, time
from flwr.supercore.object_ref import load_app, validate
folder, loaded = sys.argv[1], []
thread = threading.Thread(target=lambda: loaded.append(load_app(sys.argv[2], RuntimeError, folder)))
thread.start()
while "curvfed" not in sys.modules:
    time.sleep(0.001)
print(*validate(sys.argv[3], project_dir=folder))
thread.join()
print(*(type(app).__name__ for app in loaded))
"""
    folder = install_from_fab(build_fab_from_disk(dirty), tmp_path / "there", skip_prompt=True)
    refs = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"][
        "components"
    ]
    first = folder / "curvfed" / "__init__.py"
    first.write_text(f"import time\n\ntime.sleep(0.5)\n{first.read_text()}")
    command = [sys.executable, "-c", code, str(folder), refs["serverapp"], refs["clientapp"]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["True None", "ServerApp"], done.stderr


@pytest.mark.long
def test_flowers_hub_would_take_it(tmp_path):
    """By the checks that `flwr app publish` makes of the folder before it sends anything."""
    if not (ROOT / ".git").exists():
        pytest.skip("the folder is made from the last commit, and this copy has no history")
    checks = importlib.import_module("flwr.cli.app_cmd.publish")
    folder = tmp_path / "curvfed"
    subprocess.run(["make", "hub", f"HUB={folder}"], cwd=ROOT, check=True, capture_output=True)
    config, warnings = load_and_validate(folder / "pyproject.toml", check_module=False)
    assert warnings == []
    checks._validate_app_name(folder.name, "the folder")
    checks._validate_description(config["project"]["description"])
    files = checks._collect_file_paths(folder)
    checks._validate_files(files)  # their number, sizes and encoding
    names = {path.relative_to(folder).as_posix() for path in files}
    assert FILES | {"pyproject.toml", "README.md"} <= names


def test_a_release_has_the_folder_for_flowers_hub(tmp_path):
    """After the checksums, which are those of files."""
    words = ["make", "--dry-run", "release", f"HUB={tmp_path}", f"VENV={tmp_path}"]
    done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    recipe = done.stdout
    assert recipe.index("SHA256SUMS") < recipe.index(f'tar -x -C "{tmp_path}"')
    assert not [*tmp_path.iterdir()]
