"""An extension can be deleted: without its folder the app starts, trains, says what it lacks, and
passes the core's tests."""

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest

from curvfed.deployments.package_files import ROOMS
from curvfed.strategies.methods import files
from curvfed.tasks.formats import CORE
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.plugins import TESTS, addition, extension_files, of_extensions
from curvfed.tasks.shipped import SHIPPED

ROOT = Path(__file__).parents[2]
TODAY = list(SHIPPED)[datetime.date.today().toordinal() % len(SHIPPED)]
"""The extension that the quick tier deletes."""

CODE = """
import json, sys, tomllib
import curvfed
from curvfed.client_app.node.policy import Policy
from curvfed.deployments.commands.command import app
from curvfed.strategies.base.keys import dotted
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import defaults
from curvfed.strategies.methods import METHODS, files
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.errors import DataError
from curvfed.tasks.plugins import additions
from typer.main import get_command

folder = sys.argv[1]
with open(sys.argv[2], "rb") as file:
    passed_by_flower = dotted(tomllib.load(file)["tool"]["flwr"]["app"]["config"])
parse(passed_by_flower)
lost_keys = [f"{key}=changed" for key in passed_by_flower if key not in defaults()]
keys = {"num_supernodes": 2, "num_rounds": 1, "results_dir": folder, "quiet": True}
run = curvfed.simulate("flatland", report=True, **keys)
has_report = (run.path / "report.html").exists()
refusals = {}
for setting in sys.argv[3:] + lost_keys[:1]:
    key, _, value = setting.partition("=")
    try:
        parse({key: value})
    except ConfigError as error:
        refusals[setting] = str(error)
one_shot = curvfed.simulate("hull", num_supernodes=2, results_dir=folder, quiet=True, report=False)
assert len(one_shot.predict("uniform"))
programs = {
    "adapt": lambda: run.adapt("trees", folder + "/joined", 2),
    "export": lambda: run.export(folder + "/model.pt2"),
    "classifier": one_shot.model,
}
for name in programs.keys() - set(additions("programs")):
    try:
        programs[name]()
    except DataError as error:
        refusals[name] = str(error)
if not additions("sinks"):
    try:
        curvfed.simulate("flatland", sinks="tensorboard", **keys)
    except ConfigError as error:
        refusals["sinks=tensorboard"] = str(error)
try:
    from curvfed.flower import strategy
except DataError as error:
    refusals["flower"] = str(error)
if "dp" not in additions("guards"):
    policy = Policy.model_validate({"privacy": {"max-epsilon": 3.0}})
    try:
        policy.check_run(parse({}), owns_data=False)
    except ConfigError as error:
        refusals["max-epsilon=3"] = str(error)
if not additions("simulators"):
    try:
        curvfed.simulate("flatland", workers=2, **keys)
    except ConfigError as error:
        refusals["workers=2"] = str(error)
commands = get_command(app).list_commands(None)
card = run.path / "model-card.md"
if card.exists():
    assert ("curvfed export" in card.read_text(encoding="utf-8")) == ("export" in commands)
lists = [list(files()), list(METHODS), commands, lost_keys]
print(json.dumps([*lists, run.summary["status"], has_report, refusals]))
"""


TESTS_OF_CORE = [f"tests/{name}" for name in ("attacks", "contracts", "laws", "methods", "oracles")]
"""The tests of the core."""
MEETING = [f"tests/contracts/{name}" for name in ("command", "config", "directory")]
"""Those in which the core meets what extensions add: keys, commands, files, lists.
The others run in the copy without any extension."""
READ = ("tests", "docs", "examples", "presets", "studies", "benchmarks")
"""Folders that tests read."""

DELETIONS = [*([name] for name in SHIPPED), list(SHIPPED)]


def case(deleted: list[str]):
    marks = [] if deleted == [TODAY] else [pytest.mark.long]
    return pytest.param(deleted, id="+".join(deleted), marks=marks)


def copy_without(deleted: list[str], copy: Path) -> None:
    for name in ("curvfed", "deployments", *ROOMS):
        # Compiled files go with their sources, whose times stay: else each copy compiles all anew.
        ignored = shutil.ignore_patterns(TESTS)
        shutil.copytree(ROOT / name, copy / name, ignore=ignored, dirs_exist_ok=True)
    shutil.copy(ROOT / "pyproject.toml", copy)
    for name in deleted:
        shutil.rmtree(copy / "extensions" / name)


def assert_names_absent(refusal: str, deleted: list[str]) -> None:
    """The text names deleted extensions, all of them where only one is deleted."""
    (names,) = re.findall("lacks the extensions (.*?);", refusal, re.DOTALL)
    assert {*names.split(", ")} <= {*deleted}


def run_in(copy: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        env=os.environ | {"PYTHONPATH": str(copy)},
        cwd=cwd or copy.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_shipped_extensions_are_the_folders_with_the_groups_of_their_files():
    groups = {
        name: tuple(tomllib.loads(file.read_text(encoding="utf-8")))
        for name, file in extension_files().items()
    }
    assert groups == {
        name: tuple(f"curvfed.{group}" for group in added) for name, added in SHIPPED.items()
    }
    assert list(SHIPPED) == sorted(SHIPPED)


@pytest.mark.parametrize("deleted", [case(names) for names in DELETIONS])
def test_the_rest_runs(deleted, tmp_path):
    copy = tmp_path / "app"
    copy_without(deleted, copy)
    if deleted == list(SHIPPED):
        shutil.rmtree(copy / "extensions")
    of_deleted = tuple(f"curvfed.extensions.{name}." for name in deleted)
    lost = [name for name, module in files().items() if module.startswith(of_deleted)]

    def lost_of(kind: str) -> list[str]:
        places = of_extensions(kind).items()
        return [name for name, place in places if place.startswith(of_deleted)]

    rows = partial(addition, "public-data")
    refused = [f"method={name.replace('_', '-')}" for name in lost[:1]]
    refused += [f"aggregation={name}" for name in lost_of("aggregations")[:1]]
    refused += [f"aggregation={name}" for name in lost_of("aggregation-choices")]
    refused += [f"dataset={KINDS[name].built_in}" for name in lost_of("tasks")]
    refused += [f"dataset={next(iter(rows(name)))}" for name in lost_of("public-data")]
    refused += [f"flatland.curvature-init={name}" for name in lost_of("graph-curvatures")]
    refused += ["images.encoder=resnet18-f37072fd" for _ in lost_of("image-encoders")]
    formats = [addition("formats", name) for name in lost_of("formats")]
    refused += [f"dataset={name}" for form in formats for name in form.sources]
    own = {ending for form in CORE for ending in form.endings}
    endings = {ending for form in formats for ending in form.endings} - own
    for ending in sorted(endings):
        (tmp_path / f"file{ending}").touch()
        refused += [f"dataset={tmp_path}/file{ending}", f"dataset=absent{ending}"]

    done = run_in(
        copy, "-c", CODE, str(tmp_path / "results"), str(copy / "pyproject.toml"), *refused
    )
    assert done.returncode == 0, done.stderr
    lists = json.loads(done.stdout.splitlines()[-1])
    left, methods, commands, lost_keys, status, has_report, refusals = lists
    assert left == [name for name in files() if name not in lost]
    assert status == "completed"
    assert has_report
    assert set(lost_of("commands")).isdisjoint(commands)
    assert {"simulate", "run", "predict", "check"} <= set(commands)
    assert ("robust.share=changed" in lost_keys) == ("robust" in deleted)
    assert ("dp.unit=changed" in lost_keys) == ("privacy" in deleted)
    others = ["max-epsilon=3"] * ("privacy" in deleted) + ["workers=2"] * ("workers" in deleted)
    others += ["sinks=tensorboard"] * ("reports" in deleted)
    others += [*lost_of("programs"), *lost_of("faces")]
    assert refusals.keys() == {*refused, *lost_keys[:1], *others}
    for setting, refusal in refusals.items():
        key, _, value = setting.partition("=")
        assert value not in methods
        assert value in refusal or key in refusal
        assert_names_absent(refusal, deleted)
    for command in lost_of("commands"):
        unknown = run_in(copy, "-m", "curvfed", command)
        assert unknown.returncode == 2
        words = " ".join(unknown.stderr.replace("│", " ").split())
        with_commands = [name for name in deleted if "commands" in SHIPPED[name]]
        assert f"lacks the extensions {', '.join(with_commands)};" in words


@pytest.mark.long
@pytest.mark.parametrize("deleted", DELETIONS, ids="+".join)
def test_the_tests_of_the_core_pass(deleted, tmp_path):
    copy = tmp_path / "app"
    copy_without(deleted, copy)
    for name in READ:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, copy)
    folders = TESTS_OF_CORE if deleted == list(SHIPPED) else MEETING
    words = ["-m", "not long", "--numprocesses=auto", "--dist=worksteal", "--tb=short", *folders]
    done = run_in(copy, "-m", "pytest", *words, cwd=copy)
    assert done.returncode == 0, done.stdout[-10_000:]


@pytest.mark.long
def test_a_copy_without_any_runs_with_flower(tmp_path):
    copy = tmp_path / "app"
    copy_without(list(SHIPPED), copy)
    keys = ["method=flatland", "dataset=trees", "num-rounds=1", f'results-dir="{tmp_path}/results"']
    done = run_in(copy, "-m", "curvfed", "run", *keys)
    assert done.returncode == 0, done.stderr
    (summary,) = (tmp_path / "results").glob("*/summary.json")
    assert json.loads(summary.read_text(encoding="utf-8"))["status"] == "completed"
