"""Progress of a run in the log: a line after some seconds without one."""

import logging
import time

log = logging.getLogger("curvfed")

ROUND_SILENCE, PHASE_SILENCE = 1.0, 5.0
"""Seconds without a line after which a round, or the replies of a slow phase, are logged."""


class Progress:
    """Logs the number of the round and of all rounds."""

    def __init__(self, rounds: int) -> None:
        self._rounds, self._said = rounds, time.monotonic()

    def say(self, number: int, text: str, silence: float = 0.0) -> None:
        """Log a line about a round, unless the last line is less than `silence` seconds old."""
        now = time.monotonic()
        if now - self._said >= silence:
            self._said = now
            log.info("round %d/%d  %s", number, self._rounds, text)


def percent(value: float | None) -> str:
    """A share as a percentage for the log; "-" for None."""
    return "-" if value is None else f"{100 * value:.2f}%"


def short(value: float | None) -> str:
    """A figure with 4 decimals for the log; "-" for None."""
    return "-" if value is None else f"{value:.4f}"
