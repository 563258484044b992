"""A table's cells: mean and spread over seeds, the best, a paired test, the paper's number."""

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.papers import Printed
from curvfed.deployments.report.printed import default, match, numbers
from curvfed.deployments.report.quantities import Quantity, quantity
from curvfed.deployments.report.selection import Place, Run, grouped, known_figure, known_key, matching, settings_of
from curvfed.deployments.sweep.plan import SUPERNODES

LEVEL = 0.05
"""Two-sided level of the paired test."""

OF_THE_DATA = (
    "dataset", SUPERNODES, "partition", "alpha", "shards", "min-client-size", "train-size", "test-size", "test-data",
    "images.train-subset", "images.test-subset", "points.classes", "points.num", "points.sample-radius",
    "points.reference", "points.margin", "points.lacking",
)  # fmt: skip
"""Keys that say what is to be learnt, and by how many clients: of what differs in them, none is the better."""

Column = tuple[Place, str]
"""What heads a column, and the figure in it, a column of `results.sqlite`."""

_PARTS = {"title", "rows", "columns", "figures", "where", "against", "paper", "printed", "lowest", "words", "names"}


@dataclass(frozen=True)
class Paired:
    """Difference to the method that a table tests against, over the seeds that both have.

    Attributes
    ----------
    difference : float
        In the printed unit.
    p : float
        Of the paired t-test, two-sided; NaN with fewer than two seeds in common.
    count : int
    """

    difference: float
    p: float
    count: int

    @property
    def mark(self) -> str:
        """↑ or ↓ where the difference is significant, else empty."""
        return ("↑" if self.difference > 0 else "↓") if self.p < LEVEL else ""


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes
    ----------
    values : mapping of seed to float
        In the printed unit; empty without a completed run that has the figure.
    missing : int
        Runs that were planned and have not been made.
    lacking : int
        Runs that have completed and have no such figure.
    errors : tuple of str
        Of the runs that failed.
    printed : Printed or None
        The paper's number.
    paired : Paired or None
    is_best : bool
    """

    values: Mapping[int, float]
    missing: int = 0
    lacking: int = 0
    errors: tuple[str, ...] = ()
    printed: Printed | None = None
    paired: Paired | None = None
    is_best: bool = False

    @property
    def mean(self) -> float:
        """NaN without values."""
        return statistics.fmean(self.values.values()) if self.values else math.nan

    @property
    def spread(self) -> float:
        """Standard deviation with ddof = 1; NaN with fewer than two values."""
        return statistics.stdev(self.values.values()) if len(self.values) > 1 else math.nan


@dataclass(frozen=True)
class Sheet:
    """A table.

    Attributes
    ----------
    title, words : str
    rows : tuple of Place
    columns : tuple of (Place, str)
        The second is the figure, a column of `results.sqlite`.
    cells : mapping of (row, column) to Cell
        What is not planned is not in it.
    names : mapping of str to str
        What the reader is told in the place of a value.
    against : str
        Method that the others are tested against; empty for none.
    across : bool
        Whether the best is that of a row, and not of a column.
    """

    title: str
    words: str
    rows: tuple[Place, ...]
    columns: tuple[Column, ...]
    cells: Mapping[tuple[Place, Column], Cell]
    names: Mapping[str, str] = field(default_factory=dict)
    against: str = ""
    across: bool = False

    @property
    def counts(self) -> set[int]:
        """How many seeds the cells with values have."""
        return {len(cell.values) for cell in self.cells.values() if cell.values}

    @property
    def absent(self) -> list[str]:
        """Figures that runs were to have, of which some have completed and none has it."""
        cells = [(figure, cell) for (_, (_, figure)), cell in self.cells.items()]
        had = {figure for figure, cell in cells if cell.values}
        return list(dict.fromkeys(figure for figure, cell in cells if cell.lacking and figure not in had))

    def quantity(self, column: Column) -> Quantity:
        """What a column has."""
        return quantity(column[1])


def sheet(spec: Mapping[str, Any], runs: Sequence[Run], source: str, against: str = "") -> Sheet:
    """Compute a table of `[[tables]]`.

    Parameters
    ----------
    spec : mapping
        `rows` and `columns`: keys of the run config whose values head them. `figures`: columns of `results.sqlite`.
        `where`: keys and values, or lists of them, that runs must have. `against`: method to test against. `paper`:
        "name, Table n". `printed`: true to list the paper's rows that no run is planned for too. `lowest`: whether the
        least is the best; by default that of bytes, seconds and losses. `names`: words in the place of values. `title`,
        `words`.
    runs : sequence of Run
    source : str
        For error texts.
    against : str, optional
        In place of the spec's.

    Raises
    ------
    UsageError
        For a spec that cannot be followed; also if a cell would mix runs that differ in more than their seed.
    """
    if unknown := sorted(set(spec) - _PARTS):
        raise UsageError(
            f"{source}: {unknown[0]!r} is not known in [[tables]]; allowed are {', '.join(sorted(_PARTS))}"
        )
    by_row, by_column = ([known_key(key, source) for key in _list(spec.get(part, []))] for part in ("rows", "columns"))
    figures = [known_figure(column, runs, source) for column in _list(spec.get("figures", []))]
    if not by_row or not figures:
        raise UsageError(f"{source}: a table needs rows and figures")
    chosen = matching(runs, settings_of(spec, "where", source), source)
    against = against or _against(spec, chosen, source)
    found = grouped(chosen, by_row + by_column, source, "cell", "rows, columns or where")
    groups = {(where[: len(by_row)], where[len(by_row) :]): group for where, group in found.items()}
    printed = numbers(spec, source)
    of_paper = _printed_rows(printed, by_row) if spec.get("printed", False) else ()
    rows = tuple(dict.fromkeys((*(row for row, _ in groups), *of_paper)))
    columns = tuple(itertools.product(dict.fromkeys(column for _, column in groups), figures))
    cells: dict[tuple[Place, Column], Cell] = {}
    for row, column in itertools.product(rows, columns):
        group, where = groups.get((row, column[0]), []), row + column[0]
        # The paper may have a number where no run is planned: that of a run with the settings of this place.
        planned = replace(chosen[0].planned, settings={**chosen[0].planned.settings, **dict(where)})
        standing = group[0] if group else replace(chosen[0], planned=planned)
        number = match(printed, standing, where, column[1])
        if group or number is not None:
            cells[row, column] = _cell(group, column[1], number)
    if against:
        cells = {
            place: replace(cell, paired=_paired(cell, cells.get(_of(place, against)))) for place, cell in cells.items()
        }
    across = set(by_row) <= set(OF_THE_DATA)
    rivals: dict[Any, list[tuple[Place, Column]]] = {}
    for (row, place), group in groups.items():
        data = tuple(group[0].value(key) for key in OF_THE_DATA)
        for figure in figures:
            rivals.setdefault((row if across else place, figure, data), []).append((row, (place, figure)))
    for places in rivals.values():
        cells |= _marked({place: cells[place] for place in places if cells[place].values}, spec.get("lowest"))
    names = {key: str(value) for key, value in settings_of(spec, "names", source).items()}
    title, words = str(spec.get("title", "")), str(spec.get("words", ""))
    return Sheet(title, words, rows, columns, cells, names, against, across)


def _list(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def _against(spec: Mapping[str, Any], chosen: Sequence[Run], source: str) -> str:
    """The method that the spec names to test against, which must be there to be tested against."""
    method, methods = str(spec.get("against", "")), list(dict.fromkeys(str(run.value("method")) for run in chosen))
    if method and method not in methods:
        raise UsageError(
            f"{source}: against = {method!r} in [[tables]]: the table has no run of it; allowed is one of "
            f"{', '.join(methods)}"
        )
    return method


def _cell(group: Sequence[Run], column: str, printed: Printed | None) -> Cell:
    scale = quantity(column).scale
    values = {int(run.value("seed")): run.figure(column) for run in group}
    return Cell(
        {seed: scale * value for seed, value in sorted(values.items()) if value is not None},
        sum(not run.row for run in group),
        sum(run.is_completed and run.figure(column) is None for run in group),
        tuple(run.error for run in group if run.error),
        printed,
    )


def _printed_rows(printed: Sequence[Printed], keys: Sequence[str]) -> Iterator[Place]:
    """The rows that the paper's numbers stand in, as far as they can be told by these keys."""
    for one in printed:
        settings = {key: one.settings.get(key, default(key)) for key in keys}
        if all(value not in (None, "") for value in settings.values()):
            yield tuple(settings.items())


def _of(place: tuple[Place, Column], method: str) -> tuple[Place, Column]:
    """The place of another method, all else equal."""
    row, (column, figure) = place
    row, column = (tuple((key, method if key == "method" else value) for key, value in one) for one in (row, column))
    return row, (column, figure)


def _paired(cell: Cell, other: Cell | None) -> Paired | None:
    """The difference to the cell of the method tested against, all else equal; None for that itself."""
    seeds = sorted(cell.values.keys() & other.values.keys()) if other is not None and other is not cell else []
    if not seeds or other is None:
        return None
    differences = [cell.values[seed] - other.values[seed] for seed in seeds]
    return Paired(statistics.fmean(differences), _p_value(differences), len(seeds))


def _p_value(differences: Sequence[float]) -> float:
    """Of the paired t-test. Differences that are all the same have no spread to test by: 1 if they are 0, else 0."""
    if len(differences) < 2:
        return math.nan
    mean = statistics.fmean(differences)
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    if error <= 1e-12 * max(1.0, abs(mean)):
        return 1.0 if abs(mean) <= 1e-12 else 0.0
    from scipy.special import stdtr

    return float(2 * stdtr(len(differences) - 1, -abs(mean / error)))


def _marked(cells: Mapping[tuple[Place, Column], Cell], lowest: bool | None) -> dict[tuple[Place, Column], Cell]:
    """These cells, which can be compared, with a mark at the best: all of them where several print the same."""
    kinds = {place: quantity(place[1][1]) for place in cells}
    means = {place: round(cell.mean, kinds[place].decimals) for place, cell in cells.items()}
    is_cost = any(kind.is_cost for kind in kinds.values()) if lowest is None else lowest
    best = (min if is_cost else max)(means.values()) if len(means) > 1 else None
    return {place: replace(cell, is_best=means[place] == best) for place, cell in cells.items()}
