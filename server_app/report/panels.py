"""The panels of a figure: their lines, the looks of these, the names of the axes, and the legend
above all panels."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from curvfed.server_app.report import labels, style
from curvfed.server_app.report.charts import key
from curvfed.server_app.report.selection import Spec, split
from curvfed.server_app.report.study import FIGURE, Names, Place
from curvfed.server_app.report.style import SOFT, Look
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import METHODS

# In rows of as many methods as there are colours, so that methods that papers compare differ in
# colour.
_FIRST = (
    "flatland",
    "fedavg",
    "hyperfed",
    "spherefed",
    "local",
    "hull",
    "fedprox",
    "hyperfed-averaged",
    "fednova",
    "flatland-constant",
    "flatland-shared",
    "hyperfed-fixed",
    "local-lorentz",
    "fedper",
    "fedopt",
    "ccvr",
    "fedhgcn",
    "hyperfed-geodesic",
    "fed-pub",
    "hyperfed-shared",
    "gcfl",
    "fedbabu",
    "fedrep",
    "flatland-euclidean",
)
ORDER = (*_FIRST, *(name for name in METHODS if name not in _FIRST))
"""A method's place in it sets its look, the same in all figures."""

Keys = list[tuple[Any, str]]
"""Marks and their texts, for a legend."""


class NothingToDraw(ConfigError):
    """No completed run has the data of a figure."""


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
    draw: Callable[[Any, Panel, dict[Place, Look]], None],
    mark: Callable[[Look], Any],
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
        labels.name(axes, panel.x, panel.y, names.place(panel.place))
    labels.legend(figure, [*legend_keys(look, names, mark), *more])
    return figure


def looks(lines: Iterable[Place]) -> dict[Place, Look]:
    """Choose a look for each line: by its method, or where the method tells nothing apart by its
    number."""
    lines = list(dict.fromkeys(lines))
    methods = [dict(line).get("method") for line in lines]
    if None in methods or (len(set(methods)) == 1 and len(lines) > 1):
        return {line: Look.of(number) for number, line in enumerate(lines)}
    settings = [tuple(setting for setting in line if setting[0] != "method") for line in lines]
    turns = list(dict.fromkeys(settings))
    look_by_line = {}
    for line, method, others in zip(lines, methods, settings, strict=True):
        number = ORDER.index(method) if method in ORDER else len(ORDER)
        look_by_line[line] = Look.of(number, turns.index(others))
    return look_by_line


def line_mark(look: Look) -> Any:
    """Draw a piece of line for a legend."""
    return key("", color=look.colour, marker=look.marker, linestyle=look.dashes)[0]


def bar_mark(look: Look) -> Any:
    """Draw a bar for a legend."""
    from matplotlib.patches import Patch

    return Patch(facecolor=look.tint, edgecolor=look.colour, hatch=look.hatch)


def legend_keys(look: Mapping[Place, Look], names: Names, mark: Callable[[Look], Any]) -> Keys:
    """Name each line; settings that all lines share are left out where figures tell the lines
    apart."""
    settings = {tuple(setting for setting in line if setting[0] != FIGURE) for line in look}
    shared = settings.pop() if len(settings) == 1 and len(look) > 1 else ()
    places = {line: tuple(setting for setting in line if setting not in shared) for line in look}
    return [(mark(look[line]), names.place(place)) for line, place in places.items() if place]


def seeds_key(counts: set[int], mark: Any = None) -> Keys:
    """Explain spreads; without a mark where there is one seed."""
    if max(counts, default=0) < 2:
        return [key("one seed", linestyle="none")] if counts else []
    number = f"{max(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    bar = {
        "color": SOFT,
        "marker": "|",
        "markersize": 13,
        "markeredgewidth": 1.4,
        "linestyle": "none",
    }
    entry = key(f"± standard deviation over {number} seeds", **bar)
    return [(mark or entry[0], entry[1])]
