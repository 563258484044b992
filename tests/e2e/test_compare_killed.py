"""Comparisons that are killed and interrupted in the middle."""

import json
from typing import Any

import pytest
from killed_commands import call, completed_runs, kill_in, start

COMMON = ["learning-rate=0.05", "tuning-seeds=1", "seeds=2", "num-supernodes=2", "embedding-dim=8"]
TREES = ["dataset=trees", "methods=local,fedavg", "budget=2", "num-rounds=2", "schedule=constant"]


@pytest.mark.long  # in one process it is interrupted and goes on in test_compare.py
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
