"""The worked example of docs/add-a-method.md, followed word by word in a copy of the project."""

import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from curvfed.tasks.graphs.model_spec import MODELS, ModelSpec

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "add-a-method.md").read_text(encoding="utf-8")
ROOMS = (
    *("curvfed", "server_app", "client_app", "strategies", "tasks", "geometry", "deployments"),
    *("extensions", "docs", "presets"),
)
SMALL = ("num-supernodes=2", "num-rounds=2", "embedding-dim=8", "report=false")
GENERATED = {
    "docs/configuration.md",
    "docs/methods.md",
    "docs/methods/fedslow.md",
    "docs/reference/keys.md",
    "pyproject.toml",
    "strategies/methods/index.json",
}

RUN_ALL = """
import json, sys
from curvfed.deployments.commands.command import main
for name, pairs in json.loads(sys.argv[1]).items():
    assert main(["simulate", *pairs, f"results-dir={sys.argv[2]}", f"run-name={name}"]) == 0
"""
"""The command, several times in one process."""

ANSWERS = """
import contextlib, io, json, sys
from curvfed.deployments.commands.command import main
answers = []
for words in json.loads(sys.argv[1]):
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        status = main(words)
    answers.append([status, " ".join(text.getvalue().replace("│", " ").split())])
print(json.dumps(answers))
"""
"""The statuses and the words of several commands in one process."""

NEW_KEYS = {
    "fedprox": ("strategies/methods/fedprox.py", "    mu: Rate"),
    "fedproto": ("extensions/baselines/methods/fedproto.py", "    weight: Rate"),
}
"""Methods of the core and of an extension: their files, and the beginning of a key's line."""


def block(language: str) -> str:
    """The first block of a language: those of the worked example stand before the others."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)[0]


def contents(folder: Path) -> dict[str, bytes]:
    files = (
        path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """A copy of the project, compiled files too, with the page's file in its place."""
    folder = tmp_path_factory.mktemp("copy") / "project"
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / room)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder / name)
    (name,) = re.findall(r"`(strategies/methods/fedslow\.py)`:", PAGE)
    (folder / name).write_text(block("python"))
    return folder


@pytest.fixture(scope="module")
def project(copy, tmp_path_factory) -> Path:
    """A copy after `make reference`."""
    folder = tmp_path_factory.mktemp("generated") / "project"
    shutil.copytree(copy, folder)
    call(folder, str(folder / "docs" / "make_reference.py"))
    call(folder, str(folder / "docs" / "make_methods.py"))
    before = contents(copy)
    after = contents(folder)
    assert {path for path in after if after[path] != before.get(path)} == GENERATED
    return folder


def call(folder: Path, *words: str) -> str:
    environment = os.environ | {
        "PYTHONPATH": str(folder),
        "HOME": str(folder.parent / "home"),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "300",
    }
    done = subprocess.run(
        [sys.executable, *words], cwd=folder.parent, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def answers(folder: Path, *commands: list[str]) -> list[tuple[int, str]]:
    printed = call(folder, "-c", ANSWERS, json.dumps(commands))
    return [(status, words) for status, words in json.loads(printed.splitlines()[-1])]


@contextmanager
def new_key(folder: Path, method: str) -> Iterator[None]:
    """Give the file of a method in this copy the key `warmth`."""
    name, line = NEW_KEYS[method]
    before = (folder / name).read_text()
    assert line in before
    key = '    warmth: Rate = Field(default=0.5, ge=0)\n    """new here"""\n'
    (folder / name).write_text(before.replace(line, key + line, 1))
    try:
        yield
    finally:
        (folder / name).write_text(before)


def test_the_file_is_enough(copy, tmp_path):
    """Before anything is generated the method runs, with its keys."""
    page = shlex.split(block("sh"))[1:]
    run, checked, wrong, misspelt, unread = answers(
        copy,
        [*page, *SMALL, f"results-dir={tmp_path}", "run-name=page"],
        ["check", "method=fedslow", "dataset=trees", "fedslow.mu=0.25"],
        ["check", "method=fedslow", "dataset=trees", "fedslow.step=2"],
        ["check", "method=fedslow", "dataset=trees", "fedslow.stap=0.2"],
        ["check", "method=fedavg", "dataset=trees", "fedslow.step=0.2"],
    )
    assert [run[0], checked[0]] == [0, 0]
    assert "step = 0.3" in (tmp_path / "page" / "config.toml").read_text()
    assert "fedslow.mu 0.25" in checked[1]
    assert "fedslow.step 0.5" in checked[1]
    assert wrong[0] == misspelt[0] == 2
    assert "fedslow.step = 2: allowed is a number > 0 and <= 1" in wrong[1]
    assert 'did you mean "fedslow.step"?' in misspelt[1]
    assert "fedslow.step = 0.2 is a key of fedslow" in unread[1]


@pytest.mark.long
def test_a_new_key_in_a_methods_file_is_enough(copy, tmp_path):
    """Before anything is generated."""
    with new_key(copy, "fedprox"):
        run, wrong, misspelt, unread = answers(
            copy,
            [
                *["simulate", "method=fedprox", "dataset=trees", "fedprox.warmth=0.75", *SMALL],
                *[f"results-dir={tmp_path}", "run-name=warm"],
            ],
            ["check", "method=fedprox", "dataset=trees", "fedprox.warmth=-1"],
            ["check", "method=fedprox", "dataset=trees", "fedprox.warmht=1"],
            ["check", "method=fedavg", "dataset=trees", "fedprox.warmth=1"],
        )
    assert run[0] == 0
    assert "warmth = 0.75" in (tmp_path / "warm" / "config.toml").read_text()
    assert wrong[0] == misspelt[0] == 2
    assert "fedprox.warmth = -1: allowed is a number >= 0" in wrong[1]
    assert 'did you mean "fedprox.warmth"?' in misspelt[1]
    assert "fedprox.warmth = 1 is a key of fedprox" in unread[1]


# The parameters of these name a method or a command of an extension: without it they are left out.


@pytest.mark.long
@pytest.mark.parametrize(("method", "heir"), [("fedproto", "fedtgp")])
def test_a_new_key_is_one_of_a_method_whose_keys_follow(method, heir, copy):
    with new_key(copy, method):
        own, of_heir = answers(
            copy,
            ["check", f"method={method}", "dataset=digits"],
            ["check", f"method={heir}", "dataset=digits", f"{heir}.warmth=0.75"],
        )
    assert [own[0], of_heir[0]] == [0, 0]
    assert f"{method}.warmth 0.5" in own[1]
    assert f"{heir}.warmth 0.75" in of_heir[1]


@pytest.mark.long
@pytest.mark.parametrize("command", ["methods"])
def test_a_new_method_and_a_new_key_are_listed(command, copy):
    with new_key(copy, "fedprox"):
        methods, fedslow, fedprox = answers(
            copy, [command], [command, "fedslow"], [command, "fedprox"]
        )
    assert [methods[0], fedslow[0], fedprox[0]] == [0, 0, 0]
    assert "fedslow fedavg whose server moves a part of the way" in methods[1]
    assert "fedslow.step 0.5" in fedslow[1]
    assert "fedprox.warmth 0.5" in fedprox[1]


@pytest.mark.long
def test_the_example_is_documented(project):
    assert "| `fedslow.step` | `0.5` |" in (project / "docs" / "methods" / "fedslow.md").read_text()


@pytest.mark.long
def test_the_command_runs_and_both_halves_work(copy):
    """A step of 1 and mu of 0 is fedavg but for rounding; with either half at work it is not, each
    by the example's defaults."""
    words = shlex.split(block("sh"))
    assert words[:2] == ["curvfed", "simulate"]
    runs = {
        "page": [*words[2:], *SMALL],
        "neutral": [
            "method=fedslow",
            "dataset=trees",
            "fedslow.step=1.0",
            "fedslow.mu=0.0",
            *SMALL,
        ],
        "client": ["method=fedslow", "dataset=trees", "fedslow.step=1.0", *SMALL],
        "fedavg": ["method=fedavg", "dataset=trees", "local-epochs=5", *SMALL],
    }
    call(copy, "-c", RUN_ALL, json.dumps(runs), str(copy.parent))
    models = {}
    for name in runs:
        folder = copy.parent / name
        assert json.loads((folder / "summary.json").read_text())["status"] == "completed"
        models[name] = load_file(folder / "model.safetensors")
        with (folder / "rounds.csv").open(newline="") as file:
            assert [row["round"] for row in csv.DictReader(file) if row["phase"] == "train"] == [
                "1",
                "2",
            ]
    gap = {
        name: max(np.abs(array - models["fedavg"][key]).max() for key, array in model.items())
        for name, model in models.items()
    }
    assert gap["neutral"] < 1e-5 < 1e-4 < min(gap["page"], gap["client"])


def test_the_names_of_parameters_are_the_models():
    notes = {
        kind: names.split()
        for kind, names in re.findall(r"\| `(\w+)`[^|]* \| .*?`([\w. ]+)` \|", PAGE)
    }
    shared = notes["gcn"]
    notes["gated"] += shared
    notes["lorentz"] += shared
    notes["split"] += shared
    notes["mean"] = shared
    specs = {
        kind: ModelSpec("nodes", kind, 5, 3, 4, 0.5, curvature=None) for kind in MODELS["nodes"]
    }
    real = {kind: dict(spec.build(0).named_parameters()) for kind, spec in specs.items()}
    assert {kind: sorted(names) for kind, names in notes.items()} == {
        kind: sorted(names) for kind, names in real.items()
    }
