"""The run directory. Here are its tables `rounds.csv` and `clients.csv`; a killed run may leave an
incomplete last line."""

import csv
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curvfed.strategies.base.figure import CLIENT, ROUND
from curvfed.strategies.base.figures import names
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.stored_files import write_atomically

if TYPE_CHECKING:  # pandas takes a second to import
    from pandas import DataFrame

KEYS = ("round", "phase")
"""The first columns of both tables."""

TABLES = {
    "rounds.csv": (*KEYS, *names(ROUND), "weights", "aggregation_note", "reasons"),
    "clients.csv": (*KEYS, "partition", *names(CLIENT), "dropped"),
}
"""Columns of each table: keys, figures, texts. The method's own columns follow in `rounds.csv`, in
the order of their first appearance."""

TEXTS = {
    "rounds.csv": ("phase", "weights", "aggregation_note", "reasons"),
    "clients.csv": ("phase", "dropped"),
}
"""Columns of text."""

_FORMULA = tuple("=+-@\t\r")

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


def is_number(value: Any) -> bool:
    """Whether a value is a finite number and not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def append(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Append rows to one of the tables; the first call also writes the header.

    A new column is added to the whole table; it is empty in the existing rows.

    Raises
    ------
    ConfigError
        If a new column has an invalid name.
    """
    rows = list(rows)
    existing = []
    if path.exists():
        with path.open(encoding="utf-8") as file:
            existing = file.readline().rstrip("\n").split(",")
    columns = list(existing or TABLES[path.name])
    for row in rows:
        columns += [name for name in row if name not in columns]
    if columns != existing:
        if invalid := [name for name in columns if not _NAME.fullmatch(name)]:
            raise ConfigError(
                f"{path.name}: the method reports a figure named {invalid[0]!r}; allowed is a name"
                " of up to 64 letters, digits and . _ -, the first a letter",
                key="figure-name",
            )
        empty_cells = "," * (len(columns) - len(existing))
        lines = [",".join(columns), *(line + empty_cells for line in _lines(path)[1:])]
        write_atomically(path, "".join(f"{line}\n" for line in lines).encode(), private=True)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        for row in rows:
            writer.writerow({name: _cell(value) for name, value in row.items()})


def check_table(path: Path, last_round: int) -> None:
    """Refuse a table that does not fit a run with the last checkpoint `last_round`, -1 for none.

    Raises
    ------
    ConfigError
        If it is missing after the first round, or has other columns, or rows of much later rounds.
    """
    if last_round > 0 and not path.exists():
        raise ConfigError(
            f"resume = true: {path} is missing, with the rows of rounds up to {last_round}; restore"
            " it, or make an empty file of this name to go on without them",
            key="missing-table",
        )
    lines = _lines(path)
    ours = TABLES[path.name]
    if lines and tuple(lines[0].split(",")[: len(ours)]) != ours:
        raise ConfigError(
            f"resume = true: {path} does not have the columns of this version of the app",
            key="other-columns",
        )
    # Tables are written before the checkpoint, and one of the last two checkpoints may be damaged.
    if max(map(_round, lines[1:]), default=0) > last_round + 2:
        raise ConfigError(
            f"resume = true: {path} has rounds long after the last checkpoint,"
            f" {max(last_round, 0)}: a checkpoint is lost; restore it, or start a new run with"
            " another run-name",
            key="lost-checkpoint",
        )


def truncate(path: Path, last_round: int) -> None:
    """Remove rows of rounds after `last_round`, left by a crash."""
    lines = _lines(path)
    lines_kept = lines[:1] + [line for line in lines[1:] if 0 <= _round(line) <= last_round]
    if lines_kept:
        write_atomically(path, "".join(f"{line}\n" for line in lines_kept).encode(), private=True)
    else:
        path.unlink(missing_ok=True)


def _lines(path: Path) -> list[str]:
    """The complete lines; text after the last line end was being written when the run was
    killed.
    """
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []


def _round(line: str) -> int:
    """A row's round; -1 if the line is not a row."""
    number = line.split(",", 1)[0]
    return int(number) if number.isdigit() else -1


def _cell(value: Any) -> Any:
    """A value as a cell: empty for None; any value but a number as text on one line."""
    if value is None:
        return ""
    return value if isinstance(value, int | float) else text_cell(" ".join(str(value).split()))


def text_cell(text: str) -> str:
    """A text that a spreadsheet does not take for a formula: an apostrophe before = + - @, a tab or
    a carriage return, unless it is a number. Names of classes and nodes come from others."""
    return f"'{text}" if text[:1] in _FORMULA and not _NUMBER.fullmatch(text) else text


def from_text_cell(cell: str) -> str:
    """Inverse of `text_cell`."""
    return cell[1:] if cell[:1] == "'" and cell[1:2] in _FORMULA else cell


def frame_csv(frame: "DataFrame", float_format: str | None = None, separator: str = ",") -> str:
    """A table of pandas as CSV, with its texts as `text_cell` writes them."""

    def cell(value: Any) -> Any:
        return text_cell(value) if isinstance(value, str) else value

    safe = frame.rename(columns=cell)
    for name in safe.select_dtypes(exclude="number"):
        safe[name] = safe[name].map(cell)
    text = safe.to_csv(index=False, float_format=float_format, lineterminator="\n", sep=separator)
    return str(text)
