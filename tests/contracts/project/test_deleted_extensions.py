"""An extension can be deleted: without its folder the app starts, trains, and says what it lacks."""

import datetime
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from curvfed.deployments.package_files import ROOMS
from curvfed.strategies.methods import files
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.plugins import SHIPPED, TESTS, extension_files, of_extensions

ROOT = Path(__file__).parents[3]
TODAY = SHIPPED[datetime.date.today().toordinal() % len(SHIPPED)]
"""The extension that the quick tier deletes beside the case without any."""

CODE = """
import json, sys
import curvfed
from curvfed.deployments.commands.command import app
from curvfed.strategies.methods import METHODS, files
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.errors import DataError
from curvfed.tasks.plugins import additions
from typer.main import get_command

folder = sys.argv[1]
keys = {"num_supernodes": 2, "num_rounds": 1, "results_dir": folder, "quiet": True}
run = curvfed.simulate("flatland", report=True, **keys)
has_report = (run.path / "report.html").exists()
refusals = {}
for word in sys.argv[2:]:
    key, _, name = word.partition("=")
    try:
        curvfed.simulate(**{"method": "local", key: name}, **keys)
    except ConfigError as error:
        refusals[name] = str(error)
one_shot = curvfed.simulate("hull", num_supernodes=2, results_dir=folder, quiet=True)
assert len(one_shot.predict("uniform"))
programs = {"export": lambda: run.export(folder + "/model.pt2"), "classifier": one_shot.model}
for name in programs.keys() - set(additions("programs")):
    try:
        programs[name]()
    except DataError as error:
        refusals[name] = str(error)
commands = get_command(app).list_commands(None)
card = run.path / "model-card.md"
if card.exists():
    assert ("curvfed export" in card.read_text(encoding="utf-8")) == ("export" in commands)
status = run.summary["status"]
print(json.dumps([list(files()), list(METHODS), commands, status, has_report, refusals]))
"""


def case(deleted: list[str]):
    quick = deleted == list(SHIPPED) or deleted == [TODAY]
    marks = [] if quick else [pytest.mark.long]
    return pytest.param(deleted, id="+".join(deleted), marks=marks)


def copy_without(deleted: list[str], copy: Path) -> None:
    for name in ("curvfed", "deployments", *ROOMS):
        ignored = shutil.ignore_patterns("__pycache__", TESTS)
        shutil.copytree(ROOT / name, copy / name, ignore=ignored, dirs_exist_ok=True)
    shutil.copy(ROOT / "pyproject.toml", copy)
    for name in deleted:
        shutil.rmtree(copy / "extensions" / name)
    if deleted == list(SHIPPED):
        shutil.rmtree(copy / "extensions")


def run_in(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        env=os.environ | {"PYTHONPATH": str(copy)},
        cwd=copy.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_shipped_extensions_are_the_folders():
    assert list(SHIPPED) == sorted(path.parent.name for path in extension_files().values())


@pytest.mark.parametrize("deleted", [*(case([name]) for name in SHIPPED), case(list(SHIPPED))])
def test_the_rest_runs(deleted, tmp_path):
    copy = tmp_path / "app"
    copy_without(deleted, copy)
    of_deleted = tuple(f"curvfed.extensions.{name}." for name in deleted)
    lost = [name for name, module in files().items() if module.startswith(of_deleted)]
    lost_commands = {
        name for name, place in of_extensions("commands").items() if place.startswith(of_deleted)
    }
    lost_programs = {
        name for name, place in of_extensions("programs").items() if place.startswith(of_deleted)
    }
    lost_kinds = {
        KINDS[name].built_in
        for name, place in of_extensions("tasks").items()
        if place.startswith(of_deleted)
    }
    a_method = min(lost, default="").replace("_", "-")
    refused = [a_method] if a_method else []
    words = [
        *(f"method={method}" for method in refused),
        *(f"dataset={dataset}" for dataset in lost_kinds),
    ]

    done = run_in(copy, "-c", CODE, str(tmp_path / "results"), *words)
    assert done.returncode == 0, done.stderr
    left, methods, commands, status, has_report, refusals = json.loads(done.stdout.splitlines()[-1])
    assert left == [name for name in files() if name not in lost]
    assert status == "completed"
    assert has_report
    assert lost_commands.isdisjoint(commands)
    assert {"simulate", "run", "predict", "check"} <= set(commands)
    assert set(refused).isdisjoint(methods)
    assert refusals.keys() == lost_programs | lost_kinds | set(refused)
    for name, text in refusals.items():
        assert f'"{name}"' in text
        assert f"lacks the extensions {', '.join(deleted)}" in text
    for command in lost_commands:
        unknown = run_in(copy, "-m", "curvfed", command)
        assert unknown.returncode == 2
        assert f"lacks the extensions {', '.join(deleted)}" in " ".join(
            unknown.stderr.replace("│", " ").split()
        )
