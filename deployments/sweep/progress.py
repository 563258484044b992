"""How far a sweep is: a line that moves on a terminal, a line per run elsewhere."""

import time
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.markup import escape

from deployments.sweep.runner import Ended


class Progress:
    """Done, running, failed, time left; a context manager, called with each run that ends.

    Parameters
    ----------
    console : rich.console.Console
    title : str
    total, done : int
        Runs of the sweep, and those that had completed before.
    """

    def __init__(self, console: Console, title: str, total: int, done: int) -> None:
        self._console, self._title, self._total = console, title, total
        self._done = done
        self._running = self.failed = self._made = 0
        self._begun = time.monotonic()
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> "Progress":
        if self._live is not None:
            self._live.start()
        self._show()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running = 0
        self._show()
        if self._live is not None:
            self._live.stop()

    def __call__(self, ended: Ended | None, running: int) -> None:
        """Take in a run that ended, if one did, and how many are being made."""
        self._running = running
        if ended is not None:
            self._done += not ended.error
            self.failed += bool(ended.error)
            self._made += ended.seconds > 0
            if ended.error:
                self._console.print(f"[red]failed[/red] {ended.run.name}: {escape(ended.error)}", highlight=False)
        self._show(ended)

    def _show(self, ended: Ended | None = None) -> None:
        words = f"{escape(self._title)}: {self._done} of {self._total} done"
        words += f", {self._running} running" if self._running else ""
        words += f", [red]{self.failed} failed[/red]" if self.failed else ""
        words += self._left()
        if self._live is not None:
            self._live.update(words, refresh=True)
        elif ended is not None:
            self._console.print(f"{words}   ({ended.run.name}, {ended.seconds:.0f} s)", highlight=False)
        else:
            self._console.print(words, highlight=False)

    def _left(self) -> str:
        """By the mean of the runs made so far, whatever their kinds."""
        left = self._total - self._done - self.failed
        if not self._made or not left:
            return ""
        seconds = (time.monotonic() - self._begun) / self._made * left
        return f", {seconds / 60:.0f} min left" if seconds > 90 else f", {seconds:.0f} s left"
