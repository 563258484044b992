"""Reading of a run directory. Missing and incomplete files are empty: a run may be killed at any
time."""

import csv
import json
from collections.abc import Callable, Collection, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.geometry.arrays import Booleans, Floats
from curvfed.server_app.directory import from_text_cell
from curvfed.strategies.base.figures import PERSONAL_ACCURACY, find
from curvfed.strategies.config.parse import read_settings
from curvfed.strategies.wire.messages import EVALUATE, FINE_TUNE, TRAIN

Columns = Mapping[str, tuple[str, ...]]

IN_ROUNDS = (TRAIN, EVALUATE)
"""Phases of the rounds themselves. Other phases, such as fine-tuning, score other models."""

TRIED = ("described", "summary", "config", "rounds", "scores")
"""Properties of `RunFiles` that read files."""


class RunFiles:
    """The files of one run, each read when it is first asked for.

    Parameters
    ----------
    folder : Path
        The run directory.

    Attributes
    ----------
    folder : Path
    name : str
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.resolve().name
        self._unreadable: list[str] = []
        self._optional: dict[str, Any] = {}

    @cached_property
    def summary(self) -> dict[str, Any]:
        """`summary.json`; empty before the end of the run."""
        return self._load("summary.json", _json)

    @cached_property
    def config(self) -> dict[str, Any]:
        """`config.toml`, by dotted key."""
        return self._load("config.toml", partial(read_settings, written_by_run=True))

    @cached_property
    def clients(self) -> list[dict[str, Any]]:
        """The clients' descriptions, by partition."""
        descriptions = self.described.get("clients", [])
        return sorted(descriptions, key=lambda description: description["partition"])

    @property
    def num_clients(self) -> int:
        """The number of clients with which the run began, refused ones included; 0 before they are
        connected."""
        return len(self.clients) + len(self.described.get("refused", ()))

    @cached_property
    def rounds(self) -> Columns:
        """`rounds.csv`: cells by column and row, "" for missing values."""
        return self._load("rounds.csv", columns)

    @cached_property
    def scores(self) -> Columns:
        """`clients.csv`, as `rounds`."""
        return self._load("clients.csv", columns)

    @property
    def absent(self) -> list[str]:
        """The files that are missing or cannot be read, of all that a run has and those of
        `optional` so far."""
        for name in TRIED:
            getattr(self, name)
        return self._unreadable

    @cached_property
    def described(self) -> dict[str, Any]:
        """`clients.json`."""
        return self._load("clients.json", _json)

    def optional(self, name: str, parse: Callable[[Path], Any]) -> Any:
        """The content of a file that not every run has, read once; None for one that is missing or
        cannot be read."""
        if name not in self._optional:
            exists = (self.folder / name).exists()
            self._optional[name] = (self._load(name, parse) or None) if exists else None
        return self._optional[name]

    def _load(self, name: str, parse: Callable[[Path], Any]) -> Any:
        """A file's content; {} for one that is missing or cannot be read."""
        try:
            return parse(self.folder / name)
        except (OSError, ValueError, csv.Error):
            self._unreadable.append(name)
            return {}

    def by_client(self, name: str, *phases: str) -> tuple[Floats, Floats]:
        """A column of `clients.csv` by round and client, for some phases, by default `IN_ROUNDS`.

        Returns
        -------
        rounds : array (R,)
            Ascending.
        values : array (R, C)
            A column per partition of `self.partitions`, NaN for missing values.
        """
        chosen = _in_phases(self.scores, phases or IN_ROUNDS)
        of_round, of_client = self._rows
        rounds, at_round = np.unique(of_round[chosen], return_inverse=True)
        at_client = np.searchsorted(self.partitions, of_client[chosen])
        values = np.full((len(rounds), len(self.partitions)), np.nan)
        cells = numbers(self.scores, name)[chosen]
        finite = np.isfinite(cells)
        values[at_round[finite], at_client[finite]] = cells[finite]
        return rounds, values

    def by_round(self, name: str, *phases: str) -> tuple[Floats, Floats]:
        """Rounds (R,) and a column (R,) of `rounds.csv`, for the rows of some phases that have a
        value."""
        rounds = numbers(self.rounds, "round")
        values = numbers(self.rounds, name)
        chosen = _in_phases(self.rounds, phases) & np.isfinite(values)
        return rounds[chosen], values[chosen]

    @cached_property
    def partitions(self) -> list[int]:
        """The clients with rows in `clients.csv`."""
        return [int(partition) for partition in np.unique(self._rows[1])]

    @cached_property
    def _rows(self) -> tuple[Floats, Floats]:
        """Round and partition of every row of `clients.csv`."""
        return numbers(self.scores, "round"), numbers(self.scores, "partition")

    @property
    def metric(self) -> str:
        """The metric of the data set."""
        if self.clients:
            return str(self.clients[0].get("metric", "accuracy"))
        return "roc_auc" if "roc_auc" in (self.summary.get("metrics") or {}) else "accuracy"

    @property
    def metric_name(self) -> str:
        """The metric's name for readers."""
        return find(self.metric).short or self.metric

    @property
    def fine_tuned(self) -> bool:
        """Whether the clients' last scores are those of the fine-tuned global model."""
        return bool(
            (self.by_round(PERSONAL_ACCURACY, FINE_TUNE)[0] == self.summary.get("rounds")).any()
        )


def numbers(columns: Columns, name: str) -> Floats:
    """A column as numbers, NaN for missing or invalid cells; a missing column has the length of the
    others."""
    cells = columns.get(name) or ("",) * len(next(iter(columns.values()), ()))
    return np.array([_number(cell) for cell in cells], dtype=np.float64)


def _in_phases(columns: Columns, phases: Collection[str]) -> Booleans:
    return np.array([phase in phases for phase in columns.get("phase", ())], dtype=bool)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def _json(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise ValueError(f"{path} is not a JSON object")
    return content


def columns(path: Path) -> Columns:
    """The cells of a table by column and row, "" for missing values."""
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    # The last row is incomplete if the run was killed while writing it.
    whole = (row for row in rows if len(row) == len(header) and row[0].isdigit())
    complete = [list(map(from_text_cell, row)) for row in whole]
    return dict(zip(header, zip(*complete, strict=True), strict=True)) if complete else {}
