"""Progress of a run in the log: a line after some seconds without one."""

import logging
import time
from collections.abc import Mapping
from typing import Any

log = logging.getLogger("curvfed")

ROUND_SILENCE = 1.0
PHASE_SILENCE = 5.0
"""Seconds without a line after which a round, or the replies of a slow phase, are logged."""


class Progress:
    """Logs the number of the round and of all rounds."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._said = time.monotonic()

    def say(self, number: int, text: str, silence: float = 0.0) -> None:
        """Log a line about a round, unless the last line is less than `silence` seconds old."""
        now = time.monotonic()
        if now - self._said >= silence:
            self._said = now
            place = {"rounds": (number, self._rounds)}  # by which a notebook knows the line
            log.info("round %d/%d  %s", number, self._rounds, text, extra=place)


def percent(value: float | None) -> str:
    """A share as a percentage for the log; "-" for None."""
    return "-" if value is None else f"{100 * value:.2f}%"


def in_words(row: Mapping[str, Any], metric: str) -> str:
    """The figures of a round in `rounds.csv` for the log."""
    of_global = (
        "" if row["global_accuracy"] is None else f"global {percent(row['global_accuracy'])}  "
    )
    word = "AUC" if metric == "roc_auc" else "accuracy"
    loss = "-" if row["loss"] is None else f"{row['loss']:.4f}"
    dropped = f"  {row['dropped']} dropped" if row["dropped"] else ""
    return (
        f"{of_global}{word} {percent(row['score'])}  loss {loss}  {row['seconds']:.2f} s{dropped}"
    )
