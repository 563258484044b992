"""Means over seeds against keys of the run config, as lines or as groups of bars."""

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from curvfed.server_app.report import charts, labels, style
from curvfed.server_app.report.panels import (
    Keys,
    NothingToDraw,
    Panel,
    bar_mark,
    draw_panels,
    line_mark,
    panels_of,
    seeds_key,
)
from curvfed.server_app.report.selection import OF_ROUNDS, Run, Spec, values_of
from curvfed.server_app.report.study import Place

LINES = {"x", "figures", "lines", "panels", "log"}
"""`x`: a key, or several. `figures`: columns of `results.sqlite`, or `rounds.` and a column of
`rounds.csv` for its last value; a panel for each, or for each inner list. `lines`, `panels`: keys
that tell them apart, the method if there are no `lines`. `log`: whether the x axis is logarithmic.
"""

BARS = {"x", "figures", "bars", "panels", "base"}
"""`x`: a key, or several, whose values have a group of bars each. `figures`: columns of
`results.sqlite`, a panel for each, or for each inner list. `bars`, `panels`: keys that tell them
apart, the method if there are no `bars`. `base`: where the axis begins, in the printed unit, 0 by
default."""

LOG_KEYS = ("learning-rate", "epsilon")
FAR = 30.0
"""Ratio of the last value to the first from which an axis is logarithmic by default."""

WIDE = 0.8
"""Width of a group of bars, where 1 is the distance between groups."""

Position = tuple[Any, ...]
"""The values of a panel's keys, which say where on its x axis a point stands."""


def draw_lines(spec: Spec, runs: Sequence[Run]) -> Any:
    """Draw means over the seeds with their spreads, joined where x is a number."""
    shown = _panels(spec, runs, "lines")
    return draw_panels(spec, shown, partial(_draw_lines, spec), line_mark, _keys(shown))


def draw_bars(spec: Spec, runs: Sequence[Run]) -> Any:
    """Draw means over the seeds, with their spreads and a dot for each seed."""
    shown = _panels(spec, runs, "bars")
    return draw_panels(spec, shown, partial(draw_groups, spec), bar_mark, _keys(shown))


def draw_groups(spec: Spec, axes: Any, panel: Panel, look: Mapping[Place, style.Look]) -> None:
    """Draw a group of bars for each position on the x axis, in the order of the panel's lines."""
    width = WIDE / len(panel.lines)
    at = _name_positions(axes, panel, spec)
    white = {
        "markersize": 3.2,
        "markerfacecolor": "white",
        "markeredgecolor": "black",
        "markeredgewidth": 0.8,
    }
    for number, (line, values) in enumerate(panel.lines.items()):
        groups = _by_x(values, panel.keys, at, width * (number + 0.5) - WIDE / 2)
        stats = groups["value"].agg(["mean", "std"])
        error = {"capsize": min(3.0, 30 * width / len(stats)), "elinewidth": 1.2, "ecolor": "black"}
        charts.bar(
            axes, stats.index, stats["mean"], width, look[line], yerr=stats["std"], error_kw=error
        )
        for middle, part in groups["value"]:
            if len(part) > 1:
                axes.plot(middle + width * 0.25 * np.linspace(-1, 1, len(part)), part, "o", **white)
    axes.grid(False, axis="x")
    if base := spec.get("base", 0.0):
        axes.set_ylim(bottom=base)


def _draw_lines(spec: Spec, axes: Any, panel: Panel, look: Mapping[Place, style.Look]) -> None:
    is_joined = _are_numbers(_positions(panel))
    x = _number_positions(axes, panel, spec) if is_joined else _name_positions(axes, panel, spec)
    for number, (line, values) in enumerate(panel.lines.items()):
        offset = 0.0 if is_joined else 0.12 * (number - (len(panel.lines) - 1) / 2)
        groups = _by_x(values, panel.keys, x, offset)
        line_look = look[line]
        stats = groups["value"].agg(["mean", "std"])
        thin = {
            "capsize": 3,
            "elinewidth": 1.1,
            "capthick": 1.1,
            "linestyle": line_look.dashes if is_joined else "none",
        }
        axes.errorbar(
            stats.index,
            stats["mean"],
            stats["std"],
            color=line_look.colour,
            marker=line_look.marker,
            **thin,
        )


def _panels(spec: Spec, runs: Sequence[Run], part: str) -> list[Panel]:
    """The panels of a spec whose part `part` tells lines apart."""
    x = spec.keys("x")
    panels = spec.keys("panels")
    if not x:
        raise spec.error(f"a figure of kind {spec.parts['kind']} needs x", "incomplete-figure")

    def check(column: str) -> str:
        if column.startswith(OF_ROUNDS):
            return spec.column_of_rounds(column.removeprefix(OF_ROUNDS))
        return spec.known_figure(column, runs)

    groups = spec.columns("figures", check)
    lines = spec.keys(part, ["method"], [*x, *panels])
    keys = [*panels, *lines, *x]
    spec.grouped(runs, keys)
    figures = list(dict.fromkeys(itertools.chain(*groups)))
    values = values_of(runs, keys, figures).dropna(subset="value")
    if values.empty:
        text = f"no completed run has {', '.join(figures)}"
        raise spec.error(text, "no-figures", NothingToDraw)
    return panels_of(spec, values, groups, panels, lines, x)


def _by_x(values: pd.DataFrame, keys: list[str], at: Mapping[Position, float], aside: float) -> Any:
    """Group the values of a line by the x coordinates of their positions."""
    positions = values[keys].itertuples(index=False, name=None)
    return values.groupby([at[position] + aside for position in positions])


def _positions(panel: Panel) -> list[Position]:
    """The positions of all points of a panel: numbers in ascending order, other values in that of
    the sweep."""
    points = pd.concat(list(panel.lines.values()))[panel.keys].drop_duplicates()
    positions = list(points.itertuples(index=False, name=None))
    return sorted(positions) if _are_numbers(positions) else positions


def _are_numbers(positions: Sequence[Position]) -> bool:
    """Whether these are values of one key that is a number."""
    return all(
        len(place) == 1 and isinstance(place[0], int | float) and not isinstance(place[0], bool)
        for place in positions
    )


def _words(positions: Sequence[Position], spec: Spec) -> list[str]:
    return [", ".join(map(spec.names.value, position)) for position in positions]


def _name_positions(axes: Any, panel: Panel, spec: Spec) -> dict[Position, float]:
    """Put the positions side by side on the x axis, and return their coordinates."""
    positions = _positions(panel)
    labels.categories(axes, _words(positions, spec))
    axes.set_xlim(-0.5, len(positions) - 0.5)
    return {position: float(number) for number, position in enumerate(positions)}


def _number_positions(axes: Any, panel: Panel, spec: Spec) -> dict[Position, float]:
    """Put positions that are numbers where they belong on the x axis, and return their
    coordinates.
    """
    positions = _positions(panel)
    values = [float(position[0]) for position in positions]
    is_far = panel.keys[0].endswith(LOG_KEYS) or values[-1] >= FAR * values[0]
    is_log = values[0] > 0 and len(values) > 1 and bool(spec.get("log", is_far))
    labels.numbers(axes, values, _words(positions, spec), is_log)
    return dict(zip(positions, values, strict=True))


def _keys(panels: Sequence[Panel]) -> Keys:
    """Explain spreads."""
    lines = [(panel.keys, values) for panel in panels for values in panel.lines.values()]
    counts = {int(size) for keys, values in lines for size in values.groupby(keys).size()}
    return seeds_key(counts)
