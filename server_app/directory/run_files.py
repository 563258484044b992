"""Reading of a run directory. Missing and incomplete files are empty: a run may be killed at any
time."""

import csv
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.geometry.arrays import Array, Booleans, Floats
from curvfed.server_app.directory import from_text_cell, is_number
from curvfed.server_app.directory.array_files import GlobalTest, HullFile, read_npz
from curvfed.strategies.base.figures import PERSONAL_ACCURACY
from curvfed.strategies.config.parse import read_settings
from curvfed.strategies.wire.messages import CALIBRATE, CCVR, EVALUATE, FINE_TUNE, TRAIN
from curvfed.tasks.class_names import titles
from curvfed.tasks.kinds import ADDED, KINDS

Columns = Mapping[str, tuple[str, ...]]

IN_ROUNDS = (TRAIN, EVALUATE)
"""Phases of the rounds themselves. Other phases, such as fine-tuning, score other models."""

CALIBRATIONS = (CALIBRATE, CCVR)
"""Phases after the last round that replace the global model's classifier."""


@dataclass(frozen=True)
class RunFiles:
    """The files of one run.

    Attributes
    ----------
    name : str
    summary : dict
    config : dict
        By dotted key.
    clients : list of dict
        Their descriptions, by partition.
    refused : dict of name to reason
    class_names : list of str
        If every client has its own classes, each with the name of its data set.
    own_ends : bool
        Whether the first and last layers are personal because the clients' features or classes
        differ.
    rounds, scores : columns
        `rounds.csv` and `clients.csv`: cells by column and row, "" for missing values.
    confusion : columns
        `confusion.csv`; empty where no client tells it.
    absent : list of str
        Files that are missing or cannot be read.
    added : mapping of str to mapping of str to array
        The arrays of a run on data of an added kind, by its name.
    global_test : GlobalTest or None
        `global_test.npz`; None for runs without a test set at the server.
    hulls : HullFile or None
        `hulls.npz`, or `classifier.npz` of a one-shot run without hulls.
    """

    name: str
    summary: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    clients: list[dict[str, Any]] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    class_names: list[str] = field(default_factory=list)
    own_ends: bool = False
    rounds: Columns = field(default_factory=dict)
    scores: Columns = field(default_factory=dict)
    confusion: Columns = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    global_test: GlobalTest | None = None
    added: Mapping[str, Mapping[str, Array]] = field(default_factory=dict)
    hulls: HullFile | None = None

    @classmethod
    def read(cls, folder: Path) -> "RunFiles":
        """Read the files of a run directory."""
        absent: list[str] = []

        def load(name: str, parse: Any) -> Any:
            try:
                return parse(folder / name)
            except (OSError, ValueError, csv.Error):
                absent.append(name)
                return {}

        def load_optional(name: str, parse: Any) -> Any:
            return load(name, parse) if (folder / name).exists() else {}

        clients = load("clients.json", _json)
        descriptions = clients.get("clients", [])
        hulls = load_optional("hulls.npz", HullFile.read)
        return cls(
            name=folder.resolve().name,
            summary=load("summary.json", _json),
            config=load("config.toml", partial(read_settings, written_by_run=True)),
            clients=sorted(descriptions, key=lambda description: description["partition"]),
            refused=clients.get("refused", {}),
            class_names=_all_classes(clients),
            own_ends=bool(clients.get("facts", {}).get("own_ends", False)),
            rounds=load("rounds.csv", _columns),
            scores=load("clients.csv", _columns),
            confusion=load_optional("confusion.csv", _columns),
            absent=absent,
            global_test=load_optional("global_test.npz", GlobalTest.read) or None,
            added={
                name: arrays
                for name, kind in ADDED.items()
                if kind.arrays_file and (arrays := load_optional(kind.arrays_file, read_npz))
            },
            hulls=hulls or load_optional("classifier.npz", HullFile.read) or None,
        )

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
        return {"roc_auc": "ROC-AUC", "mrr": "MRR"}.get(self.metric, self.metric)

    @property
    def examples(self) -> str:
        """The kind of the clients' examples, in the plural."""
        tasks = KINDS.keys() & {description.get("task") for description in self.clients}
        return str(tasks.pop()) if len(tasks) == 1 else "examples"

    @property
    def fine_tuned(self) -> bool:
        """Whether the clients' last scores are those of the fine-tuned global model."""
        return bool(
            (self.by_round(PERSONAL_ACCURACY, FINE_TUNE)[0] == self.summary.get("rounds")).any()
        )

    @property
    def data_sets(self) -> dict[int, str]:
        """The name of each client's data set, if there are several."""
        return {
            description["partition"]: description["space"]
            for description in self.clients
            if description.get("space")
        }


def own_classes(description: Mapping[str, Any]) -> list[str]:
    """The names of a client's classes, with the name of its data set if there are several."""
    return titles(description.get("space") or "", description.get("class_names") or [])


def class_counts(run: RunFiles) -> dict[int, dict[str, float]]:
    """Class counts of every client that shares them, invalid ones left out: clients may lie."""
    counts_by_client = {}
    for description in run.clients:
        names = own_classes(description)
        counts = (description.get("statistics") or {}).get("class_counts") or []
        if (
            counts
            and len(names) == len(counts)
            and all(is_number(count) and count >= 0 for count in counts)
        ):
            counts_by_client[int(description["partition"])] = dict(zip(names, counts, strict=True))
    return counts_by_client


def curvatures(run: RunFiles) -> tuple[dict[int, float], dict[int, Floats]]:
    """The mean Forman–Ricci curvature of each client's graph and the curvatures of its space, where
    clients share them."""
    forman: dict[int, Any] = {
        description["partition"]: (description.get("statistics") or {}).get("forman")
        for description in run.clients
    }
    courses = zip(run.partitions, run.by_client("curvature")[1].T, strict=True)
    finite = {client: course[np.isfinite(course)] for client, course in courses}
    of_graphs = {client: float(value) for client, value in forman.items() if is_number(value)}
    return of_graphs, {client: course for client, course in finite.items() if len(course)}


def numbers(columns: Columns, name: str) -> Floats:
    """A column as numbers, NaN for missing or invalid cells; a missing column has the length of the
    others."""
    cells = columns.get(name) or ("",) * len(next(iter(columns.values()), ()))
    return np.array([_number(cell) for cell in cells], dtype=np.float64)


def _in_phases(columns: Columns, phases: Collection[str]) -> Booleans:
    return np.array([phase in phases for phase in columns.get("phase", ())], dtype=bool)


def _all_classes(clients: dict[str, Any]) -> list[str]:
    descriptions = clients.get("clients", [])
    common = clients.get("facts", {}).get("class_names", [])
    if common and not any(description.get("space") for description in descriptions):
        return list(common)
    return list(
        dict.fromkeys(name for description in descriptions for name in own_classes(description))
    )


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


def _columns(path: Path) -> Columns:
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    # The last row is incomplete if the run was killed while writing it.
    whole = (row for row in rows if len(row) == len(header) and row[0].isdigit())
    complete = [list(map(from_text_cell, row)) for row in whole]
    return dict(zip(header, zip(*complete, strict=True), strict=True)) if complete else {}
