"""Figures of runs against a key of the run config."""

from collections.abc import Mapping, Sequence
from typing import Any

from curvfed.deployments.report.cells import Cell
from curvfed.deployments.report.figures import style
from curvfed.deployments.report.figures.series import Panel, Points, legend_keys, looks, panels_of, seeds_key
from curvfed.deployments.report.figures.words import Names
from curvfed.deployments.report.selection import Place, Run

PARTS = {"x", "figures", "lines", "panels", "log"}
"""`x`: a key, or several. `figures`: columns of `results.sqlite`, or `rounds.` and a column of `rounds.csv` for its
last value; a panel for each, or for each inner list. `lines`, `panels`: keys that tell them apart, the method if
there are no `lines`. `log`: whether the axis of x is logarithmic."""

LOG_KEYS = ("learning-rate", "epsilon")
FAR = 30.0
"""Last value over first from which an axis is logarithmic."""


def draw(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> Any:
    """Draw means over the seeds with their spreads, joined where x is a number, and the paper's numbers hollow."""
    from matplotlib.lines import Line2D

    names, shown = Names(spec), panels_of(spec, runs, source, "lines")
    look = looks([line for panel in shown for line in panel.lines])
    figure, every = style.panels(len(shown), rows_of_figures(shown))
    label = names.keys([key for key, _ in in_order(shown[0])[0]])
    for panel, axes in zip(shown, every, strict=True):
        at = _axis(axes, in_order(panel), names, spec)
        joined = _is_number(in_order(panel))
        for number, (line, cells) in enumerate(panel.lines.items()):
            aside = 0.0 if joined else 0.12 * (number - (len(panel.lines) - 1) / 2)
            _line(axes, {at[place] + aside: cell for place, cell in cells.items()}, look[line], joined)
        style.name(axes, label, names.axis(panel.columns), names.place(panel.place))
    every_cell = [cell for panel in shown for line in panel.lines.values() for cell in line.values()]
    keys = legend_keys(look, names, mark)
    bar = Line2D([], [], color=style.SOFT, marker="|", markersize=13, markeredgewidth=1.4, linestyle="none")
    keys += seeds_key({len(cell.values) for cell in every_cell}, bar)
    style.legend(figure, keys + (style.paper_key(spec) if any(cell.printed for cell in every_cell) else []))
    return figure


def mark(look: style.Look) -> Any:
    """A piece of line, for a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=look.colour, marker=look.marker, linestyle=look.dashes)


def rows_of_figures(shown: Sequence[Panel[Any]]) -> int:
    """The number of columns where several figures have several panels: a row for each figure. Else 0."""
    figures, places = ({getattr(panel, part) for panel in shown} for part in ("columns", "place"))
    return style.columns_for(len(places)) if len(figures) > 1 and 1 < len(places) <= 4 else 0


def in_order(panel: Panel[Points]) -> list[Place]:
    """Where the lines of a panel have points: numbers in ascending order, all else in that of the sweep."""
    found = list(dict.fromkeys(place for cells in panel.lines.values() for place in cells))
    return sorted(found, key=lambda place: place[0][1]) if _is_number(found) else found


def _is_number(places: Sequence[Place]) -> bool:
    return all(len(place) == 1 and isinstance(place[0][1], int | float) and not isinstance(place[0][1], bool)
               for place in places)  # fmt: skip


def _axis(axes: Any, places: Sequence[Place], names: Names, spec: Mapping[str, Any]) -> dict[Place, float]:
    """Mark the places, and say where they are."""
    words = [", ".join(names.value(value) for _, value in place) for place in places]
    if not _is_number(places):
        style.categories(axes, words)
        axes.set_xlim(-0.5, len(places) - 0.5)
        return {place: float(number) for number, place in enumerate(places)}
    values = [float(place[0][1]) for place in places]
    is_far = places[0][0][0].endswith(LOG_KEYS) or values[-1] >= FAR * values[0]
    style.numbers(axes, values, words, values[0] > 0 and len(values) > 1 and bool(spec.get("log", is_far)))
    return dict(zip(places, values, strict=True))


def _line(axes: Any, cells: Mapping[float, Cell], look: style.Look, joined: bool) -> None:
    at = sorted(cells)
    means, spreads = [cells[x].mean for x in at], [cells[x].spread for x in at]
    axes.errorbar(
        at, means, spreads, color=look.colour, marker=look.marker, linestyle=look.dashes if joined else "none", capsize=3,
        elinewidth=1.1, capthick=1.1,
    )  # fmt: skip
    printed = [(x, number.value) for x in at if (number := cells[x].printed) is not None]
    if printed:
        axes.plot(
            *zip(*printed, strict=True), linestyle="none", marker=look.marker, markersize=9, markerfacecolor="white",
            markeredgecolor=look.colour, markeredgewidth=1.4, zorder=1.9,
        )  # fmt: skip
