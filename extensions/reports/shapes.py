"""Shapes, cells and colours of several pictures of a run."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from curvfed.geometry.arrays import Floats, Indices
from curvfed.server_app.report import charts, style
from curvfed.server_app.report.page import printable

FORMAN = "mean Forman–Ricci curvature"

MOST_CELLS = 200
"""Rows, and columns, that fit into a map of cells."""

_SMALL_TYPE = 8.0
"""Size of the letters of a legend of classes, in points."""

HUES = (
    "#2f86c8",
    "#e0781e",
    "#3f9d43",
    "#d6403f",
    "#8f6bc0",
    "#94624f",
    "#d977bd",
    "#7f8890",
    "#a3a227",
    "#1fb0c0",
    "#4a5fd6",
    "#b8860b",
    "#2f8f78",
    "#b0305c",
    "#c061e8",
    "#6d7a3a",
    "#f0719a",
    "#5a7d9e",
    "#7fb34d",
    "#c9846b",
)
"""Colours of classes, which can be told apart on light paper and on dark."""

_RAMP = ("#7b4fc9", "#2a7fd0", "#159a9c", "#3f9e3a", "#a39a1c", "#e07b1a", "#d43a3a", "#d052a8")

# Pixels know no CSS variables: these colours stand out on light paper and on dark paper.
_LESS = "#2a8fd0"

_MORE = "#d9751a"

_NEUTRAL = "#87929d"


def hues(count: int) -> Sequence[str]:
    """Colours for `count` classes: `HUES`, or for more classes a ramp with similar neighbours."""
    if count <= len(HUES):
        return HUES
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    ramp = LinearSegmentedColormap.from_list("ramp", _RAMP)
    return [to_hex(ramp(place / (count - 1))) for place in range(count)]


def class_legend(axes: Any, keys: Sequence[tuple[Any, str]]) -> None:
    """Put a legend of short names in small type above the axes of a picture of a page."""
    columns = charts.legend_columns(axes, [text for _, text in keys], _SMALL_TYPE)
    look = {"handlelength": 1.0, "fontsize": _SMALL_TYPE, "handletextpad": 0.6}
    charts.page_legend(axes, keys, columns, _SMALL_TYPE, **look)


def largest(sizes: Floats, count: int) -> Indices:
    """Choose the indices of the `count` largest of (N,), ascending; of equal ones the first."""
    return np.sort(np.argsort(-sizes, kind="stable")[:count])


def left_out(drawn: Sequence[Any] | Indices, total: int, nouns: str) -> str:
    """A sentence that says how many are drawn, if some are left out."""
    if len(drawn) == total:
        return ""
    return f"The {len(drawn)} largest of {total:,} {nouns} are drawn."


def stroke(axes: Any, lines: Sequence[Floats] | Floats, face: Any = None, **style: Any) -> None:
    """Draw many lines, each an array (n, 2), as one path, which may be filled."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    if len(lines):
        path = Path.make_compound_path(*map(Path, lines))
        # in a path of 128 points or more matplotlib leaves out lines of length 0
        path.should_simplify = False
        style |= {"fill": face is not None, "facecolor": face}
        axes.add_patch(PathPatch(path, capstyle="round", joinstyle="round", **style))


def dots(axes: Any, points: Floats, colour: str, size: float, **style: Any) -> None:
    """Draw points (n, 2) as lines of length 0 with round ends, which take a tenth of the SVG text
    of markers."""
    stroke(axes, points[:, None].repeat(2, axis=1), edgecolor=colour, linewidth=size, **style)


def unit_circle(axes: Any, centre: Any = (0.0, 0.0), half: float = 1.02) -> None:
    """Draw the rim of the unit disc, and set the view to a square of side 2 `half` around a
    centre.
    """
    from matplotlib.patches import Circle

    x, y = centre
    axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=style.SOFT, linewidth=1.0))
    axes.set(
        xlim=(x - half, x + half), ylim=(y - half, y + half), aspect="equal", xticks=[], yticks=[]
    )
    axes.spines[:].set_visible(half < 1)
    axes.grid(False)


def moved(
    axes: Any, positions: Sequence[float], first: Sequence[float], last: Sequence[float]
) -> list[tuple[Any, str]]:
    """Draw the first and last value of each client as a hollow and a full mark; returns the entries
    of the legend."""
    axes.vlines(positions, first, last, color=style.SOFT, linewidth=1.0)
    hollow = {
        "marker": "s",
        "markerfacecolor": "none",
        "markeredgecolor": style.SOFT,
        "markeredgewidth": 1.2,
    }
    (before,) = axes.plot(positions, first, linestyle="none", **hollow)
    (after,) = axes.plot(positions, last, "o", color=style.PALETTE[0], zorder=3)
    return [(before, "after the first round"), (after, "after the last round")]


@cache
def diverging() -> Any:
    """The colour map of cells: from one hue at -1 by faint grey at 0 to another hue at 1,
    transparent where masked."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgba

    deep = 1.0
    faint = 0.34
    stops = [
        (0, to_rgba(_LESS, deep)),
        (0.375, to_rgba(_LESS, faint)),
        (0.5, to_rgba(_NEUTRAL, 0.12)),
        (0.625, to_rgba(_MORE, faint)),
        (1, to_rgba(_MORE, deep)),
    ]
    return LinearSegmentedColormap.from_list("diverging", stops, N=65)


def cells(
    axes: Any,
    values: Floats,
    names: tuple[Sequence[str], Sequence[str]],
    max_names: int = 30,
    aspect: str = "auto",
) -> Any:
    """Draw a cell for each entry in [-1, 1] of an array (rows, columns), none for NaN, and name
    columns and rows.

    Parameters
    ----------
    names : (columns, rows)
    max_names : int, optional
        Names of either that there is room for.
    """
    shown = np.ma.masked_invalid(values)
    image = axes.imshow(
        shown, cmap=diverging(), vmin=-1, vmax=1, interpolation="none", aspect=aspect
    )
    axes.grid(False)
    axes.spines[:].set_visible(False)
    columns = [printable(name, charts.LONGEST) for name in names[0]]
    rows = [printable(name, charts.LONGEST) for name in names[1]]
    upright = max(map(len, columns)) > 3
    charts.steps(axes.set_xticks, columns, max_names, fontsize=8, rotation=90 if upright else 0)
    charts.steps(axes.set_yticks, rows, max_names, fontsize=8)
    return image
