"""`rounds.csv` and `clients.csv` of a run directory: a row is a line, and a run may end in the middle of one."""

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from curvfed.strategies.config import ConfigError
from curvfed.strategies.store import write_atomically

TABLES = {
    "rounds.csv": (
        "round", "phase", "global_accuracy", "personal_accuracy_mean", "loss", "replies", "dropped", "bytes_up",
        "bytes_down", "seconds", "personal_accuracy_std", "score", "score_before", "validation", "seconds_training",
        "seconds_aggregation", "weights", "weights_l1", "norm_ratio", "aggregation_note", "classifier_cosine",
        "classifier_norm_gap", "reasons",
    ),
    "clients.csv": (
        "round", "phase", "partition", "test", "val", "accuracy", "test_before", "val_before", "accuracy_before", "loss",
        "num_examples", "weight", "steps", "curvature", "clipped", "points", "revealed", "vertices", "moved", "thinned",
        "bytes_up", "bytes_down", "seconds", "dropped",
    ),
}  # fmt: skip
"""Columns of each."""


def append(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add rows to one of the tables, and before the first one its columns."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, TABLES[path.name], lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)


def check_table(path: Path, last_round: int) -> None:
    """Refuse to go on with a table that a run with its last checkpoint at `last_round`, -1 for none, cannot have left.

    Raises
    ------
    ConfigError
        If it has other columns, or tells of later rounds.
    """
    lines = _lines(path)
    if lines and lines[0] != ",".join(TABLES[path.name]):
        raise ConfigError(f"resume = true: {path} has not the columns that this version of the app writes")
    # A round is in the tables before it is in a checkpoint, and of the last two checkpoints one may be torn.
    if max(map(_round, lines[1:]), default=0) > last_round + 2:
        raise ConfigError(
            f"resume = true: {path} tells of rounds long after the checkpoint's, {max(last_round, 0)}: one is lost; "
            "bring it back, or begin anew with another run-name"
        )


def truncate(path: Path, last_round: int) -> None:
    """Remove what a crashed run wrote of rounds after `last_round`."""
    lines = _lines(path)
    kept = lines[:1] + [line for line in lines[1:] if 0 <= _round(line) <= last_round]
    if kept:
        write_atomically(path, "".join(f"{line}\n" for line in kept).encode())
    else:
        path.unlink(missing_ok=True)


def _lines(path: Path) -> list[str]:
    """The whole lines: what follows the last end of one was being written when the run died, and may be all there is."""
    return path.read_text().split("\n")[:-1] if path.exists() else []


def _round(line: str) -> int:
    """A row's round, -1 where it is no row."""
    number = line.split(",", 1)[0]
    return int(number) if number.isdigit() else -1


def _cell(value: Any) -> Any:
    """Empty for None, and text on one line."""
    return "" if value is None else " ".join(value.split()) if isinstance(value, str) else value
