"""Means of our runs beside the numbers that a paper prints, in the form of the paper's table."""

import csv
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from curvfed.extensions.sweeps.commands.pages.study import SUPERNODES, Planned

# Only the plan of a sweep knows which rows of `results.sqlite` are its runs, and with which
# settings; no command prints it.
from curvfed.extensions.sweeps.commands.sweep import DEFAULTS

# Dotted keys, as the run configuration has them; no public function makes them.
from curvfed.strategies.base.keys import dotted
from studies.papers.figures.page import Study
from studies.papers.printed_numbers import Printed

Row = Mapping[str, Any]
"""A row of `results.sqlite`."""

HALF = 1e-9
"""Added before rounding, so that halves are rounded up, as in print."""


class Mean(NamedTuple):
    """Mean and standard deviation (ddof = 1) over seeds, in the unit of the paper."""

    mean: float
    std: float
    seeds: int


class Pair(NamedTuple):
    """A printed number, and our mean in its place; None without a completed run."""

    printed: Printed
    ours: Mean | None

    @property
    def decimals(self) -> int:
        """Decimals of both: of percentages one, else those that are printed."""
        if self.printed.scale == 100:
            return 1
        return len(f"{self.printed.value:.12g}".partition(".")[2])

    @property
    def difference(self) -> float:
        """Our mean minus the paper's number, as printed."""
        assert self.ours
        mean = round(self.ours.mean + HALF, self.decimals)
        return mean - round(self.printed.value, self.decimals)

    @property
    def is_far(self) -> bool:
        """Whether the two differ by more than the spreads of both."""
        assert self.ours
        return abs(self.difference) > self.ours.std + (self.printed.spread or 0.0) + 1e-9

    def __str__(self) -> str:
        value = f"({_with_spread(self.printed.value, self.printed.spread, self.decimals)})"
        if self.ours is None:
            return value
        spread = self.ours.std if self.ours.seeds > 1 else None
        return f"{_with_spread(self.ours.mean, spread, self.decimals)} {value}"


def compare(printed: Sequence[Printed], plan: Study, rows: Mapping[str, Row]) -> list[Pair]:
    """Find for each printed number the runs that are shown in a table of the sweep with its
    settings.

    Parameters
    ----------
    printed : sequence of Printed
    plan : Study
        The sweep that repeats the paper's table; its tables are searched in order.
    rows : mapping of str to mapping
        Rows of `results.sqlite`, by the names of runs.
    """
    ours: list[Mean | None] = [None] * len(printed)
    for table in plan.tables:
        keys = [*_as_list(table["rows"]), *_as_list(table.get("columns", []))]
        for group in _groups(plan.runs, dotted(table.get("where", {})), keys):
            for figure in _as_list(table["figures"]):
                number = match(printed, group[0], keys, figure)
                if number is not None and ours[number] is None:
                    ours[number] = _mean(group, rows, figure, printed[number].scale)
    return [Pair(*pair) for pair in zip(printed, ours, strict=True)]


def match(printed: Sequence[Printed], run: Planned, keys: Sequence[str], figure: str) -> int | None:
    """Find the printed number for a run in a cell that these keys tell apart; its index.

    It must agree with the run in these keys, the method, the data set, and the number of clients if
    it says one. A number without a method is one of the data. Among several candidates, one that
    agrees with the run in all that it says is taken; if several candidates are left, none is.
    """
    name = figure.rpartition(".")[2]
    close = [
        index
        for index, number in enumerate(printed)
        if number.figure.rpartition(".")[2] == name and _agrees_in_place(number, run, keys)
    ]
    exact = [
        index
        for index in close
        if all(_agrees(printed[index], run, key) for key in printed[index].settings)
    ]
    candidates = exact or close
    return candidates[0] if len(candidates) == 1 else None


def differences(pairs: Sequence[Pair]) -> str:
    """Say how many means differ from the paper's numbers by more than both spreads together, and
    both numbers where they differ most; empty without any of ours."""
    compared = [pair for pair in pairs if pair.ours]
    if not compared:
        return ""
    far = [pair for pair in compared if pair.is_far]
    if not far:
        return f"None of {len(compared)} numbers differs."
    worst = max(far, key=lambda pair: abs(pair.difference))
    place = f"{worst.printed.row}, {worst.printed.column}"
    return f"{len(far)} of {len(compared)} numbers differ; the most: {place}: {worst}."


def write_csv(pairs: Sequence[Pair], path: Path) -> None:
    """Write a row for each printed number, ours beside it."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["row", "column", "paper", "paper_std", "mean", "std", "seeds"])
        for number, ours in pairs:
            place = [number.row, number.column]
            writer.writerow([*place, number.value, number.spread, *(ours or ("", "", 0))])


def _groups(runs: Sequence[Planned], where: Row, keys: Sequence[str]) -> list[list[Planned]]:
    """The runs with the values of `where`, those of a cell together."""
    groups: dict[tuple[Any, ...], list[Planned]] = {}
    for run in runs:
        if all(run.value(key) in _as_list(values) for key, values in where.items()):
            groups.setdefault(tuple(run.value(key) for key in keys), []).append(run)
    return list(groups.values())


def _mean(
    group: Sequence[Planned], rows: Mapping[str, Row], figure: str, scale: float
) -> Mean | None:
    figures = [rows[run.name].get(figure) for run in group if run.name in rows]
    values = [scale * value for value in figures if value is not None]
    if not values:
        return None
    std = statistics.stdev(values) if len(values) > 1 else 0.0
    return Mean(statistics.fmean(values), std, len(values))


def _agrees_in_place(number: Printed, run: Planned, keys: Sequence[str]) -> bool:
    needed = {*keys, "method", "dataset"} | ({SUPERNODES} & number.settings.keys())
    return all(_agrees(number, run, key) for key in needed)


def _agrees(number: Printed, run: Planned, key: str) -> bool:
    """Whether number and run have the same value of a key; what the paper does not say of a number
    is the app's default, but for method, data set and clients."""
    if key not in DEFAULTS or (key == "method" and key not in number.settings):
        return True
    default = None if key in ("method", "dataset", SUPERNODES) else DEFAULTS[key]
    return bool(number.settings.get(key, default) == run.value(key))


def _with_spread(value: float, spread: float | None, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    return text if spread is None else f"{text} ± {spread:.{decimals}f}"


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
