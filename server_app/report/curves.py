"""Columns of `rounds.csv` over the rounds."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import charts, style
from curvfed.server_app.report.panels import (
    NothingToDraw,
    Panel,
    column_of_rounds,
    columns_of,
    draw_panels,
    line_keys,
    line_mark,
    panels_of,
    seeds_key,
)
from curvfed.server_app.report.selection import Run, grouped, keys_of
from curvfed.server_app.report.words import FIGURE, Place
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.figures import find
from curvfed.strategies.wire.messages import TRAIN

PARTS = {"y", "lines", "panels", "smooth", "phase"}
"""`y`: a column of `rounds.csv`, or several; a panel for each, or for each inner list. `lines`,
`panels`: keys that tell them apart, the method if there are no `lines`. `smooth`: the number of
rounds over which a moving average is drawn. `phase`: "train" by default."""

MARKS = 7
"""Marks along a line."""


def draw(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> Any:
    """Draw means over the seeds, and bands of one standard deviation."""
    from matplotlib.patches import Patch

    panels = keys_of(spec, "panels", source)
    smooth = spec.get("smooth", 1)
    if not isinstance(smooth, int) or smooth < 1:
        raise ConfigError(
            f"{source}: smooth = {smooth!r} in a figure of kind curves; allowed is a whole number"
            " >= 1",
            key="figure-smooth",
        )
    lines = line_keys(spec, "lines", panels, source)
    groups = columns_of(spec, "y", lambda column: column_of_rounds(column, source), source)
    figures = list(dict.fromkeys(figure for group in groups for figure in group))
    phase = str(spec.get("phase", TRAIN))
    grouped(runs, [*panels, *lines], source)
    values = _values(runs, [*panels, *lines], figures, phase)
    shown = [
        panel._replace(
            lines={
                line: course
                for line, values in panel.lines.items()
                if not (course := _course(values, smooth)).empty
            }
        )
        for panel in panels_of(spec, values, groups, panels, lines, "round", ["round"])
    ]
    shown = [panel for panel in shown if panel.lines]
    if not shown:
        raise NothingToDraw(
            f"{source}: rounds.csv of no completed run has {', '.join(figures)} in phase {phase}",
            key="no-figures",
        )
    counts = {int(course["seeds"].iloc[0]) for panel in shown for course in panel.lines.values()}
    band = seeds_key(counts, Patch(color=style.SOFT, alpha=0.25, linewidth=0))
    return draw_panels(spec, shown, _draw_panel, line_mark, band)


def _values(
    runs: Sequence[Run], keys: Sequence[str], figures: Sequence[str], phase: str
) -> pd.DataFrame:
    """A row for each run, figure and round, with the `keys`, `figure`, `seed`, `round` and
    `value`.
    """
    rows = []
    for run in runs:
        files = RunFiles.read(run.folder)
        for figure in figures:
            settings = dict(run.place(keys)) | {FIGURE: figure, "seed": run.seed}
            rounds, values = files.by_round(figure, phase)
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


def _draw_panel(axes: Any, panel: Panel, look: Mapping[Place, style.Look]) -> None:
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
