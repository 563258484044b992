"""The worked example of docs/add-a-method.md, followed word by word in a copy of the project."""

import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
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
SMALL = ("num-supernodes=2", "num-rounds=2", "embedding-dim=8")
GENERATED = {
    "docs/configuration.md",
    "docs/methods.md",
    "docs/methods/fedslow.md",
    "docs/reference/keys.md",
    "pyproject.toml",
}


RUN_ALL = """
import json, sys
from curvfed.deployments.commands.command import main
for name, pairs in json.loads(sys.argv[1]).items():
    assert main(["simulate", *pairs, f"results-dir={sys.argv[2]}", f"run-name={name}"]) == 0
"""
"""The command, several times in one process."""


def block(language: str) -> str:
    """The first block of a language: those of the worked example stand before the others."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)[0]


def contents(folder: Path) -> dict[str, bytes]:
    files = (
        path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A copy of the project, compiled files too, with the page's file in its place, with
    which the command runs at once, and `make reference` run."""
    folder = tmp_path_factory.mktemp("copy") / "project"
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / room)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder / name)
    before = contents(folder)
    (name,) = re.findall(r"`(strategies/methods/fedslow\.py)`:", PAGE)
    (folder / name).write_text(block("python"))
    at_once = [*shlex.split(block("sh"))[2:], *SMALL, f"results-dir={tmp_path_factory.mktemp('r')}"]
    call(folder, "-m", "curvfed", "simulate", *at_once)
    call(folder, str(folder / "docs" / "make_reference.py"))
    call(folder, str(folder / "docs" / "make_methods.py"))
    after = contents(folder)
    assert {path for path in after if after[path] != before.get(path)} == GENERATED | {name}
    return folder


def call(folder: Path, *words: str) -> str:
    environment = os.environ | {
        "PYTHONPATH": str(folder),
        "HOME": str(folder.parent / "home"),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, *words], cwd=folder.parent, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_the_example_is_documented(project):
    assert "| `fedslow.step` | `0.5` |" in (project / "docs" / "methods" / "fedslow.md").read_text()


@pytest.mark.long
def test_the_command_runs_and_both_halves_work(project):
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
    call(project, "-c", RUN_ALL, json.dumps(runs), str(project.parent))
    models = {}
    for name in runs:
        folder = project.parent / name
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
    told = {
        kind: names.split()
        for kind, names in re.findall(r"\| `(\w+)`[^|]* \| .*?`([\w. ]+)` \|", PAGE)
    }
    shared = told["gcn"]
    told["gated"] += shared
    told["lorentz"] += shared
    told["split"] += shared
    told["mean"] = shared
    specs = {
        kind: ModelSpec("nodes", kind, 5, 3, 4, 0.5, curvature=None) for kind in MODELS["nodes"]
    }
    real = {kind: dict(spec.build(0).named_parameters()) for kind, spec in specs.items()}
    assert {kind: sorted(names) for kind, names in told.items()} == {
        kind: sorted(names) for kind, names in real.items()
    }
