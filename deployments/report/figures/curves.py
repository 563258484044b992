"""Columns of `rounds.csv` over the rounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.report.figures import style
from curvfed.deployments.report.figures.lines import mark, rows_of_figures
from curvfed.deployments.report.figures.series import (
    NothingToDraw,
    Panel,
    columns_of,
    groups,
    keys_of,
    legend_keys,
    looks,
    of_rounds,
    seeds_key,
)
from curvfed.deployments.report.figures.words import Line, Names
from curvfed.deployments.report.quantities import quantity
from curvfed.deployments.report.selection import Place, Run
from curvfed.server_app.run_files import RunFiles
from curvfed.strategies.wire.messages import TRAIN

PARTS = {"y", "lines", "panels", "smooth", "phase"}
"""`y`: a column of `rounds.csv`, or several; a panel for each, or for each inner list. `lines`, `panels`: keys that
tell them apart, the method if there are no `lines`. `smooth`: rounds that a drawn value is the mean of. `phase`:
"train" by default."""

MARKS = 7
"""Marks along a line."""


@dataclass(frozen=True, eq=False)
class Course:
    """What is drawn of one line, in the printed unit.

    Attributes
    ----------
    rounds, mean : array (R,)
    spread : array (R,) or None
        None for one seed.
    seeds : int
    """

    rounds: NDArray[np.float64]
    mean: NDArray[np.float64]
    spread: NDArray[np.float64] | None
    seeds: int


def draw(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> Any:
    """Draw means over the seeds, and bands of their spreads."""
    from matplotlib.patches import Patch

    names, shown = Names(spec), _panels(spec, runs, source)
    look = looks([line for panel in shown for line in panel.lines])
    figure, every = style.panels(len(shown), rows_of_figures(shown))
    for panel, axes in zip(shown, every, strict=True):
        for number, (line, course) in enumerate(panel.lines.items()):
            _line(axes, course, look[line], number / len(panel.lines))
        style.name(axes, "round", names.axis(panel.columns), names.place(panel.place))
        axes.xaxis.get_major_locator().set_params(integer=True, nbins=6)
        axes.margins(x=0.02)
    keys = legend_keys(look, names, mark)
    counts = {course.seeds for panel in shown for course in panel.lines.values()}
    style.legend(figure, keys + seeds_key(counts, Patch(color=style.SOFT, alpha=0.25, linewidth=0)))
    return figure


def _panels(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> list[Panel[Course]]:
    panels, smooth = keys_of(spec, "panels", source), spec.get("smooth", 1)
    if not isinstance(smooth, int) or smooth < 1:
        raise UsageError(f"{source}: smooth = {smooth!r} in a figure of kind curves; allowed is a whole number >= 1")
    apart = [key for key in keys_of(spec, "lines", source, ["method"]) if key not in panels]
    wanted = columns_of(spec, "y", "curves", lambda column: of_rounds(column, source), source)
    phase = str(spec.get("phase", TRAIN))
    told: dict[tuple[Place, tuple[str, ...]], dict[Line, Course]] = {}
    files = {where: [RunFiles.read(run.folder) for run in group] for where, group in
             groups(runs, [*panels, *apart], source).items()}  # fmt: skip
    for columns in wanted:
        for where, group in files.items():
            for column in columns:
                course = _course([one.by_round(column, phase) for one in group], smooth, quantity(column).scale)
                if course is not None:
                    line = where[len(panels) :], column if len(columns) > 1 else ""
                    told.setdefault((where[: len(panels)], columns), {})[line] = course
    if not told:
        names = ", ".join(name for one in wanted for name in one)
        raise NothingToDraw(f"{source}: rounds.csv of no completed run has {names} in phase {phase}")
    return [Panel(place, columns, lines) for (place, columns), lines in told.items()]


def _course(
    told: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]], smooth: int, scale: float
) -> Course | None:
    """Mean and spread over the runs that measured anything, in the rounds that all of these did."""
    told = [(rounds, values) for rounds, values in told if len(rounds)]
    if not told:
        return None
    common = told[0][0]
    for rounds, _ in told[1:]:
        common = np.intersect1d(common, rounds)
    if not len(common):
        return None
    smooth = min(smooth, len(common))
    every = np.array([values[np.isin(rounds, common)] for rounds, values in told])
    every = scale * np.array([np.convolve(values, np.full(smooth, 1 / smooth), "valid") for values in every])
    spread = every.std(axis=0, ddof=1) if len(every) > 1 else None
    return Course(common[smooth - 1 :], every.mean(axis=0), spread, len(every))


def _line(axes: Any, course: Course, look: style.Look, share: float) -> None:
    step = max(len(course.rounds) // MARKS, 1)
    axes.plot(
        course.rounds, course.mean, color=look.colour, linestyle=look.dashes, marker=look.marker,
        markevery=(int(share * step), step),
    )  # fmt: skip
    if course.spread is not None:
        low, high = course.mean - course.spread, course.mean + course.spread
        axes.fill_between(course.rounds, low, high, color=look.colour, alpha=0.15, linewidth=0)
