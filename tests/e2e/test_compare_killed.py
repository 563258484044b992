"""Comparisons that are killed and interrupted in the middle."""

import json
import os
import signal
from typing import Any

import pytest
from graph_fixtures import write_user_graph
from image_fixtures import write_classes
from killed_commands import (
    LONG,
    await_line,
    call,
    completed_runs,
    family,
    have_ended,
    kill_in,
    start,
)

COMMON = [
    "learning-rate=0.05",
    "tuning-seeds=1",
    "seeds=2",
    "num-supernodes=2",
    "embedding-dim=8",
]
TREES = ["dataset=trees", "methods=local,fedavg", "budget=2", "num-rounds=2", "schedule=constant"]


def test_a_comparison_killed_in_its_first_and_last_step_goes_on(own_home, tmp_path):
    folder = tmp_path / "runs"
    words = ["compare", *TREES, *COMMON, "--results", str(folder)]
    summaries = {}
    for step in ("tuning of rates", "comparison"):
        with start(*words, cwd=tmp_path) as process:
            assert kill_in(process, step)
        runs = completed_runs(folder)
        assert {name: runs[name] for name in summaries} == summaries
        assert len(runs) > len(summaries)
        summaries = runs
    code, output = call(*words, cwd=tmp_path)
    assert code == 0, output
    runs = completed_runs(folder)
    assert {name: runs[name] for name in summaries} == summaries
    comparison = json.loads((folder / "comparison.json").read_text())
    assert len(runs) == expected_runs(comparison)
    assert comparison["answers"][-1] in output


def expected_runs(comparison: dict[str, Any]) -> int:
    """The number of runs: each configuration that was tried on one seed, each choice on two."""
    rows = comparison["methods"]
    return sum(row["tried"] for row in rows) + 2 * len(rows)


OWN = {
    "graph": (
        lambda path: write_user_graph(path),
        "mine.pt",
        ["methods=local,fedavg,flatland", "num-rounds=60"],
    ),
    "images": (
        lambda path: write_classes(path, {"cat": 60, "dog": 60}, shape=(16, 16)),
        "pictures/",
        ["methods=fedavg,spherefed", "num-rounds=15", "local-epochs=2"],
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", OWN)
def test_a_comparison_that_is_killed_and_interrupted_goes_on_and_ends_with_an_answer(
    own_home, tmp_path, kind
):
    write, name, words = OWN[kind]
    write(tmp_path / name)
    folder = tmp_path / "runs"
    command = ["compare", f"dataset={name}", *words, *COMMON, "budget=3"]
    command += ["--results", str(folder)]

    with start(*command, cwd=tmp_path) as process:
        assert kill_in(process, "tuning of rates")
    first = completed_runs(folder)

    with start(*command, cwd=tmp_path) as process:
        await_line(process, "comparison: ")
        processes = family(process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        output = process.communicate(timeout=LONG)[0]
        assert process.returncode in (0, 130), output  # a quick machine may have come to the end
        assert have_ended(processes)
    second = completed_runs(folder)
    assert {name: second[name] for name in first} == first

    code, output = call(*command, cwd=tmp_path)
    assert code == 0, output
    last = completed_runs(folder)
    assert {name: last[name] for name in second} == second
    comparison = json.loads((folder / "comparison.json").read_text())
    assert comparison["answers"][-1] in output
    assert {len(row["scores"]) for row in comparison["methods"]} == {2}
    assert len(last) == expected_runs(comparison)
