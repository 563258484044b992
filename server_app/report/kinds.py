"""The figures of a sweep, by the kind that a spec of [[figures]] names; curves over the rounds are
drawn here."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import charts, style
from curvfed.server_app.report.means import BARS, LINES, draw_bars, draw_lines
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
from curvfed.server_app.report.selection import Run, grouped, keys_of, matching, settings_of
from curvfed.server_app.report.study import FIGURE, Place, Plan
from curvfed.strategies.base.figures import find
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.messages import TRAIN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = {"y", "lines", "panels", "smooth", "phase"}
"""`y`: a column of `rounds.csv`, or several; a panel for each, or for each inner list. `lines`,
`panels`: keys that tell them apart, the method if there are no `lines`. `smooth`: the number of
rounds over which a moving average is drawn. `phase`: "train" by default."""

MARKS = 7
"""Marks along a line."""


def draw_curves(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> Any:
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
    return draw_panels(spec, shown, _draw_course, line_mark, band)


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


KINDS: dict[str, tuple[Callable[[Mapping[str, Any], Sequence[Run], str], "Figure"], set[str]]] = {
    "bars": (draw_bars, BARS),
    "curves": (draw_curves, CURVES),
    "lines": (draw_lines, LINES),
}
"""The function that draws a kind, and the parts of a spec that only this kind has. Other packages
may add kinds."""

COMMON = {"kind", "title", "words", "where", "names"}
"""Parts of a spec of any kind: the kind, title, words for below the figure, which runs, and words
in place of values."""

NOWHERE = Path(os.devnull, "run")
"""The folder of a run that was not made."""


def draw(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> "Figure":
    """Draw a figure of `[[figures]]`.

    Parameters
    ----------
    spec : mapping
        `kind`, the parts of every kind and those of this one.
    runs : sequence of Run
        All of the sweep; only completed ones are drawn.
    source : str
        For error texts.

    Raises
    ------
    ConfigError
        For an unknown kind or part, or a spec that cannot be followed; `NothingToDraw` if no
        completed run has the data.
    """
    draw_kind, chosen = _read(spec, runs, source)
    completed = [run for run in chosen if run.is_completed]
    if not completed:
        raise NothingToDraw(
            f"{source}: no run that the figure {spec.get('title', spec['kind'])!r} shows has"
            " completed",
            key="no-completed-run",
        )
    with style.applied():
        return draw_kind(spec, completed, source)


def check(spec: Mapping[str, Any], plan: Plan) -> None:
    """Refuse a spec that could not be followed, whatever the runs of the plan will result in.

    Raises
    ------
    ConfigError
    """
    runs = [Run(planned, {}, NOWHERE) for planned in plan.runs]
    draw_kind, chosen = _read(spec, runs, str(plan.path))
    with contextlib.suppress(NothingToDraw):
        draw_kind(spec, [run for run in chosen if not run.planned.refused], str(plan.path))


def _read(
    spec: Mapping[str, Any], runs: Sequence[Run], source: str
) -> tuple[Callable[..., "Figure"], list[Run]]:
    """The function that draws the spec, and the runs that it shows."""
    kind = spec.get("kind")
    if kind not in KINDS:
        raise ConfigError(
            f"{source}: kind = {kind!r} in [[figures]]; allowed is one of {', '.join(KINDS)}",
            key="figure-kind",
        )
    draw_kind, parts = KINDS[kind]
    if unknown := sorted(set(spec) - COMMON - parts):
        allowed = ", ".join(sorted(COMMON | parts))
        raise ConfigError(
            f"{source}: {unknown[0]!r} is not known in a figure of kind {kind}; allowed are"
            f" {allowed}",
            key="unknown-key",
        )
    if isinstance(base := spec.get("base", 0.0), bool) or not isinstance(base, int | float):
        raise ConfigError(
            f"{source}: base = {base!r} in a figure; allowed is a number", key="figure-base"
        )
    settings_of(spec, "names", source)
    return draw_kind, matching(runs, spec, source)
