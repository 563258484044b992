"""Inner products of many clients' deviations against one matrix product of as many numbers."""

import threading
import tracemalloc

import numpy as np
import psutil
from threadpoolctl import threadpool_limits

from benchmarks.timing import Ratio, compare
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.deviations import gram

REPEATS = 5
PARTS = 60  # arrays of a model, as in ResNet18


def gram_against_one_product(num: int = 20, length: int = 11_000_000) -> Ratio:
    """`curvfed.strategies.base.deviations.gram` of `num` models against rows @ rows.T, one BLAS thread for both."""
    start, models, rows = make_models(num, length)
    with threadpool_limits(1, user_api="blas"):
        return compare(lambda: gram(start, models), lambda: rows @ rows.T, REPEATS)


def gram_ratio(num: int = 20, length: int = 11_000_000) -> tuple[float, int]:
    """Our rate over that of one matrix product, and the memory that we take beyond the models.

    Returns
    -------
    ratio : float
        1 is as fast; medians of interleaved repeats on one BLAS thread.
    extra : int
        Bytes: the larger of what Python's allocators and what the process took more at any time.
    """
    ratio = 1 / gram_against_one_product(num, length).ratio
    start, models, _ = make_models(num, length)
    return ratio, _extra_memory(start, models)


def make_models(num: int, length: int) -> tuple[Arrays, list[Arrays], np.ndarray]:
    """A start, models as pieces of the rows of one matrix, and the matrix."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((num, length), dtype=np.float32)
    cuts = np.sort(rng.integers(0, length, PARTS - 1))

    def pieces(row: np.ndarray) -> Arrays:
        return {f"{i}.weight": piece for i, piece in enumerate(np.split(row, cuts))}

    return pieces(rng.standard_normal(length, dtype=np.float32)), [pieces(row) for row in rows], rows


def _extra_memory(start: Arrays, models: list[Arrays]) -> int:
    process, done = psutil.Process(), threading.Event()
    before = peak = process.memory_info().rss

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.001):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    tracemalloc.start()
    try:
        gram(start, models)
        traced = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        done.set()
        watcher.join()
    return int(max(traced, peak - before))
