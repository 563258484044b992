"""Whole commands against an older checkout's, or a bare import, in processor seconds of all of
their processes: those of a busy machine are nearly as long as those of an idle one. Comparisons are
in seconds of the clock, because an older checkout runs them in Ray, whose processes are no children
of the command."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks import TESTS
from benchmarks.measure import Place, Row

METHODS = "local,fedavg,fedper,fedprox,flatland"

REPEATS = 3


def rows(place: Place) -> list[Row]:
    """The start against torch's, and rows if there is an older checkout to compare with."""
    here = TESTS.parent
    start = Row(
        "processor seconds of `simulate` of one round with one client, report off",
        "a process that imports torch",
        lambda: (partial(_processor, here, _start), partial(_processor, here, _import)),
        1.37,
        place.size(2 * REPEATS, 1),
        is_figure=True,
    )
    before = place.before
    if before is None:
        return [start]
    rounds = place.size(20, 1)
    comparison = partial(_comparison, place, rounds)
    return [
        start,
        Row(
            "processor seconds of `simulate` of one round with one client",
            "an older checkout",
            lambda: (partial(_processor, here, _start), partial(_processor, before, _start)),
            0.75,
            place.size(REPEATS, 1),
            is_figure=True,
        ),
        Row(
            f"`compare` of five methods on {place.graph}, {rounds} rounds, 10 clients",
            "an older checkout",
            lambda: (partial(_clock, here, comparison), partial(_clock, before, comparison)),
            0.5,
            place.size(REPEATS, 1),
            is_figure=True,
        ),
    ]


def _import(folder: str) -> list[str]:
    return ["-c", "import torch"]


def _start(folder: str) -> list[str]:
    pairs = ["num-supernodes=1", "num-rounds=1", "report=false", f"results-dir={folder}"]
    return ["-m", "curvfed", "simulate", "method=fedavg", *pairs]


def _comparison(place: Place, rounds: int, folder: str) -> list[str]:
    pairs = [f"dataset={place.graph}", f"methods={METHODS}", f"num-rounds={rounds}"]
    pairs += ["num-supernodes=10", "budget=2", "tuning-seeds=1", "seeds=2"]
    # Rates and decays are swept as far as the scores lead; both checkouts make the same runs.
    pairs += ["learning-rate=0.01", "weight-decay=0.0005"]
    data = ["--data", str(place.data)] if place.data else []
    return ["-m", "curvfed", "compare", *pairs, *data, "--results", f"{folder}/results"]


def _clock(checkout: Path, words: Callable[[str], Sequence[str]]) -> float:
    """Seconds of a command, as a user waits for it."""
    started = time.perf_counter()
    _run(checkout, words)
    return time.perf_counter() - started


def _processor(checkout: Path, words: Callable[[str], Sequence[str]]) -> float:
    """Processor seconds of a command and of its children."""
    usage = _run(checkout, words)
    return usage.ru_utime + usage.ru_stime


def _run(checkout: Path, words: Callable[[str], Sequence[str]]) -> resource.struct_rusage:
    """Run Python with these arguments, this checkout's code and an empty home."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, *words(folder)],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(checkout), "HOME": folder, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"the command ended with status {process.returncode}")
    return usage
