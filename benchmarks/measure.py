"""A row of the table, and the loop that measures it: pairs of calls in turn, so that both share the
machine's moods."""

import contextlib
import ctypes
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from threadpoolctl import threadpool_limits

Call = Callable[[], Any]
Pair = tuple[Call, Call | float]


@dataclass(frozen=True)
class Place:
    """Where rows find data (None: the built-in ones), on which device steps and networks run, and
    how large rows are.

    Quick rows are small and measured once: whether they work, not how fast they are. `before` is an
    older checkout to compare with.
    """

    data: Path | None = None
    device: str = "cpu"
    quick: bool = False
    before: Path | None = None

    @property
    def processor(self) -> str:
        """The kind of the device, cpu or cuda."""
        return self.device.partition(":")[0]

    @property
    def graph(self) -> str:
        """The data set of graphs."""
        return "cora" if self.data else "trees"

    def size(self, full: Any, quick: Any) -> Any:
        """One of two sizes."""
        return quick if self.quick else full


class Row(NamedTuple):
    """One comparison: what is held against what.

    `make` sets everything up and returns our call and the other's, or ours and a number of seconds.
    The ratio is not to exceed the goal. There are `repeats` pairs of measurements, of `calls` calls
    each: microseconds need many. If `is_figure` is set, the calls return the
    figure themselves, and are neither timed nor called to warm up. `buys` is a clause on what the
    longer time buys, of a row that misses its goal or has none.
    """

    what: str
    against: str
    make: Callable[[], Pair]
    goal: float | None = None
    repeats: int = 5
    calls: int = 1
    is_figure: bool = False
    buys: str = ""


@dataclass(frozen=True)
class Ratio:
    """Median seconds, the smallest and the largest ratio of a pair, and the most memory that one
    call takes, if known."""

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


def measure(row: Row, quick: bool = False) -> Ratio:
    """Set a row up, warm up, measure in turn, and see how much memory one more call takes; on one
    thread."""
    torch.set_num_threads(1)
    with threadpool_limits(1, user_api="blas"):
        ours, theirs = row.make()
        repeats, calls = (1, 1) if quick else (row.repeats, row.calls)
        timed = [call for call in (ours, theirs) if callable(call) and not row.is_figure]
        # geoopt compiles its functions at their second call
        for _ in range(1 if calls == 1 else 3):
            for call in timed:
                call()
        pairs = [(_figure(ours, row, calls), _figure(theirs, row, calls)) for _ in range(repeats)]
        ratios = [ours / theirs for ours, theirs in pairs]
        ours_median, theirs_median = (
            statistics.median(values) for values in zip(*pairs, strict=True)
        )
        return Ratio(
            ours_median, theirs_median, min(ratios), max(ratios), *map(peak_bytes, timed[:2])
        )


def _figure(call: Call | float, row: Row, calls: int) -> float:
    return call if not callable(call) else float(call()) if row.is_figure else seconds(call, calls)


def seconds(call: Call, calls: int = 1) -> float:
    """Of one call, by the mean of several in a row."""
    started = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - started) / calls


def peak_bytes(call: Call) -> int | None:
    """The most memory during a call beyond that before it: of the GPU in use, else what is
    resident; None if not known."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        return torch.cuda.max_memory_allocated() - before
    try:
        # what the allocator keeps would serve the call unseen
        with contextlib.suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # Linux forgets the peak so far
        before = _resident("VmRSS")
        call()
        return max(0, _resident("VmHWM") - before)
    except OSError:
        return None


def _resident(field: str) -> int:
    _, _, rest = Path("/proc/self/status").read_text().partition(f"{field}:")
    return 1024 * int(rest.split()[0])
