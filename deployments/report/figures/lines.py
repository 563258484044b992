"""Figures of runs against a key of the run config."""

from collections.abc import Mapping, Sequence
from typing import Any

from curvfed.deployments.report.cells import Cell
from curvfed.deployments.report.figures.looks import cells_keys, legend_keys, line_mark, looks
from curvfed.deployments.report.figures.series import in_order, is_number, panels_of, rows_of_figures
from curvfed.deployments.report.selection import Place, Run
from curvfed.deployments.report.words import Names
from curvfed.server_app.report import labels, style

PARTS = {"x", "figures", "lines", "panels", "log"}
"""`x`: a key, or several. `figures`: columns of `results.sqlite`, or `rounds.` and a column of `rounds.csv` for its
last value; a panel for each, or for each inner list. `lines`, `panels`: keys that tell them apart, the method if
there are no `lines`. `log`: whether the axis of x is logarithmic."""

LOG_KEYS = ("learning-rate", "epsilon")
FAR = 30.0
"""Last value over first from which an axis is logarithmic."""


def draw(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> Any:
    """Draw means over the seeds with their spreads, joined where x is a number, and the paper's numbers hollow."""
    names, shown = Names(spec.get("names", {})), panels_of(spec, runs, source, "lines")
    look = looks(line for panel in shown for line in panel.lines)
    figure, every = style.panels(len(shown), rows_of_figures(shown))
    for panel, axes in zip(shown, every, strict=True):
        places = in_order(panel)
        at, joined = _axis(axes, places, names, spec), is_number(places)
        for number, (line, cells) in enumerate(panel.lines.items()):
            aside = 0.0 if joined else 0.12 * (number - (len(panel.lines) - 1) / 2)
            _line(axes, {at[place] + aside: cell for place, cell in cells.items()}, look[line], joined)
        x = ", ".join(names.key(key) for key, _ in places[0])
        labels.name(axes, x, names.axis(panel.columns), names.place(panel.place))
    drawn = [cell for panel in shown for line in panel.lines.values() for cell in line.values()]
    labels.legend(figure, legend_keys(look, names, line_mark) + cells_keys(spec, drawn))
    return figure


def _axis(axes: Any, places: Sequence[Place], names: Names, spec: Mapping[str, Any]) -> dict[Place, float]:
    """Mark the places, and say where they are."""
    words = [names.values(place) for place in places]
    if not is_number(places):
        labels.categories(axes, words)
        axes.set_xlim(-0.5, len(places) - 0.5)
        return {place: float(number) for number, place in enumerate(places)}
    values = [float(place[0][1]) for place in places]
    is_far = places[0][0][0].endswith(LOG_KEYS) or values[-1] >= FAR * values[0]
    labels.numbers(axes, values, words, values[0] > 0 and len(values) > 1 and bool(spec.get("log", is_far)))
    return dict(zip(places, values, strict=True))


def _line(axes: Any, cells: Mapping[float, Cell], look: style.Look, joined: bool) -> None:
    at, thin = sorted(cells), {"capsize": 3, "elinewidth": 1.1, "capthick": 1.1}
    means, spreads = [cells[x].mean for x in at], [cells[x].spread for x in at]
    dashes = look.dashes if joined else "none"
    axes.errorbar(at, means, spreads, color=look.colour, marker=look.marker, linestyle=dashes, **thin)
    printed = {x: number.value for x in at if (number := cells[x].printed) is not None}
    hollow = {"markerfacecolor": "white", "markeredgecolor": look.colour, "markeredgewidth": 1.4, "zorder": 1.9}
    if printed:
        axes.plot(*zip(*printed.items(), strict=True), marker=look.marker, linestyle="none", markersize=9, **hollow)
