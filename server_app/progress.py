"""Progress of a run in the log: a line after some seconds without one."""

import logging
import time
from collections.abc import Mapping
from typing import Any

from curvfed.strategies.base.figures import GLOBAL_ACCURACY, find

log = logging.getLogger("curvfed")

ROUND_SILENCE = 1.0
PHASE_SILENCE = 5.0
"""Seconds without a line after which a round, or the replies of a slow phase, are logged."""


class Progress:
    """Logs the number of the round and of all rounds."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self._said = time.monotonic()

    def say(self, number: int, text: str, silence: float = 0.0) -> None:
        """Log a line about a round, unless the last line is less than `silence` seconds old."""
        now = time.monotonic()
        if now - self._said >= silence:
            self._said = now
            place = {"rounds": (number, self.rounds)}  # by which a notebook knows the line
            log.info("round %d/%d  %s", number, self.rounds, text, extra=place)


def in_words(row: Mapping[str, Any], metric: str) -> str:
    """The figures of a round in `rounds.csv` for the log."""
    columns = {
        GLOBAL_ACCURACY: "global",
        "score": "AUC" if metric == "roc_auc" else "accuracy",
        "loss": "loss",
    }
    texts = [
        f"{words} {find(column).text(row[column])}"
        for column, words in columns.items()
        if row[column] is not None
    ]
    texts.append(f"{row['seconds']:.2f} s")
    if row["dropped"]:
        texts.append(f"{row['dropped']} dropped")
    return "  ".join(texts)
