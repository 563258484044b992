"""Drawing functions that several figures share, and means over clients that were not measured in
every round."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.report import printable
from curvfed.server_app.report.labels import steps
from curvfed.server_app.report.style import PALETTE, SOFT, Look

Array = NDArray[np.float64]

CURVATURE = "sectional curvature (−1: unit ball)"
FORMAN = "mean Forman–Ricci curvature"

MOST_POINTS = 200
"""Points along a line; if there are more rounds, evenly spaced ones are drawn, the first and the
last included."""

MOST_CELLS = 200
"""Rows, and columns, for which a map of cells has room."""

# Pixels know no CSS variables: these colours stand out on light paper and on dark paper.
_LESS = "#2a8fd0"
_MORE = "#d9751a"
_NEUTRAL = "#87929d"


def known(values: Array) -> Array:
    """Fill every gap with the client's last measured value, as the means of a run do; NaN before
    its first one.

    Parameters
    ----------
    values : array (R, C)
        A row per round, NaN where a client was not measured.
    """
    latest = np.maximum.accumulate(
        np.where(np.isfinite(values), np.arange(len(values))[:, None], 0), axis=0
    )
    return np.take_along_axis(values, latest, axis=0)


def row_means(values: Array) -> Array:
    """Average the finite values of each row of (R, C); NaN for a row without any."""
    means: Array = np.ma.masked_invalid(values).mean(axis=1).filled(np.nan)
    return means


def evenly(count: int) -> NDArray[np.intp]:
    """Choose at most `MOST_POINTS` evenly spaced indices below `count`, the first and the last
    included."""
    return (
        np.unique(np.linspace(0, count - 1, MOST_POINTS).round().astype(np.intp))
        if count
        else np.empty(0, np.intp)
    )


def largest(sizes: Array, most: int) -> NDArray[np.intp]:
    """Choose the indices of the `most` largest of (N,), ascending; of equal ones the first."""
    return np.sort(np.argsort(-sizes, kind="stable")[:most])


def left_out(drawn: Sequence[Any] | NDArray[np.intp], total: int, nouns: str) -> str:
    """A sentence that says how many are drawn, if some are left out."""
    if len(drawn) == total:
        return ""
    return f"The {len(drawn)} largest of {total:,} {nouns} are drawn."


def key(text: str, **look: Any) -> tuple[Any, str]:
    """An entry of a legend: a piece of line or a marker, and its text."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **look), text


def over_rounds(axes: Any, label: str) -> None:
    """Name the axes of a figure over the rounds."""
    axes.set(xlabel="round", ylabel=label)
    axes.xaxis.get_major_locator().set_params(integer=True, nbins=6)
    axes.margins(x=0.02)


def stroke(axes: Any, lines: Sequence[Array] | Array, face: Any = None, **style: Any) -> None:
    """Draw many lines, each an array (n, 2), as one path, which may be filled."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    if len(lines):
        path = Path.make_compound_path(*map(Path, lines))
        # in a path of 128 points or more matplotlib leaves out lines of length 0
        path.should_simplify = False
        style |= {"fill": face is not None, "facecolor": face}
        axes.add_patch(PathPatch(path, capstyle="round", joinstyle="round", **style))


def dots(axes: Any, points: Array, colour: str, size: float, **style: Any) -> None:
    """Draw points (n, 2) as lines of length 0 with round ends, which take a tenth of the SVG text
    of markers."""
    stroke(axes, points[:, None].repeat(2, axis=1), edgecolor=colour, linewidth=size, **style)


def unit_circle(axes: Any, centre: Any = (0.0, 0.0), half: float = 1.02) -> None:
    """Draw the rim of the unit disc, and set the view to a square of side 2 `half` around a
    centre.
    """
    from matplotlib.patches import Circle

    x, y = centre
    axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=SOFT, linewidth=1.0))
    axes.set(
        xlim=(x - half, x + half), ylim=(y - half, y + half), aspect="equal", xticks=[], yticks=[]
    )
    axes.spines[:].set_visible(half < 1)
    axes.grid(False)


def moved(
    axes: Any, at: Sequence[float], first: Sequence[float], last: Sequence[float]
) -> list[tuple[Any, str]]:
    """Draw the first and last value of each client as a hollow and a full mark; returns the entries
    of the legend."""
    axes.vlines(at, first, last, color=SOFT, linewidth=1.0)
    hollow = {
        "marker": "s",
        "markerfacecolor": "none",
        "markeredgecolor": SOFT,
        "markeredgewidth": 1.2,
    }
    (before,) = axes.plot(at, first, linestyle="none", **hollow)
    (after,) = axes.plot(at, last, "o", color=PALETTE[0], zorder=3)
    return [(before, "after the first round"), (after, "after the last round")]


def bar(
    axes: Any, at: Any, heights: Sequence[float], width: float, look: Look, **style: Any
) -> None:
    """Draw bars in a look."""
    face = {"color": look.tint, "hatch": look.hatch, "edgecolor": look.colour, "linewidth": 1.0}
    axes.bar(at, heights, width, **face, **style)


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
    values: Array,
    names: tuple[Sequence[str], Sequence[str]],
    most: int = 30,
    aspect: str = "auto",
) -> Any:
    """Draw a cell for each entry in [-1, 1] of an array (rows, columns), none for NaN, and name
    columns and rows.

    Parameters
    ----------
    names : (columns, rows)
    most : int, optional
        Names of either that there is room for.
    """
    shown = np.ma.masked_invalid(values)
    image = axes.imshow(
        shown, cmap=diverging(), vmin=-1, vmax=1, interpolation="none", aspect=aspect
    )
    axes.grid(False)
    axes.spines[:].set_visible(False)
    columns, rows = ([printable(name) for name in one] for one in names)
    upright = max(map(len, columns)) > 3
    steps(axes.set_xticks, columns, most, fontsize=8, rotation=90 if upright else 0)
    steps(axes.set_yticks, rows, most, fontsize=8)
    return image
