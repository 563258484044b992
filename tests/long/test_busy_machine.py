"""A comparison on a busy machine: undisturbed, and killed once in each of its steps."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from killed_commands import call, completed_runs, kill_in, start

BUSY = 8
WORDS = [
    *("compare", "dataset=trees", "methods=local,fedavg", "budget=6", "tuning-seeds=1", "seeds=2"),
    *("num-rounds=2", "num-supernodes=2", "embedding-dim=8", "schedule=constant"),
]


@pytest.fixture
def busy_cores() -> Iterator[None]:
    """Programs that take all the time that they get."""
    with ExitStack() as stack:
        for _ in range(BUSY):
            program = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(program.wait)
            stack.callback(program.kill)
        yield


def scores(folder: Path) -> list[tuple[Any, ...]]:
    rows = json.loads((folder / "comparison.json").read_text())["methods"]
    return [(row["method"], row["configuration"], row["seeds"], row["scores"]) for row in rows]


@pytest.mark.usefixtures("own_home", "busy_cores")
def test_a_comparison_killed_once_in_each_step_is_that_which_nobody_killed(tmp_path):
    whole = tmp_path / "whole"
    code, output = call(*WORDS, "--results", str(whole), cwd=tmp_path)
    assert code == 0, output
    steps = list(dict.fromkeys(re.findall(r"^trees: .*\(.+, (.+), .+\)$", output, re.MULTILINE)))
    assert {"tuning of rates", "tuning of other keys", "comparison"} <= set(steps)

    folder = tmp_path / "killed"
    words = [*WORDS, "--results", str(folder)]
    summaries: dict[str, tuple[int, bytes]] = {}
    kills = 0
    for step in steps:
        with start(*words, cwd=tmp_path) as process:
            kills += kill_in(process, step)  # unless its runs were made beside those of another
        runs = completed_runs(folder)
        assert {name: runs[name] for name in summaries} == summaries
        summaries = runs
    assert kills >= 3
    code, output = call(*words, cwd=tmp_path)
    assert code == 0, output
    runs = completed_runs(folder)
    assert {name: runs[name] for name in summaries} == summaries
    assert set(runs) == set(completed_runs(whole))
    assert scores(folder) == scores(whole)

    # Once more: nothing is made again.
    code, output = call(*words, cwd=tmp_path)
    assert code == 0, output
    assert completed_runs(folder) == runs
