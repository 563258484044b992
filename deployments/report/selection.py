"""The runs of a sweep as tables and figures ask for them."""

import difflib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.report.quantities import NAMED
from curvfed.deployments.sweep.plan import DEFAULTS, Plan, Planned
from curvfed.deployments.sweep.results import COMPLETED, FAILED, Results
from curvfed.server_app.directory.failure import failed_summary
from curvfed.strategies.base.dotted import dotted

BEST = "best_validation."
OPEN = ("metrics.", "settled.", BEST + "metrics.")
"""Tables of a summary whose names depend on method and data."""

FIGURES = {*dotted(failed_summary("", None)), *(f"metrics.{name}" for name in NAMED)}
KNOWN = {*FIGURES, *(BEST + name for name in (*FIGURES, "round")), *DEFAULTS}
"""Columns of `results.sqlite` that runs may have, all of them but for names in the open tables."""

ALIKE = 0.85
"""Names that are closer than this, by difflib's measure, are one misspelt."""

Place = tuple[tuple[str, Any], ...]
"""Keys and values that say where in a table or a figure a run stands."""


@dataclass(frozen=True)
class Run:
    """A run that was planned, and what became of it.

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
        """Whether it came to its end."""
        return self.row.get("status") == COMPLETED

    @property
    def error(self) -> str:
        """Why it failed; empty if it did not, or was not made."""
        return str(self.row["error"]) if self.row.get("status") == FAILED else ""

    def value(self, key: str) -> Any:
        """What it has for a key of the run config, or for `num-supernodes`."""
        return self.planned.value(key)

    def figure(self, column: str) -> float | None:
        """One of its figures; None where it has none."""
        found = self.row.get(column) if self.is_completed else None
        return float(found) if isinstance(found, int | float) and math.isfinite(found) else None


def select(plan: Plan, results: Results) -> list[Run]:
    """All runs of a plan, in its order."""
    rows = {row["run"]: row for row in results.rows(plan.runs)}
    return [Run(planned, rows.get(planned.name, {}), results.folder / planned.name) for planned in plan.runs]


def matching(runs: Sequence[Run], where: Mapping[str, Any], source: str) -> list[Run]:
    """Those whose keys have these values, or one of the values of a list.

    Raises
    ------
    UsageError
        If `where` names what is no key, or none of the runs is left.
    """
    for key in where:
        known_key(key, source)
    chosen = {key: value if isinstance(value, list) else [value] for key, value in where.items()}
    found = [run for run in runs if all(run.value(key) in values for key, values in chosen.items())]
    if not found:
        raise UsageError(f"{source}: no run of the sweep has {dict(where)}")
    return found


def place(run: Run, keys: Iterable[str]) -> Place:
    """Where a run belongs."""
    return tuple((key, run.value(key)) for key in keys)


def grouped(runs: Iterable[Run], keys: Sequence[str], source: str, one: str, parts: str) -> dict[Place, list[Run]]:
    """The runs by the values of these keys, in the order of the sweep.

    Parameters
    ----------
    one, parts : str
        For the error: what a group makes, and the parts of a spec that can name a key.

    Raises
    ------
    UsageError
        If those of one group differ in more than their seed: their mean would be of nothing.
    """
    found: dict[Place, list[Run]] = {}
    for run in runs:
        found.setdefault(place(run, keys), []).append(run)
    for group in found.values():
        for key in sorted({key for run in group for key in run.planned.settings} - {"seed"}):
            values = sorted({run.value(key) for run in group}, key=str)
            if len(values) > 1:
                told = ", ".join(map(str, values))
                raise UsageError(f"{source}: runs of one {one} differ in {key} ({told}): name it in {parts}")
    return found


def settings_of(spec: Mapping[str, Any], part: str, source: str) -> dict[str, Any]:
    """A part of a spec that is a table, `where` or `names`, by dotted keys; empty if it is left out.

    Raises
    ------
    UsageError
    """
    found = spec.get(part, {})
    if not isinstance(found, Mapping):
        raise UsageError(f'{source}: {part} = {found!r}; allowed is a table, such as {part} = {{method = "fedavg"}}')
    return dotted(found)


def known_key(key: str, source: str) -> str:
    """The key, if the run config has it.

    Raises
    ------
    UsageError
    """
    if key not in DEFAULTS:
        raise UsageError(f"{source}: {key!r} is not a key of the run config")
    return key


def known_figure(column: str, runs: Sequence[Run], source: str) -> str:
    """The figure, if runs may have it.

    A name in an open table may be that of a run that has not been made. It is refused where some have, none has it, and it
    is like one that there is.

    Raises
    ------
    UsageError
    """
    there = {key for run in runs if run.is_completed for key in run.row}
    known = KNOWN | there
    name, *names = (one.rpartition(".")[2] for one in (column, *known))
    alike = there and difflib.get_close_matches(name, names, n=1, cutoff=ALIKE)
    return (
        column if column.startswith(OPEN) and not alike else known_name(column, known, "figure of these runs", source)
    )


def known_name(name: str, known: Collection[str], what: str, source: str) -> str:
    """The name, if it is one of those known.

    Raises
    ------
    UsageError
        With the nearest of them.
    """
    if name in known:
        return name
    near = difflib.get_close_matches(name, known, n=1)
    raise UsageError(f"{source}: {name!r} is no {what}" + (f"; did you mean {near[0]!r}?" if near else ""))
