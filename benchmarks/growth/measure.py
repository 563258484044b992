"""Points of a curve: median seconds and the most memory at each size, as far as time and memory allow."""

import gc
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

from benchmarks.growth.curves import Curve
from benchmarks.growth.work import Call
from benchmarks.timing import peak_bytes

SHARE = 0.5
"""Of the free memory that a size may take."""


@dataclass(frozen=True)
class Point:
    """What was found at one size.

    Attributes
    ----------
    size : int
    seconds : float
        Median of the repeats, after one call to warm up; what takes seconds is repeated once.
    bytes : int or None
        The most memory that a call had beyond what the process had before it; None where the system does not tell it.
    repeats : int
    """

    size: int
    seconds: float
    bytes: int | None
    repeats: int


@dataclass(frozen=True)
class Measured:
    """A curve as measured.

    Attributes
    ----------
    points : list of Point
    left_out : list of int
        The sizes that were to be measured and were not.
    reason : str
        Why not: time or memory.
    cap : float
        Seconds that there were for all points.
    """

    points: list[Point]
    left_out: list[int]
    reason: str = ""
    cap: float = 0.0


@dataclass(frozen=True)
class _Spent:
    """What a point took: seconds in all, those for setting up and those of one call, and bytes."""

    total: float
    setting_up: float
    call: float
    held: int


def measure(curve: Curve, sizes: Sequence[int], cap: float) -> Measured:
    """The points of a curve, up to the size that would not fit.

    Parameters
    ----------
    sizes : sequence of int
        Ascending.
    cap : float
        Seconds for all of them, what is not timed included.
    """
    points: list[Point] = []
    spent: list[_Spent] = []
    for place, size in enumerate(sizes):
        if points and (reason := _too_much(curve, sizes[:place], size, spent, cap)):
            return Measured(points, list(sizes[place:]), reason, cap)
        point, took = _point(curve.make, size)
        points.append(point)
        spent.append(took)
    return Measured(points, [], "", cap)


def _too_much(curve: Curve, sizes: Sequence[int], size: int, spent: list[_Spent], cap: float) -> str:
    """Why a size is not measured, or "": time and memory by those of the sizes before."""
    ratio, slope, last = size / sizes[-1], curve.expected, spent[-1]
    if len(spent) > 1:
        found = math.log(last.call / spent[-2].call) / math.log(sizes[-1] / sizes[-2])
        slope = min(max(slope, found), slope + 1)  # two points tell little
    call = last.call * ratio**slope
    if sum(one.total for one in spent) + last.setting_up * ratio**slope + call * (2 + _repeats(call)) > cap:
        return "time"
    return "memory" if last.held * ratio**curve.expected > SHARE * psutil.virtual_memory().available else ""


def _repeats(seconds: float) -> int:
    return 25 if seconds < 0.02 else 5 if seconds < 2 else 1


def _point(make: Callable[[int], Call], size: int) -> tuple[Point, _Spent]:
    """A point, and what it took."""
    gc.collect()
    process, started = psutil.Process(), time.perf_counter()
    before = process.memory_info().rss
    call = make(size)
    data, ready = max(0, process.memory_info().rss - before), time.perf_counter()
    repeats = _repeats(_seconds(call))
    seconds = statistics.median(_seconds(call) for _ in range(repeats))
    peak = peak_bytes(call)
    total = time.perf_counter() - started
    return Point(size, seconds, peak, repeats), _Spent(total, ready - started, seconds, data + (peak or 0))


def _seconds(call: Call) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def told(found: Measured) -> str:
    """The points in one line."""
    parts = [f"{point.size:,}: {point.seconds:.3g} s, {(point.bytes or 0) / 1e6:.1f} MB" for point in found.points]
    return "  " + "; ".join(parts) + (f"; left out for {found.reason}: {found.left_out}" if found.left_out else "")
