"""The progress of a sweep: one moving line on a terminal, a line per run elsewhere."""

import time
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from curvfed.deployments.sweep.results import LOGS, Ended

MAX_ERROR = 200
"""Printed characters of an error; the table has all of them."""


class Progress:
    """Shows the numbers of completed, running and failed runs, and the remaining time; called at
    the end of each run.

    Parameters
    ----------
    console : rich.console.Console
    title : str
    total, done : int
        The number of runs of the sweep, and of those completed before.
    """

    def __init__(self, console: Console, title: str, total: int, done: int) -> None:
        self._console = console
        self._title = title
        self._total = total
        self._done = done
        self._running = self.failed = self._made = 0
        self._begun = self._last = time.monotonic()
        # On a terminal the line is redrawn every second, so that the time counts down; elsewhere it
        # is drawn once.
        self._live = Live(get_renderable=self._line, console=console, refresh_per_second=1)

    def __enter__(self) -> "Progress":
        self._live.start(refresh=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._running = 0
        self._live.stop()
        if not self._console.is_terminal:
            self._console.line()

    def __call__(self, ended: Ended | None, running: int) -> None:
        """Count an ended run, and show the number of running ones."""
        self._running = running
        words = ""
        if ended is not None:
            words = f"   ({ended.run.name}, {span(ended.seconds)})"
            self._done += not ended.error
            self.failed += bool(ended.error)
            if ended.seconds:
                self._made += 1
                self._last = time.monotonic()
            if ended.error:
                self._show_error(ended)
        if self._console.is_terminal:
            self._live.refresh()
        else:
            self._console.print(self._line(), words, sep="", highlight=False, markup=False)

    def _show_error(self, ended: Ended) -> None:
        words = " ".join(ended.error.split())
        if len(words) > MAX_ERROR:
            words = f"{words[:MAX_ERROR]}… (see {LOGS}/{ended.run.name}.log)"
        self._console.print(f"[red]failed[/red] {ended.run.name}: {escape(words)}", highlight=False)

    def _line(self) -> Text:
        """The current line."""
        words = f"{escape(self._title)}: {self._done} of {self._total} done"
        if self._running:
            words += f", {self._running} running"
        if self.failed:
            words += f", [red]{self.failed} failed[/red]"
        remaining = self._total - self._done - self.failed
        if self._made and self._running and remaining:
            mean = (self._last - self._begun) / self._made
            seconds = mean * remaining - (time.monotonic() - self._last)
            if seconds >= 1:
                words += f", {span(seconds)} left"
        return Text.from_markup(words)


def span(seconds: float) -> str:
    """A time in words."""
    for length, word in ((3600, "h"), (60, "min")):
        if seconds >= 1.5 * length:
            digits = 1 if seconds < 10 * length else 0
            return f"{seconds / length:.{digits}f} {word}"
    return f"{seconds:.0f} s"
