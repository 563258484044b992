"""The progress of many runs: one moving line on a terminal, a line per run elsewhere."""

import time
from types import TracebackType
from typing import NamedTuple

from rich.console import Console
from rich.live import Live
from rich.text import Text

from curvfed.extensions.sweeps.commands.pages.study import Planned
from curvfed.extensions.sweeps.commands.sweep import LOGS

MAX_ERROR = 200
"""Printed characters of an error; the table has all of them."""


class Ended(NamedTuple):
    """An ended run.

    Attributes
    ----------
    run : Planned
    error : str
        The reason of its failure; empty if it completed.
    seconds : float
        0 for a run that was refused, or ended with its process.
    """

    run: Planned
    error: str
    seconds: float


class Counts(NamedTuple):
    """Numbers of runs.

    Attributes
    ----------
    total : int
        All runs of the command.
    done, failed : int
        The completed ones, of earlier commands too, and the failed ones.
    running : int
    is_about : bool
        Whether the total is an estimate.
    """

    total: int
    done: int
    failed: int
    running: int
    is_about: bool = False

    @property
    def remaining(self) -> int:
        """The number of runs that have not ended."""
        return max(self.total - self.done - self.failed, self.running)


class Progress:
    """Shows the numbers of completed, running and failed runs, and the remaining time.

    Parameters
    ----------
    console : rich.console.Console
    title : str
    """

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._counts = Counts(0, 0, 0, 0)
        self._made = 0
        self._begun = self._last = time.monotonic()
        # The line is redrawn every second, so that the time counts down.
        self._live = Live(get_renderable=self._line, console=console, refresh_per_second=1)

    def __enter__(self) -> "Progress":
        if self._console.is_terminal:
            self._live.start(refresh=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._counts = self._counts._replace(running=0)
        self._live.stop()

    def show(self, counts: Counts, ended: Ended | None = None, words: str = "") -> None:
        """Show the numbers, after the end of a run with its words, such as its method."""
        self._counts = counts
        if ended is not None and ended.seconds:
            self._made += 1
            self._last = time.monotonic()
        if ended is not None and ended.error:
            self._show_error(ended)
        if self._console.is_terminal:
            self._live.refresh()
        else:
            more = "" if ended is None else f"   ({words or ended.run.name}, {span(ended.seconds)})"
            self._console.print(self._line(), more, sep="")

    def _show_error(self, ended: Ended) -> None:
        words = " ".join(ended.error.split())
        if len(words) > MAX_ERROR:
            words = f"{words[:MAX_ERROR]}… (see {LOGS}/{ended.run.name}.log)"
        self._console.print(Text.assemble(("failed", "red"), f" {ended.run.name}: {words}"))

    def _line(self) -> Text:
        """The current line."""
        counts = self._counts
        about = "about " if counts.is_about else ""
        words = Text(f"{self._title}: {counts.done} of {about}{counts.total} done")
        if counts.running:
            words.append(f", {counts.running} running")
        if counts.failed:
            words.append(", ").append(f"{counts.failed} failed", "red")
        if self._made and counts.running:
            mean = (self._last - self._begun) / self._made
            seconds = mean * counts.remaining - (time.monotonic() - self._last)
            if seconds >= 1:
                words.append(f", {span(seconds)} left")
        return words


def span(seconds: float) -> str:
    """A time in words."""
    for length, word in ((3600, "h"), (60, "min")):
        if seconds >= 1.5 * length:
            digits = 1 if seconds < 10 * length else 0
            return f"{seconds / length:.{digits}f} {word}"
    return f"{seconds:.0f} s"
