"""A round of training under secure sums against an older checkout's, in processor seconds: those of
a busy machine are as long as those of an idle one."""

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks import TESTS
from benchmarks.measure import Pair, Place, Row

ROUNDS_BY_MEMBERS = {50: 5, 1_000: 1}
GOAL = 1.15
REPEATS = 3

PROGRAM = """
import logging, sys, time
from curvfed.deployments.inprocess import simulate

clients, rounds, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
logging.getLogger("curvfed").addHandler(logging.NullHandler())
settings = {
    "method": "fedavg", "dataset": "trees", "secure-sum": True, "results-dir": folder,
    "report": False,
}
started = time.process_time()
simulate(settings | {"num-rounds": rounds}, clients)
print((time.process_time() - started) / rounds)
"""
"""Prints the processor seconds per round of a run, without imports."""


def rows(place: Place) -> list[Row]:
    """Rows if there is an older checkout to compare with."""
    if place.before is None:
        return []
    here = TESTS.parent
    return [
        Row(
            f"processor seconds of a masked round of {members} members",
            "an older checkout",
            partial(_pair, here, place.before, members, rounds),
            GOAL,
            REPEATS,
            is_figure=True,
        )
        for members, rounds in ROUNDS_BY_MEMBERS.items()
    ]


def _pair(here: Path, before: Path, members: int, rounds: int) -> Pair:
    return partial(_seconds, here, members, rounds), partial(_seconds, before, members, rounds)


def _seconds(checkout: Path, members: int, rounds: int) -> float:
    """Processor seconds of a round with this checkout's code."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(members), str(rounds), folder],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(checkout), "HOME": folder, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout.split()[-1])
