"""Warnings of other packages: their sentences are those of the run, and one that fails costs the run
nothing."""

import types

import pytest
from app_runs import run

from curvfed.server_app.run_warnings import RunWarnings
from curvfed.tasks import plugins


class Working(RunWarnings):
    """A sentence from the start, and one of the end."""

    def so_far(self, state):
        return {"begun": "it has begun"}

    def at_the_end(self, state):
        return {"ended": f"it has ended after {state.round} rounds"}


class FailsAtTheEnd(Working):
    """Raises when the run is over."""

    def at_the_end(self, state):
        raise KeyError("oops")


class FailsAtOnce(RunWarnings):
    """Cannot be set up."""

    def __init__(self, config, federation):
        raise ValueError("oops")


class SaysNoText(RunWarnings):
    """Gives no mapping."""

    def so_far(self, state):
        return None


@pytest.fixture
def installed(monkeypatch):
    """Adds objects to the group `curvfed.warnings`, as entry points would."""

    def install(**values: object) -> None:
        points = {}
        for name, value in values.items():
            place = plugins.register_object(value, f"test_added_warnings:{name}")
            points[name] = [types.SimpleNamespace(value=place)]
        others = plugins.registered
        monkeypatch.setattr(
            plugins, "registered", lambda kind: points if kind == "warnings" else others(kind)
        )

    return install


def test_the_sentences_of_a_class_are_those_of_the_run(tmp_path, installed):
    installed(mine=Working)
    made = run(tmp_path, num_rounds=2, method="fedavg")
    texts = dict(zip(made.summary["warning_keys"], made.summary["warnings"], strict=True))
    assert texts["begun"] == "it has begun"
    assert texts["ended"] == "it has ended after 2 rounds"


@pytest.mark.parametrize("broken", [FailsAtTheEnd, FailsAtOnce, SaysNoText, dict, print])
def test_a_class_that_fails_is_left_out_and_the_run_completes(tmp_path, installed, broken, capfd):
    installed(broken=broken, mine=Working)
    made = run(tmp_path, num_rounds=1, method="fedavg")
    assert made.summary["status"] == "completed"
    assert (made.path / "model.safetensors").exists()
    assert {"begun", "ended"} <= set(made.summary["warning_keys"])
    assert "broken is left out" in "".join(capfd.readouterr())


def test_two_classes_with_one_key_both_speak(tmp_path, installed):
    installed(first=Working, second=Working)
    made = run(tmp_path, num_rounds=1, method="fedavg")
    assert {"begun", "second-begun"} <= set(made.summary["warning_keys"])
