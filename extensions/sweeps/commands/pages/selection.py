"""The runs of a sweep, the parts of a table's or a figure's spec that choose among them, and their
figures as a data frame."""

import difflib
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from curvfed.extensions.sweeps.commands.pages.study import FIGURE, SUPERNODES, Names, Place, Planned
from curvfed.server_app.directory import TABLES
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.directory.summary import failed_summary
from curvfed.strategies.base.figures import BEST, FIGURES, find
from curvfed.strategies.base.keys import dotted
from curvfed.strategies.config.run_config import defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.messages import TRAIN
from curvfed.tasks.errors import near_names

OPEN = ("metrics.", "settled.", f"{BEST}.metrics.")
"""Tables of a summary whose names depend on the method and the data."""

STORED = {*dotted(failed_summary("", "", None)), *(f"metrics.{name}" for name in FIGURES)}
KEYS = {*defaults(), SUPERNODES}
KNOWN = {*STORED, *(f"{BEST}.{name}" for name in (*STORED, "round")), *KEYS}
"""Columns of `results.sqlite` that any run may have; the open tables may hold further names."""

OF_ROUNDS = "rounds."
"""Prefix of a figure that is the last value of a column of `rounds.csv`."""

SIMILAR = 0.85
"""Similarity by difflib above which an unknown name counts as a misspelt known one."""

COLUMNS = (FIGURE, "seed", "value", "not_made", "lacking", "error")


@dataclass(frozen=True)
class Run:
    """A planned run and its results.

    Attributes
    ----------
    planned : Planned
    row : mapping
        Its row of `results.sqlite`; empty if it was not made.
    folder : Path
        Its run directory, if it was made.
    """

    planned: Planned
    row: Mapping[str, Any]
    folder: Path

    @property
    def is_completed(self) -> bool:
        """Whether it completed."""
        return self.row.get("status") == "completed"

    @property
    def error(self) -> str:
        """Why it failed; empty if it did not, or was not made."""
        return str(self.row["error"]) if self.row.get("status") == "failed" else ""

    @property
    def seed(self) -> int:
        """Its seed."""
        return int(self.value("seed"))

    def value(self, key: str) -> Any:
        """Its value of a key of the run config, or of `num-supernodes`."""
        return self.planned.value(key)

    def place(self, keys: Iterable[str]) -> Place:
        """Its values of these keys."""
        return tuple((key, self.value(key)) for key in keys)

    def figure(self, column: str) -> float | None:
        """One of its figures; None if it has none, or a value that is not finite."""
        if column.startswith(OF_ROUNDS):
            values = RunFiles.read(self.folder).by_round(column.removeprefix(OF_ROUNDS), TRAIN)[1]
            return float(values[-1]) if len(values) else None
        value = self.row.get(column) if self.is_completed else None
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None

    @property
    def warnings(self) -> list[str]:
        """The warnings of its summary."""
        return RunFiles.read(self.folder).summary.get("warnings", []) if self.is_completed else []

    def first_of_rounds(self, column: str) -> float | None:
        """The first value of a column of `rounds.csv`; None without one."""
        if not self.is_completed:
            return None
        values = RunFiles.read(self.folder).by_round(column, TRAIN)[1]
        return float(values[0]) if len(values) else None


@dataclass(frozen=True)
class Spec:
    """What a sweep file asks for in a table or a figure.

    Attributes
    ----------
    parts : mapping
        By name, such as `where` or `panels`.
    source : str
        For error texts.
    """

    parts: Mapping[str, Any]
    source: str

    def get(self, part: str, default: Any) -> Any:
        """A part, or its default."""
        return self.parts.get(part, default)

    def error(self, text: str, key: str, kind: type[ConfigError] = ConfigError) -> ConfigError:
        """An error that names the source."""
        return kind(f"{self.source}: {text}", key=key)

    def table(self, part: str) -> dict[str, Any]:
        """A part that is a table, `where` or `names`, by dotted keys; empty if it is left out.

        Raises
        ------
        ConfigError
        """
        table = self.get(part, {})
        if not isinstance(table, Mapping):
            raise self.error(
                f'{part} = {table!r}; allowed is a table, such as {part} = {{method = "fedavg"}}',
                "not-a-table",
            )
        return dotted(table)

    @cached_property
    def names(self) -> Names:
        """The words for keys, values and figures."""
        return Names(self.table("names"))

    def keys(self, part: str, default: Sequence[str] = (), others: Sequence[str] = ()) -> list[str]:
        """A part that names one key of the run config or a list of keys, without `others`, which
        tell something else apart.

        Raises
        ------
        ConfigError
        """
        names = map(str, as_list(self.get(part, list(default))))
        known = [self.known(name, KEYS, "key of the run config") for name in names]
        return [key for key in known if key not in others]

    def columns(self, part: str, check: Callable[[str], str]) -> list[tuple[str, ...]]:
        """The figures that a part names: those of a panel for each, or for each inner list.

        Raises
        ------
        ConfigError
            If there are none, or `check`, which is called with each, refuses one.
        """
        panels = [tuple(map(str, as_list(names))) for names in as_list(self.get(part, []))]
        if not panels or not all(panels):
            raise self.error(
                f"a figure of kind {self.parts['kind']} needs {part}", "incomplete-figure"
            )
        for column in itertools.chain(*panels):
            check(column)
        return panels

    def known(self, name: str, known: Collection[str], what: str) -> str:
        """See `known_name`."""
        return known_name(name, known, what, self.source)

    def column_of_rounds(self, column: str) -> str:
        """Return the column if `rounds.csv` has it.

        Raises
        ------
        ConfigError
        """
        return self.known(column, TABLES["rounds.csv"], "column of rounds.csv")

    def known_figure(self, column: str, runs: Sequence[Run]) -> str:
        """Return the figure if runs may have it.

        A name in an open table is accepted even if no run has it yet, unless completed runs have a
        similar name.

        Raises
        ------
        ConfigError
        """
        present = {key for run in runs if run.is_completed for key in run.row}
        known = KNOWN | present
        name, *names = (path.rpartition(".")[2] for path in (column, *known))
        misspelt = present and difflib.get_close_matches(name, names, n=1, cutoff=SIMILAR)
        if column.startswith(OPEN) and not misspelt:
            return column
        return self.known(column, known, "figure of these runs")

    def matching(self, runs: Sequence[Run]) -> list[Run]:
        """The runs that have the values of `where`, a table of keys with a value or a list of
        values.

        Raises
        ------
        ConfigError
            If `where` names an unknown key, or no run is left.
        """
        where = self.table("where")
        for key in where:
            self.known(key, KEYS, "key of the run config")
        matches = [
            run
            for run in runs
            if all(run.value(key) in as_list(value) for key, value in where.items())
        ]
        if not matches:
            raise self.error(f"no run of the sweep has {where}", "no-run")
        return matches

    def grouped(
        self,
        runs: Iterable[Run],
        keys: Sequence[str],
        one: str = "point",
        parts: str = "where, or in what tells points, lines or panels apart",
    ) -> dict[Place, list[Run]]:
        """Group runs by the values of these keys, in the order of the sweep.

        Parameters
        ----------
        one, parts : str
            For the error text: what a group becomes, and the parts that can name a key.

        Raises
        ------
        ConfigError
            If the runs of a group differ in more than their seed, so that their mean would mix
            different settings.
        """
        groups: dict[Place, list[Run]] = {}
        for run in runs:
            groups.setdefault(run.place(keys), []).append(run)
        for group in groups.values():
            for key in sorted({key for run in group for key in run.planned.settings} - {"seed"}):
                values = sorted({run.value(key) for run in group}, key=str)
                if len(values) > 1:
                    text = ", ".join(map(str, values))
                    raise self.error(
                        f"runs of one {one} differ in {key} ({text}): name it in {parts}",
                        "mixed-runs",
                    )
        return groups


def as_list(value: Any) -> list[Any]:
    """A part of a spec that is one value or a list of them."""
    return value if isinstance(value, list) else [value]


def known_name(name: str, known: Collection[str], what: str, source: str) -> str:
    """Return the name if it is a known one.

    Raises
    ------
    ConfigError
        With the nearest known name.
    """
    if name in known:
        return name
    near = near_names(name, known)
    raise ConfigError(
        f"{source}: {name!r} is not a {what}" + (f"; did you mean {near[0]!r}?" if near else ""),
        key="unknown-name",
    )


def values_of(runs: Sequence[Run], keys: Sequence[str], figures: Sequence[str]) -> pd.DataFrame:
    """Collect the figures of runs.

    Returns
    -------
    DataFrame
        A row for each run and figure, with a column for each of the `keys`, and: `figure`, `seed`;
        `value`, in the printed unit, NaN where the run has none; `not_made` and `lacking`, 1 for a
        run that was not made or completed without the figure; `error`, empty unless the run failed.
    """
    rows = []
    for run in runs:
        for figure in figures:
            value = run.figure(figure)
            row = dict(run.place(keys)) | {FIGURE: figure, "seed": run.seed, "error": run.error}
            row["value"] = None if value is None else find(figure).scale * value
            row["not_made"] = int(not run.row)
            row["lacking"] = int(run.is_completed and value is None)
            rows.append(row)
    # Of objects, so that the keys' values stay as they are.
    frame = pd.DataFrame(rows, columns=list(dict.fromkeys([*keys, *COLUMNS])), dtype=object)
    return frame.astype({"value": float, "not_made": int, "lacking": int})


def split(frame: pd.DataFrame, keys: Sequence[str]) -> Iterator[tuple[Place, pd.DataFrame]]:
    """Split a frame into the parts with equal values of these keys, in the order in which they
    appear."""
    if not keys:
        yield (), frame
        return
    for values, part in frame.groupby(list(keys), sort=False):
        yield tuple(zip(keys, values, strict=True)), part
