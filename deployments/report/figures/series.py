"""From the runs of a sweep to what is drawn: runs that differ in their seeds alone are one point."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.report.cells import Cell
from curvfed.deployments.report.figures.style import ORDER, Look
from curvfed.deployments.report.figures.words import Line, Names
from curvfed.deployments.report.printed import match, numbers
from curvfed.deployments.report.quantities import quantity
from curvfed.deployments.report.selection import Place, Run, grouped, known_figure, known_key, known_name, place
from curvfed.server_app.run_files import RunFiles
from curvfed.server_app.run_tables import TABLES
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


def columns_of(
    spec: Mapping[str, Any], part: str, kind: str, known: Callable[[str], str], source: str
) -> list[tuple[str, ...]]:
    """The figures that a spec names: a panel for each, or for each inner list.

    Raises
    ------
    UsageError
        If there are none, or `known`, which is asked for each, refuses one.
    """
    found = spec.get(part, [])
    panels = [tuple(map(str, one)) if isinstance(one, list) else (str(one),) for one in
              (found if isinstance(found, list) else [found])]  # fmt: skip
    if not panels or not all(panels):
        raise UsageError(f"{source}: a figure of kind {kind} needs {part}")
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
        if told is not None and found.setdefault(place(run, keys), {}).setdefault(seed, told) != told:
            raise UsageError(
                f"{source}: runs of one panel ({', '.join(str(run.value(key)) for key in keys)}) have different data: name "
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

    wanted = columns_of(spec, "figures", spec["kind"], known, source)
    found, printed = groups(runs, [*panels, *apart, *x], source), numbers(spec, source)
    told: dict[tuple[Place, tuple[str, ...]], dict[Line, dict[Place, Cell]]] = {}
    for columns in wanted:
        for where, group in found.items():
            panel, line, at = where[: len(panels)], where[len(panels) : -len(x)], where[-len(x) :]
            for column in columns:
                which = line, column if len(columns) > 1 else ""
                scale = quantity(column).scale
                values = {int(run.value("seed")): value for run in group if (value := figure(run, column)) is not None}
                if values:
                    cell = Cell({seed: scale * value for seed, value in sorted(values.items())},
                                printed=match(printed, group[0], where, column))  # fmt: skip
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


def looks(lines: Sequence[Line]) -> dict[Line, Look]:
    """A look for each of the lines: a method has its own colour, whatever the figure."""
    lines = list(dict.fromkeys(lines))
    methods = [dict(place).get("method") for place, _ in lines]
    if None in methods or (len(set(methods)) == 1 and len(lines) > 1):
        return {line: Look.of(number) for number, line in enumerate(lines)}
    rest = [(tuple(one for one in place if one[0] != "method"), column) for place, column in lines]
    turns = list(dict.fromkeys(rest))
    return {
        line: Look.of(ORDER.index(method) if method in ORDER else len(ORDER), turns.index(other))
        for line, method, other in zip(lines, methods, rest, strict=True)
    }


def legend_keys(look: Mapping[Line, Look], names: Names, draw: Callable[[Look], Any]) -> list[tuple[Any, str]]:
    """For a legend, a line each; what all have in common is not said, unless it is all there is."""
    same = len({place for place, _ in look}) == 1 and len(look) > 1
    told = {line: one for line, one in look.items() if line[1] or not same}
    return [(draw(one), names.line((() if same else line[0], line[1]))) for line, one in told.items()]


def seeds_key(counts: set[int], mark: Any) -> list[tuple[Any, str]]:
    """What spreads are of, for a legend; no mark where there is one seed."""
    from matplotlib.lines import Line2D

    if max(counts, default=0) < 2:
        return [(Line2D([], [], linestyle="none"), "one seed")] if counts else []
    number = f"{max(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    return [(mark, f"± standard deviation over {number} seeds")]
