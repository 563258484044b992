"""Interleaved repeats and the ratio of medians: what is compared shares the machine's moods."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """Seconds of a thing and of what it is held against.

    Attributes
    ----------
    ours, theirs : float
        Medians, in seconds.
    low, high : float
        Smallest and largest ratio of the pairs.
    """

    ours: float
    theirs: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        """Ours over theirs, by medians."""
        return self.ours / self.theirs


def compare(ours: Callable[[], object], theirs: Callable[[], object], repeats: int) -> Ratio:
    """Time two callables in turn, after one call of each to warm up."""
    ours(), theirs()
    pairs = [(_seconds(ours), _seconds(theirs)) for _ in range(repeats)]
    ratios = [one / other for one, other in pairs]
    return Ratio(
        statistics.median(one for one, _ in pairs),
        statistics.median(other for _, other in pairs),
        min(ratios),
        max(ratios),
    )


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
