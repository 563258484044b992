"""Figures of runs as groups of bars."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curvfed.deployments.report.cells import Cell
from curvfed.deployments.report.figures.looks import bar_mark, cells_keys, legend_keys, looks
from curvfed.deployments.report.figures.series import in_order, panels_of, rows_of_figures
from curvfed.deployments.report.selection import Place, Run
from curvfed.deployments.report.words import Line, Names
from curvfed.server_app.report import charts, labels, style

PARTS = {"x", "figures", "bars", "panels", "base"}
"""`x`: a key, or several, whose values have a group of bars each. `figures`: columns of `results.sqlite`, a panel for
each, or for each inner list. `bars`, `panels`: keys that tell them apart, the method if there are no `bars`.
`base`: where the axis begins, in the printed unit, 0 by default."""

WIDE = 0.8
"""Of a group, where 1 is the way to the next."""


def draw(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> Any:
    """Draw means over the seeds, with their spreads, a dot for each seed, and the paper's numbers hollow."""
    names, shown = Names(spec.get("names", {})), panels_of(spec, runs, source, "bars")
    look = looks(line for panel in shown for line in panel.lines)
    figure, every = style.panels(len(shown), rows_of_figures(shown))
    for panel, axes in zip(shown, every, strict=True):
        places = in_order(panel)
        draw_groups(axes, panel.lines, places, look, float(spec.get("base", 0.0)))
        labels.categories(axes, [names.values(place) for place in places])
        x = ", ".join(names.key(key) for key, _ in places[0])
        labels.name(axes, x, names.axis(panel.columns), names.place(panel.place))
    cells = [cell for panel in shown for line in panel.lines.values() for cell in line.values()]
    labels.legend(figure, legend_keys(look, names, bar_mark) + cells_keys(spec, cells))
    return figure


def draw_groups(
    axes: Any, lines: Mapping[Line, Mapping[Place, Cell]], places: Sequence[Place], look: Mapping[Line, style.Look],
    base: float,
) -> None:  # fmt: skip
    """Draw a group of bars at 0, 1, … for each of the places; the order within all groups is that of `lines`."""
    width = WIDE / len(lines)
    white = {"markersize": 3.2, "markerfacecolor": "white", "markeredgecolor": "black", "markeredgewidth": 0.8}
    hollow = {"markersize": 8, "markerfacecolor": "none", "markeredgecolor": style.SOFT, "markeredgewidth": 1.5}
    for number, (line, cells) in enumerate(lines.items()):
        at = np.array([place for place, where in enumerate(places) if where in cells])
        told, x = [cells[places[place]] for place in at], at + width * (number + 0.5) - WIDE / 2
        error = {"capsize": min(3.0, 30 * width / len(at)), "elinewidth": 1.2, "ecolor": "black"}
        spreads = [cell.spread for cell in told]
        charts.bar(axes, x, [cell.mean for cell in told], width, look[line], yerr=spreads, error_kw=error)
        for middle, cell in zip(x, told, strict=True):
            if len(cell.values) > 1:
                apart = middle + width * 0.25 * np.linspace(-1, 1, len(cell.values))
                axes.plot(apart, list(cell.values.values()), "o", **white)
            if cell.printed is not None:
                axes.plot(middle, cell.printed.value, "o", **hollow)
    axes.set_xlim(-0.5, len(places) - 0.5)
    axes.grid(False, axis="x")
    if base:
        axes.set_ylim(bottom=base)
