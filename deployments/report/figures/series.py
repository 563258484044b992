"""From the runs of a sweep to what is drawn: runs that differ in their seeds alone are one point."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.report.cells import Cell
from curvfed.deployments.report.printed import match, numbers
from curvfed.deployments.report.quantities import quantity
from curvfed.deployments.report.selection import Place, Run, grouped, known_figure, known_key, known_name
from curvfed.deployments.report.words import Line
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.directory.tables import TABLES
from curvfed.server_app.report.style import columns_for
from curvfed.strategies.wire.messages import TRAIN

OF_ROUNDS = "rounds."
"""What a figure begins with that is the last cell of a column of `rounds.csv`."""


class NothingToDraw(UsageError):
    """No completed run has what a figure shows."""


T = TypeVar("T")


@dataclass(frozen=True)
class Panel(Generic[T]):
    """What one pair of axes shows.

    Attributes
    ----------
    place : Place
    columns : tuple of str
        Figures.
    lines : mapping of Line to T
        T is what is drawn of a line: here cells with values by place on the axis.
    """

    place: Place
    columns: tuple[str, ...]
    lines: Mapping[Line, T]


Points = Mapping[Place, Cell]


def keys_of(spec: Mapping[str, Any], part: str, source: str, default: Sequence[str] = ()) -> list[str]:
    """The keys of the run config that a part of a spec names, one or a list.

    Raises
    ------
    UsageError
    """
    found = spec.get(part, list(default))
    return [known_key(str(key), source) for key in (found if isinstance(found, list) else [found])]


def one_of(spec: Mapping[str, Any], part: str, allowed: Mapping[str, Any], source: str) -> str:
    """What a part of a spec chooses; the first of what is allowed if it is left out.

    Raises
    ------
    UsageError
    """
    found = str(spec.get(part, next(iter(allowed))))
    if found not in allowed:
        kind, words = spec["kind"], ", ".join(allowed)
        raise UsageError(f"{source}: {part} = {found!r} in a figure of kind {kind}; allowed are {words}")
    return found


def columns_of(spec: Mapping[str, Any], part: str, known: Callable[[str], str], source: str) -> list[tuple[str, ...]]:
    """The figures that a spec names: a panel for each, or for each inner list.

    Raises
    ------
    UsageError
        If there are none, or `known`, which is asked for each, refuses one.
    """
    found = spec.get(part, [])
    panels = [tuple(map(str, one if isinstance(one, list) else [one])) for one in
              (found if isinstance(found, list) else [found])]  # fmt: skip
    if not panels or not all(panels):
        raise UsageError(f"{source}: a figure of kind {spec['kind']} needs {part}")
    for column in itertools.chain(*panels):
        known(column)
    return panels


def of_rounds(column: str, source: str) -> str:
    """The column, if `rounds.csv` has it.

    Raises
    ------
    UsageError
    """
    return known_name(column, TABLES["rounds.csv"], "column of rounds.csv", source)


def groups(runs: Sequence[Run], keys: Sequence[str], source: str) -> dict[Place, list[Run]]:
    """The runs that make a point each, by the values of these keys: see `grouped`."""
    return grouped(runs, keys, source, "point", "where, or in what tells points, lines or panels apart")


def told_of_data(
    runs: Sequence[Run], keys: Sequence[str], read_run: Callable[[Run], T | None], source: str
) -> dict[Place, list[tuple[int, T]]]:
    """What runs tell of their data, by place, and there by seed, ascending. Runs may differ in all that leaves it as it is.

    Raises
    ------
    UsageError
        If two of the same place and seed tell different things.
    """
    found: dict[Place, dict[int, T]] = {}
    for run in runs:
        told, seed = read_run(run), int(run.value("seed"))
        where = tuple((key, run.value(key)) for key in keys)
        if told is not None and found.setdefault(where, {}).setdefault(seed, told) != told:
            raise UsageError(
                f"{source}: runs of one panel ({', '.join(str(value) for _, value in where)}) have different data: name "
                "in panels or where what they differ in"
            )
    return {where: sorted(of_seed.items()) for where, of_seed in found.items()}


def panels_of(spec: Mapping[str, Any], runs: Sequence[Run], source: str, lines: str) -> list[Panel[Points]]:
    """What a figure of points or bars shows.

    Parameters
    ----------
    spec : mapping
        `figures`, `x`, `panels`, `paper`, and what `lines` names.
    lines : str
        The part of the spec whose keys tell lines apart; the method if it is left out.

    Raises
    ------
    UsageError
        For a spec that cannot be followed; `NothingToDraw` where no run has any of the figures.
    """
    x, panels = keys_of(spec, "x", source), keys_of(spec, "panels", source)
    if not x:
        raise UsageError(f"{source}: a figure of kind {spec['kind']} needs x")
    apart = [key for key in keys_of(spec, lines, source, ["method"]) if key not in (*x, *panels)]

    def known(column: str) -> str:
        is_of_rounds, name = column.startswith(OF_ROUNDS), column.removeprefix(OF_ROUNDS)
        return of_rounds(name, source) if is_of_rounds else known_figure(name, runs, source)

    wanted = columns_of(spec, "figures", known, source)
    found, printed = groups(runs, [*panels, *apart, *x], source), numbers(spec, source)
    told: dict[tuple[Place, tuple[str, ...]], dict[Line, dict[Place, Cell]]] = {}
    for columns, (where, group) in itertools.product(wanted, found.items()):
        panel, line, at = where[: len(panels)], where[len(panels) : -len(x)], where[-len(x) :]
        for column in columns:
            scale = quantity(column).scale
            values = {
                int(run.value("seed")): scale * value for run in group if (value := figure(run, column)) is not None
            }
            if values:
                cell = Cell(dict(sorted(values.items())), printed=match(printed, group[0], where, column))
                which = line, column if len(columns) > 1 else ""
                told.setdefault((panel, columns), {}).setdefault(which, {})[at] = cell
    if not told:
        raise NothingToDraw(f"{source}: no completed run has {', '.join(name for one in wanted for name in one)}")
    return [Panel(panel, columns, cells) for (panel, columns), cells in told.items()]


def figure(run: Run, column: str) -> float | None:
    """A figure of a run, or the last of a column of its rounds."""
    if not column.startswith(OF_ROUNDS):
        return run.figure(column)
    values = RunFiles.read(run.folder).by_round(column.removeprefix(OF_ROUNDS), TRAIN)[1]
    return float(values[-1]) if len(values) else None


def rows_of_figures(shown: Sequence[Panel[Any]]) -> int:
    """The number of columns where several figures have several panels: a row for each figure. Else 0."""
    figures, places = ({getattr(panel, part) for panel in shown} for part in ("columns", "place"))
    return columns_for(len(places)) if len(figures) > 1 and 1 < len(places) <= 4 else 0


def is_number(places: Sequence[Place]) -> bool:
    """Whether these places are values of one key that is a number."""
    return all(len(place) == 1 and isinstance(place[0][1], int | float) and not isinstance(place[0][1], bool)
               for place in places)  # fmt: skip


def in_order(panel: Panel[Points]) -> list[Place]:
    """Where the lines of a panel have points: numbers in ascending order, all else in that of the sweep."""
    found = list(dict.fromkeys(place for cells in panel.lines.values() for place in cells))
    return sorted(found, key=lambda place: place[0][1]) if is_number(found) else found
