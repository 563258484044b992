"""The worked example of docs/add-a-method.md, run as it stands there."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from app_runs import Recorder, array_names, run

from curvfed.deployments.pairs import read_pairs
from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.parse import parse
from curvfed.strategies.methods import METHODS
from curvfed.tasks.graphs.models import MODELS, ModelSpec, build

PAGE = (Path(__file__).parents[2] / "docs" / "add-a-method.md").read_text(encoding="utf-8")
KEPT = {"head.weight", "head.bias", "first.bias", "second.bias"}


def block(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)
    return text


@pytest.fixture
def settings():
    """The settings of the page's command, while its row is there."""
    before = dict(METHODS)
    exec(block("python"), {})
    arguments = shlex.split(block("sh"))
    assert arguments[:2] == ["curvfed", "simulate"]
    yield read_pairs(arguments[2:], defaults())
    METHODS.clear()
    METHODS.update(before)


def test_the_command_is_a_configuration(settings):
    assert parse(settings).method == "fedper-bias"


def test_the_example_trains_and_keeps_what_it_says(settings, tmp_path):
    recorder = Recorder()
    result = run(tmp_path, intercept=recorder, method=settings["method"], num_rounds=2)
    assert result.summary["status"] == "completed"
    assert result.summary["rounds"] == 2
    sent = set().union(*(array_names(content) for content in [*recorder.requests(), *recorder.replies()]))
    assert sent == set(result.model) == {"first.weight", "second.weight"}
    mine, other = (result.personal(partition) for partition in (0, 1))
    for name in KEPT:
        assert np.abs(mine[f"parameter/{name}"] - other[f"parameter/{name}"]).max() > 0


def test_the_names_of_parameters_are_the_models():
    told = {kind: names.split() for kind, names in re.findall(r"\| `(\w+)` \| .*?`([\w. ]+)` \|", PAGE)}
    shared = told["gcn"]
    told["lorentz"] += shared
    told["split"] += shared
    specs = {kind: ModelSpec("nodes", kind, 5, 3, 4, 0.5, True, True) for kind in MODELS["nodes"]}
    real = {kind: dict(build(spec, 0).named_parameters()) for kind, spec in specs.items()}
    assert {kind: sorted(names) for kind, names in told.items()} == {
        kind: sorted(names) for kind, names in real.items()
    }
