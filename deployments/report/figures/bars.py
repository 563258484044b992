"""Figures of runs as groups of bars."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curvfed.deployments.report.cells import Cell
from curvfed.deployments.report.figures import style
from curvfed.deployments.report.figures.lines import in_order, rows_of_figures
from curvfed.deployments.report.figures.series import legend_keys, looks, panels_of, seeds_key
from curvfed.deployments.report.figures.words import Line, Names
from curvfed.deployments.report.selection import Place, Run

PARTS = {"x", "figures", "bars", "panels", "base"}
"""`x`: a key, or several, whose values have a group of bars each. `figures`: columns of `results.sqlite`, a panel for
each, or for each inner list. `bars`, `panels`: keys that tell them apart, the method if there are no `bars`.
`base`: where the axis begins, in the printed unit, 0 by default."""

WIDE = 0.8
"""Of a group, where 1 is the way to the next."""


def draw(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> Any:
    """Draw means over the seeds, with their spreads, a dot for each seed, and the paper's numbers hollow."""
    names, shown = Names(spec), panels_of(spec, runs, source, "bars")
    look = looks([line for panel in shown for line in panel.lines])
    figure, every = style.panels(len(shown), rows_of_figures(shown))
    for panel, axes in zip(shown, every, strict=True):
        places = in_order(panel)
        draw_groups(axes, panel.lines, places, look, float(spec.get("base", 0.0)))
        style.categories(axes, [", ".join(names.value(value) for _, value in place) for place in places])
        label = names.keys([key for key, _ in places[0]])
        style.name(axes, label, names.axis(panel.columns), names.place(panel.place))
    cells = [cell for panel in shown for line in panel.lines.values() for cell in line.values()]
    keys = legend_keys(look, names, patch)
    keys += seeds_key({len(cell.values) for cell in cells}, spread_mark())
    style.legend(figure, keys + (style.paper_key(spec) if any(cell.printed for cell in cells) else []))
    return figure


def draw_groups(
    axes: Any, lines: Mapping[Line, Mapping[Place, Cell]], places: Sequence[Place], look: Mapping[Line, style.Look],
    base: float,
) -> None:  # fmt: skip
    """Draw a group of bars at 0, 1, … for each of the places; the order within all groups is that of `lines`."""
    width = WIDE / len(lines)
    for number, (line, cells) in enumerate(lines.items()):
        one, aside = look[line], width * (number + 0.5) - WIDE / 2
        at = np.array([place for place, where in enumerate(places) if where in cells])
        told = [cells[places[place]] for place in at]
        axes.bar(
            at + aside, [cell.mean for cell in told], width, yerr=[cell.spread for cell in told], color=one.tint,
            hatch=one.hatch, edgecolor=one.colour, linewidth=1.0, error_kw={"capsize": min(3.0, 30 * width / len(at)),
            "elinewidth": 1.2, "ecolor": "black"},
        )  # fmt: skip
        for x, cell in zip(at + aside, told, strict=True):
            values = list(cell.values.values())
            if len(values) > 1:
                apart = width * 0.25 * np.linspace(-1, 1, len(values))
                axes.plot(x + apart, values, "o", markersize=3.2, markerfacecolor="white", markeredgecolor="black",
                          markeredgewidth=0.8)  # fmt: skip
        printed = [
            (x, cell.printed.value) for x, cell in zip(at + aside, told, strict=True) if cell.printed is not None
        ]
        if printed:
            axes.plot(*zip(*printed, strict=True), "o", markersize=8, markerfacecolor="none", markeredgecolor=style.SOFT,
                      markeredgewidth=1.5)  # fmt: skip
    axes.set_xlim(-0.5, len(places) - 0.5)
    axes.grid(False, axis="x")
    if base:
        axes.set_ylim(bottom=base)


def patch(look: style.Look) -> Any:
    """A bar, for a legend."""
    from matplotlib.patches import Patch

    return Patch(facecolor=look.tint, edgecolor=look.colour, hatch=look.hatch)


def spread_mark() -> Any:
    """A spread, for a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color="black", marker="|", markersize=13, markeredgewidth=1.4, linestyle="none")
