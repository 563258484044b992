"""The example app by the real `flwr run`: consistent aggregation, and personal classifiers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "quickstart"
CLIENTS, ROUNDS = 4, 4
HEAD = {"head.weight", "head.bias"}

RUN = """
import sys
from curvfed.deployments.commands.run import run_isolated
status, details = run_isolated(sys.argv[1:], timeout=400)
print("status:", status, details)
"""

pytestmark = pytest.mark.long  # the aggregations themselves are compared with Flower's in-process


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    """What both runs leave and print; at the same time, from a folder that is not the app's."""
    home = tmp_path_factory.mktemp("home")

    def start(name, personal):
        pairs = f'num-rounds={ROUNDS} personal="{personal}" results="{home / name}.json"'
        federation = f"num-supernodes={CLIENTS} client-resources-num-cpus=1"
        command = [
            "flwr",
            "run",
            str(EXAMPLE),
            "--stream",
            "--run-config",
            pairs,
            "--federation-config",
            federation,
        ]
        return subprocess.Popen(
            [sys.executable, "-c", RUN, *command],
            cwd=home,
            env=os.environ | {"HOME": str(home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )

    started = {"consistent": start("consistent", ""), "split": start("split", "head.*")}
    outputs = {name: process.communicate()[0] for name, process in started.items()}
    for output in outputs.values():
        assert "status: finished:completed" in output, output
    return {
        name: (json.loads((home / f"{name}.json").read_text()), output)
        for name, output in outputs.items()
    }


@pytest.mark.parametrize(
    ("name", "chosen"), [("consistent", "ConsistentAggregation"), ("split", "SplitAggregation")]
)
def test_it_learns_and_says_so(notes, name, chosen):
    result, output = notes[name]
    assert result["strategy"] == chosen
    assert f"Starting {chosen} strategy" in output
    assert len(result["accuracy"]) == ROUNDS
    assert result["accuracy"][-1] > 0.8
    assert f"accuracy after round {ROUNDS}: {result['accuracy'][-1]:.3f}" in output


def test_what_is_personal_is_not_in_the_global_model(notes):
    both, shared = (set(notes[name][0]["shared"]) for name in ("consistent", "split"))
    assert both - shared == HEAD
    assert shared
