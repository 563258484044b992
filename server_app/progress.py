"""A run's progress in the log: a line where there was silence for a while."""

import logging
import time

log = logging.getLogger("curvfed")

ROUND_SILENCE, PHASE_SILENCE = 1.0, 5.0
"""Seconds of silence after which a round, or the replies of a slow phase, are worth a line."""


class Progress:
    """Says which round it is of how many."""

    def __init__(self, rounds: int) -> None:
        self._rounds, self._said = rounds, time.monotonic()

    def say(self, number: int, text: str, silence: float = 0.0) -> None:
        """A line about a round, if there was none for so many seconds."""
        now = time.monotonic()
        if now - self._said >= silence:
            self._said = now
            log.info("round %d/%d  %s", number, self._rounds, text)


def percent(value: float | None) -> str:
    """A share for the log."""
    return "-" if value is None else f"{100 * value:.2f}%"


def short(value: float | None) -> str:
    """A figure for the log."""
    return "-" if value is None else f"{value:.4f}"
