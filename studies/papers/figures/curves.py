"""Figures over the rounds: means over the seeds, and bands of one standard deviation."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from curvfed.extensions.sweeps.commands.pages.pictures import MARKS
from curvfed.extensions.sweeps.commands.pages.selection import FIGURE, Run
from curvfed.extensions.sweeps.commands.pages.study import Place
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import charts, style
from curvfed.strategies.base.figures import find
from curvfed.strategies.wire.messages import TRAIN
from studies.papers.figures.panels import Panel, draw_panels, line_mark, panels_of, seeds_key
from studies.papers.figures.spec import NothingToDraw, Spec

CURVES = {"y", "lines", "panels", "smooth"}
"""`y`: a column of `rounds.csv`, or several; a panel for each, or for each inner list. `lines`,
`panels`: keys that tell them apart, the method if there are no `lines`. `smooth`: the number of
rounds over which a moving average is drawn."""


def draw_curves(spec: Spec, runs: Sequence[Run]) -> Any:
    """Draw means over the seeds, and bands of one standard deviation."""
    from matplotlib.patches import Patch

    panels = spec.keys("panels")
    smooth = int(spec.get("smooth", 1))
    lines = spec.keys("lines", ["method"], panels)
    groups = spec.columns("y")
    figures = list(dict.fromkeys(itertools.chain(*groups)))
    spec.grouped(runs, [*panels, *lines])
    values = _values(runs, [*panels, *lines], figures)
    shown = []
    for panel in panels_of(spec, values, groups, panels, lines, ["round"]):
        courses = {line: _course(values, smooth) for line, values in panel.lines.items()}
        courses = {line: course for line, course in courses.items() if not course.empty}
        if courses:
            shown.append(panel._replace(lines=courses))
    if not shown:
        raise NothingToDraw
    counts = {int(course["seeds"].iloc[0]) for panel in shown for course in panel.lines.values()}
    band = seeds_key(counts, Patch(color=style.SOFT, alpha=0.25, linewidth=0))
    return draw_panels(spec, shown, _draw_course, line_mark, band)


def _values(runs: Sequence[Run], keys: Sequence[str], figures: Sequence[str]) -> pd.DataFrame:
    """A row for each run, figure and round, with the `keys`, `figure`, `seed`, `round` and
    `value`.
    """
    rows = []
    for run in runs:
        files = RunFiles(run.folder)
        for figure in figures:
            settings = dict(run.place(keys)) | {FIGURE: figure, "seed": run.seed}
            rounds, values = files.by_round(figure, TRAIN)
            rows += [
                settings | {"round": number, "value": find(figure).scale * value}
                for number, value in zip(rounds, values, strict=True)
            ]
    return pd.DataFrame(
        rows, columns=list(dict.fromkeys([*keys, FIGURE, "seed", "round", "value"]))
    )


def _course(values: pd.DataFrame, smooth: int) -> pd.DataFrame:
    """Mean and spread over the seeds by round, in the rounds that all seeds have, and the number of
    seeds."""
    by_seed = values.pivot(index="round", columns="seed", values="value").dropna()
    smoothed = by_seed.rolling(min(smooth, max(len(by_seed), 1))).mean().dropna()
    return pd.DataFrame(
        {"mean": smoothed.mean(axis=1), "spread": smoothed.std(axis=1), "seeds": by_seed.shape[1]}
    )


def _draw_course(axes: Any, panel: Panel, look: Mapping[Place, style.Look]) -> None:
    for number, (line, course) in enumerate(panel.lines.items()):
        step = max(len(course) // MARKS, 1)
        marks = {
            "marker": look[line].marker,
            "markevery": (int(number / len(panel.lines) * step), step),
        }
        colour = look[line].colour
        mean = course["mean"]
        spread = course["spread"]
        axes.plot(course.index, mean, color=colour, linestyle=look[line].dashes, **marks)
        axes.fill_between(
            course.index, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0
        )
    charts.over_rounds(axes, "")
