"""The panels of a figure: their lines, the looks of these, the names of the axes, and the legend
above all panels; and means over seeds in them, as lines or as groups of bars."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from curvfed.extensions.sweeps.commands.pages import legends
from curvfed.extensions.sweeps.commands.pages.selection import FIGURE, Run, values_of
from curvfed.extensions.sweeps.commands.pages.study import Place
from curvfed.server_app.report import charts, style
from studies import marks
from studies.papers.figures.spec import Names, NothingToDraw, Spec, split

Keys = list[tuple[Any, str]]
"""Marks and their texts, for a legend."""

LINES = {"x", "figures", "lines", "panels", "log"}
"""`x`: a key, or several. `figures`: columns of `results.sqlite`, a panel for each,
or for each inner list. `lines`, `panels`: keys
that tell them apart, the method if there are no `lines`. `log`: whether the x axis is logarithmic.
"""

LOG_KEYS = ("learning-rate", "epsilon")
FAR = 30.0
"""Ratio of the last value to the first from which an axis is logarithmic by default."""

WIDE = 0.8
"""Width of a group of bars, where 1 is the distance between groups."""

Position = tuple[Any, ...]
"""The values of a panel's keys, which say where on its x axis a point stands."""


class Panel(NamedTuple):
    """The content of a pair of axes.

    Attributes
    ----------
    place : Place
        The settings that tell it from other panels.
    x, y : str
        The names of its axes.
    keys : list of str
        Columns that say where on the x axis a value stands.
    lines : mapping of Place to DataFrame
        The values of each line, with `keys`, `seed` and `value` as columns.
    """

    place: Place
    x: str
    y: str
    keys: list[str]
    lines: Mapping[Place, pd.DataFrame]


def panels_of(
    spec: Spec,
    values: pd.DataFrame,
    figures: Sequence[tuple[str, ...]],
    panels: Sequence[str],
    lines: Sequence[str],
    keys: list[str],
) -> list[Panel]:
    """Make panels of values over these `keys`: for each tuple of figures, one for each combination
    of the keys `panels`."""
    x = spec.names.keys(keys)
    shown = []
    for group in figures:
        y = spec.names.axis(group)
        line_keys = [*lines, FIGURE] if len(group) > 1 else lines
        for place, rows in split(values[values[FIGURE].isin(group)], panels):
            shown.append(Panel(place, x, y, keys, dict(split(rows, line_keys))))
    return shown


def draw_panels(
    spec: Spec,
    panels: Sequence[Panel],
    draw: Callable[[Any, Panel, dict[Place, style.Look]], None],
    mark: Callable[[style.Look], Any],
    more: Sequence[tuple[Any, str]] = (),
    columns: int = 0,
    height: float = 0.0,
) -> Any:
    """Draw each panel by `draw(axes, panel, looks)`, name its axes, and put a legend above.

    Parameters
    ----------
    mark : callable
        Draws the mark of a look for the legend.
    more : list
        Further entries of the legend.
    columns, height : optional
        Columns of panels and the height of one, as `style.panels` takes them; by default each of
        several figures with several panels has a row.
    """
    names = spec.names
    look = looks(line for panel in panels for line in panel.lines)
    places = {panel.place for panel in panels}
    if not columns and 1 < len(places) <= 4 and len({panel.y for panel in panels}) > 1:
        columns = style.columns_for(len(places))
    figure, all_axes = style.panels(len(panels), columns, height)
    for panel, axes in zip(panels, all_axes, strict=True):
        draw(axes, panel, look)
        charts.name(axes, panel.x, panel.y, names.place(panel.place))
    legends.legend(figure, [*legend_keys(look, names, mark), *more])
    return figure


def looks(lines: Iterable[Place]) -> dict[Place, style.Look]:
    """Choose a look for each line: a colour by its method, or where the method tells nothing apart
    by its number."""
    lines = list(dict.fromkeys(lines))
    methods = [dict(line).get("method") for line in lines]
    if None in methods or (len(set(methods)) == 1 and len(lines) > 1):
        return {line: style.Look.of(number) for number, line in enumerate(lines)}
    settings = [tuple(setting for setting in line if setting[0] != "method") for line in lines]
    numbers = list(dict.fromkeys(methods))
    turns = list(dict.fromkeys(settings))
    look_by_line = {}
    for line, method, others in zip(lines, methods, settings, strict=True):
        look_by_line[line] = style.Look.of(numbers.index(method), turns.index(others))
    return look_by_line


def line_mark(look: style.Look) -> Any:
    """Draw a piece of line for a legend."""
    return charts.key("", color=look.colour, marker=look.marker, linestyle=look.dashes)[0]


def bar_mark(look: style.Look) -> Any:
    """Draw a bar for a legend."""
    from matplotlib.patches import Patch

    return Patch(facecolor=look.tint, edgecolor=look.colour, hatch=look.hatch)


def legend_keys(
    look: Mapping[Place, style.Look], names: Names, mark: Callable[[style.Look], Any]
) -> Keys:
    """Name each line; settings that all lines share are left out where figures tell the lines
    apart."""
    settings = {tuple(setting for setting in line if setting[0] != FIGURE) for line in look}
    shared = settings.pop() if len(settings) == 1 and len(look) > 1 else ()
    places = {line: tuple(setting for setting in line if setting not in shared) for line in look}
    return [(mark(look[line]), names.place(place)) for line, place in places.items() if place]


def seeds_key(counts: set[int], mark: Any = None) -> Keys:
    """Explain spreads; without a mark where there is one seed."""
    if max(counts, default=0) < 2:
        return [charts.key("one seed", linestyle="none")] if counts else []
    number = f"{max(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    bar = {
        "color": style.SOFT,
        "marker": "|",
        "markersize": 13,
        "markeredgewidth": 1.4,
        "linestyle": "none",
    }
    entry = charts.key(f"± standard deviation over {number} seeds", **bar)
    return [(mark or entry[0], entry[1])]


def draw_lines(spec: Spec, runs: Sequence[Run]) -> Any:
    """Draw means over the seeds with their spreads, joined where x is a number."""
    x = spec.keys("x")
    panels = spec.keys("panels")
    groups = spec.columns("figures")
    lines = spec.keys("lines", ["method"], [*x, *panels])
    keys = [*panels, *lines, *x]
    spec.grouped(runs, keys)
    figures = list(dict.fromkeys(itertools.chain(*groups)))
    values = values_of(runs, keys, figures).dropna(subset="value")
    if values.empty:
        raise NothingToDraw
    shown = panels_of(spec, values, groups, panels, lines, x)
    return draw_panels(spec, shown, partial(_draw_lines, spec), line_mark, _keys(shown))


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
        marks.bar(
            axes, stats.index, stats["mean"], width, look[line], yerr=stats["std"], error_kw=error
        )
        for middle, part in groups["value"]:
            if len(part) > 1:
                axes.plot(middle + width * 0.25 * np.linspace(-1, 1, len(part)), part, "o", **white)
    axes.grid(False, axis="x")


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
    legends.categories(axes, _words(positions, spec))
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
    marks.numbers(axes, values, _words(positions, spec), is_log)
    return dict(zip(positions, values, strict=True))


def _keys(panels: Sequence[Panel]) -> Keys:
    """Explain spreads."""
    lines = [(panel.keys, values) for panel in panels for values in panel.lines.values()]
    counts = {int(size) for keys, values in lines for size in values.groupby(keys).size()}
    return seeds_key(counts)
