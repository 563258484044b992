"""Waits that neither take their time nor depend on the machine's speed."""

import subprocess
import time
from collections.abc import Callable


class PausedClock:
    """A time that passes only while somebody sleeps, in the place of the module `time`.

    Attributes
    ----------
    now : float
        Seconds since the clock was made.
    """

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self.now

    time = perf_counter = monotonic

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


def popen_out_of_time(limit: float, is_due: Callable[[], bool]) -> type[subprocess.Popen]:
    """A `Popen` whose wait of `limit` seconds ends as soon as something is true."""

    class OutOfTime(subprocess.Popen):
        def wait(self, timeout: float | None = None) -> int:
            if timeout != limit:
                return super().wait(timeout)
            while not is_due():
                assert self.poll() is None
                time.sleep(0.01)
            raise subprocess.TimeoutExpired(self.args, timeout)

    return OutOfTime
