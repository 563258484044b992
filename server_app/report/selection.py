"""The runs of a sweep, the parts of a table's or a figure's spec that choose among them, and their
figures as a data frame."""

import difflib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.directory.summary import failed_summary
from curvfed.server_app.report.study import FIGURE, SUPERNODES, Place, Planned
from curvfed.strategies.base.figures import BEST, FIGURES, find
from curvfed.strategies.base.keys import dotted
from curvfed.strategies.config.run_config import defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.messages import TRAIN

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
        found = self.row.get(column) if self.is_completed else None
        return float(found) if isinstance(found, int | float) and math.isfinite(found) else None


def matching(runs: Sequence[Run], spec: Mapping[str, Any], source: str) -> list[Run]:
    """The runs that have the values of `where`, a table of keys with a value or a list of values.

    Raises
    ------
    ConfigError
        If `where` names an unknown key, or no run is left.
    """
    where = settings_of(spec, "where", source)
    chosen = {known_key(key, source): as_list(value) for key, value in where.items()}
    matches = [
        run for run in runs if all(run.value(key) in values for key, values in chosen.items())
    ]
    if not matches:
        raise ConfigError(f"{source}: no run of the sweep has {where}", key="no-run")
    return matches


def grouped(
    runs: Iterable[Run],
    keys: Sequence[str],
    source: str,
    one: str = "point",
    parts: str = "where, or in what tells points, lines or panels apart",
) -> dict[Place, list[Run]]:
    """Group runs by the values of these keys, in the order of the sweep.

    Parameters
    ----------
    one, parts : str
        For the error text: what a group becomes, and the parts of a spec that can name a key.

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
                raise ConfigError(
                    f"{source}: runs of one {one} differ in {key} ({text}): name it in {parts}",
                    key="mixed-runs",
                )
    return groups


def as_list(value: Any) -> list[Any]:
    """A part of a spec that is one value or a list of them."""
    return value if isinstance(value, list) else [value]


def settings_of(spec: Mapping[str, Any], part: str, source: str) -> dict[str, Any]:
    """Read a part of a spec that is a table, `where` or `names`, by dotted keys; empty if it is
    left out.

    Raises
    ------
    ConfigError
    """
    table = spec.get(part, {})
    if not isinstance(table, Mapping):
        raise ConfigError(
            f"{source}: {part} = {table!r}; allowed is a table, such as {part} = {{method ="
            ' "fedavg"}',
            key="not-a-table",
        )
    return dotted(table)


def keys_of(
    spec: Mapping[str, Any], part: str, source: str, default: Sequence[str] = ()
) -> list[str]:
    """Read a part of a spec that names one key of the run config or a list of keys.

    Raises
    ------
    ConfigError
    """
    return [known_key(str(key), source) for key in as_list(spec.get(part, list(default)))]


def known_key(key: str, source: str) -> str:
    """Return the key if the run config has it.

    Raises
    ------
    ConfigError
    """
    return known_name(key, KEYS, "key of the run config", source)


def known_figure(column: str, runs: Sequence[Run], source: str) -> str:
    """Return the figure if runs may have it.

    A name in an open table is accepted even if no run has it yet, unless completed runs have a
    similar name.

    Raises
    ------
    ConfigError
    """
    there = {key for run in runs if run.is_completed for key in run.row}
    known = KNOWN | there
    name, *names = (one.rpartition(".")[2] for one in (column, *known))
    misspelt = there and difflib.get_close_matches(name, names, n=1, cutoff=SIMILAR)
    if column.startswith(OPEN) and not misspelt:
        return column
    return known_name(column, known, "figure of these runs", source)


def known_name(name: str, known: Collection[str], what: str, source: str) -> str:
    """Return the name if it is a known one.

    Raises
    ------
    ConfigError
        With the nearest known name.
    """
    if name in known:
        return name
    near = difflib.get_close_matches(name, known, n=1)
    raise ConfigError(
        f"{source}: {name!r} is not a {what}" + (f"; did you mean {near[0]!r}?" if near else ""),
        key="unknown-name",
    )


COLUMNS = (FIGURE, "seed", "value", "not_made", "lacking", "error")


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
            rows.append(
                {
                    **dict(run.place(keys)),
                    FIGURE: figure,
                    "seed": run.seed,
                    "value": None if value is None else find(figure).scale * value,
                    "not_made": int(not run.row),
                    "lacking": int(run.is_completed and value is None),
                    "error": run.error,
                }
            )
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
