"""Interleaved repeats and the ratio of medians: what is compared shares the machine's moods."""

import ctypes
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

_SELF = Path("/proc/self")


@dataclass(frozen=True)
class Ratio:
    """Seconds of a thing and of what it is held against.

    Attributes
    ----------
    ours, theirs : float
        Medians, in seconds.
    low, high : float
        Smallest and largest ratio of the pairs.
    ours_bytes, theirs_bytes : int or None
        The most memory during a call beyond that before it; None where it was not, or cannot be, measured.
    """

    ours: float
    theirs: float
    low: float
    high: float
    ours_bytes: int | None = None
    theirs_bytes: int | None = None

    @property
    def ratio(self) -> float:
        """Ours over theirs, by medians."""
        return self.ours / self.theirs


def compare(ours: Callable[[], object], theirs: Callable[[], object], repeats: int, calls: int = 1) -> Ratio:
    """Time two callables in turn, after one call of each to warm up, and see how much memory one more call takes.

    Parameters
    ----------
    repeats : int
        Pairs of measurements.
    calls : int
        Of each callable in a measurement: what takes microseconds is called often.
    """
    ours(), theirs()
    pairs = [(seconds(ours, calls), seconds(theirs, calls)) for _ in range(repeats)]
    ratios = [one / other for one, other in pairs]
    return Ratio(
        statistics.median(one for one, _ in pairs),
        statistics.median(other for _, other in pairs),
        min(ratios),
        max(ratios),
        peak_bytes(ours),
        peak_bytes(theirs),
    )


def against_budget(told: Callable[[], float], budget: float, repeats: int) -> Ratio:
    """What tells its own seconds, against a number of seconds."""
    found = [told() for _ in range(repeats)]
    return Ratio(statistics.median(found), budget, min(found) / budget, max(found) / budget)


def peak_bytes(call: Callable[[], object]) -> int | None:
    """The most memory during a call beyond that before it: of the GPU where there is one in use, else what is resident;
    None where the system does not tell it."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.reset_peak_memory_stats()
        there = torch.cuda.memory_allocated()
        call()
        return torch.cuda.max_memory_allocated() - there
    try:
        _trim()
        (_SELF / "clear_refs").write_text("5")  # Linux forgets the peak so far
        before = _resident("VmRSS")
        call()
        return max(0, _resident("VmHWM") - before)
    except OSError:
        return None


def _resident(field: str) -> int:
    lines = (_SELF / "status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def _trim() -> None:
    """Give back what the allocator keeps, from which a call would be served unseen."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)


def seconds(call: Callable[[], object], calls: int = 1) -> float:
    """Of one call, by the mean of several in a row."""
    started = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - started) / calls
