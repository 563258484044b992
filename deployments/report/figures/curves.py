"""Columns of `rounds.csv` over the rounds."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.report.figures.looks import legend_keys, line_mark, looks, seeds_key
from curvfed.deployments.report.figures.series import (
    NothingToDraw,
    Panel,
    columns_of,
    groups,
    keys_of,
    of_rounds,
    rows_of_figures,
)
from curvfed.deployments.report.quantities import quantity
from curvfed.deployments.report.selection import Place, Run
from curvfed.deployments.report.words import Line, Names
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import charts, labels, style
from curvfed.strategies.wire.messages import TRAIN

PARTS = {"y", "lines", "panels", "smooth", "phase"}
"""`y`: a column of `rounds.csv`, or several; a panel for each, or for each inner list. `lines`, `panels`: keys that
tell them apart, the method if there are no `lines`. `smooth`: rounds that a drawn value is the mean of. `phase`:
"train" by default."""

MARKS = 7
"""Marks along a line."""

Array = NDArray[np.float64]


class Course(NamedTuple):
    """One line: rounds (R,), mean (R,) over the seeds and spread (R,), 0 for one seed; and how many seeds."""

    rounds: Array
    mean: Array
    spread: Array
    seeds: int


def draw(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> Any:
    """Draw means over the seeds, and bands of their spreads."""
    from matplotlib.patches import Patch

    names, shown = Names(spec.get("names", {})), _panels(spec, runs, source)
    look = looks(line for panel in shown for line in panel.lines)
    figure, every = style.panels(len(shown), rows_of_figures(shown))
    for panel, axes in zip(shown, every, strict=True):
        for number, (line, course) in enumerate(panel.lines.items()):
            _line(axes, course, look[line], number / len(panel.lines))
        charts.over_rounds(axes, "")
        labels.name(axes, "round", names.axis(panel.columns), names.place(panel.place))
    counts = {course.seeds for panel in shown for course in panel.lines.values()}
    band = seeds_key(counts, Patch(color=style.SOFT, alpha=0.25, linewidth=0))
    labels.legend(figure, legend_keys(look, names, line_mark) + band)
    return figure


def _panels(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> list[Panel[Course]]:
    panels, smooth = keys_of(spec, "panels", source), spec.get("smooth", 1)
    if not isinstance(smooth, int) or smooth < 1:
        raise UsageError(f"{source}: smooth = {smooth!r} in a figure of kind curves; allowed is a whole number >= 1")
    apart = [key for key in keys_of(spec, "lines", source, ["method"]) if key not in panels]
    wanted, phase = (
        columns_of(spec, "y", lambda column: of_rounds(column, source), source),
        str(spec.get("phase", TRAIN)),
    )
    told: dict[tuple[Place, tuple[str, ...]], dict[Line, Course]] = {}
    files = {where: [RunFiles.read(run.folder) for run in group] for where, group in
             groups(runs, [*panels, *apart], source).items()}  # fmt: skip
    for columns, (where, group) in product(wanted, files.items()):
        for column in columns:
            course = _course([one.by_round(column, phase) for one in group], smooth, quantity(column).scale)
            if course is not None:
                line = where[len(panels) :], column if len(columns) > 1 else ""
                told.setdefault((where[: len(panels)], columns), {})[line] = course
    if not told:
        names = ", ".join(name for one in wanted for name in one)
        raise NothingToDraw(f"{source}: rounds.csv of no completed run has {names} in phase {phase}")
    return [Panel(place, columns, lines) for (place, columns), lines in told.items()]


def _course(told: Sequence[tuple[Array, Array]], smooth: int, scale: float) -> Course | None:
    """Mean and spread over the runs that measured anything, in the rounds that all of these did."""
    told = [(rounds, values) for rounds, values in told if len(rounds)]
    common = sorted(set.intersection(*(set(rounds) for rounds, _ in told))) if told else []
    if not common:
        return None
    smooth = min(smooth, len(common))
    every = [scale * np.convolve(values[np.isin(rounds, common)], np.full(smooth, 1 / smooth), "valid")
             for rounds, values in told]  # fmt: skip
    spread = np.std(every, axis=0, ddof=1 if len(every) > 1 else 0)
    return Course(np.array(common[smooth - 1 :]), np.mean(every, axis=0), spread, len(every))


def _line(axes: Any, course: Course, look: style.Look, share: float) -> None:
    rounds, mean, spread, seeds = course
    step = max(len(rounds) // MARKS, 1)
    drawn = {"linestyle": look.dashes, "marker": look.marker, "markevery": (int(share * step), step)}
    axes.plot(rounds, mean, color=look.colour, **drawn)
    if seeds > 1:
        axes.fill_between(rounds, mean - spread, mean + spread, color=look.colour, alpha=0.15, linewidth=0)
