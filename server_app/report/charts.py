"""Plain drawing functions that the figures are made of, and what they need of arrays with gaps."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.report.labels import steps
from curvfed.server_app.report.style import PALETTE, SOFT, Look
from curvfed.server_app.report.units import printable

Array = NDArray[np.float64]

CURVATURE = "sectional curvature (−1: unit ball)"
FORMAN = "mean Forman–Ricci curvature"

MOST_POINTS = 200
"""Points along a line; of more rounds an even choice is drawn, the first and the last among them."""

MOST_CELLS = 200
"""Rows, and columns, that a map of cells has room for."""

# Pixels know no CSS variables: these stand out on the page's light paper and on its dark one.
_LESS, _MORE, _NEUTRAL = "#2a8fd0", "#d9751a", "#87929d"


def known(values: Array) -> Array:
    """Fill every gap with what the client measured last, as the run's own means do; a client is NaN until it measured.

    Parameters
    ----------
    values : array (R, C)
        A row per round, NaN where a client was not measured.
    """
    latest = np.maximum.accumulate(np.where(np.isfinite(values), np.arange(len(values))[:, None], 0), axis=0)
    return np.take_along_axis(values, latest, axis=0)


def row_means(values: Array) -> Array:
    """Mean (R,) of the finite values of every row of (R, C), NaN where there are none."""
    finite = np.isfinite(values)
    counts = finite.sum(axis=1)
    return np.where(counts > 0, np.where(finite, values, 0.0).sum(axis=1) / np.maximum(counts, 1), np.nan)


def evenly(count: int) -> NDArray[np.intp]:
    """At most `MOST_POINTS` of so many places, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, MOST_POINTS).round().astype(np.intp)) if count else np.empty(0, np.intp)


def largest(sizes: Array, most: int) -> NDArray[np.intp]:
    """Where the largest of (N,) are, at most so many, in their order; of equal ones the first."""
    return np.sort(np.argsort(-sizes, kind="stable")[:most])


def key(text: str, **look: Any) -> tuple[Any, str]:
    """An entry of a legend: a piece of line or a marker, and its text."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **look), text


def over_rounds(axes: Any, label: str) -> None:
    """Say what is measured over the rounds."""
    axes.set(xlabel="round", ylabel=label)
    axes.xaxis.get_major_locator().set_params(integer=True, nbins=6)
    axes.margins(x=0.02)


def stroke(axes: Any, lines: Sequence[Array] | Array, face: Any = None, **style: Any) -> None:
    """Draw many lines, each an array (n, 2), as one path, which may be filled."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    if len(lines):
        codes = [np.r_[Path.MOVETO, np.full(len(line) - 1, Path.LINETO)] for line in lines]
        path = Path(np.concatenate(lines), np.concatenate(codes))
        path.should_simplify = False  # in a path of 128 points or more matplotlib leaves out lines that stand still
        style |= {"fill": face is not None, "facecolor": face}
        axes.add_patch(PathPatch(path, capstyle="round", joinstyle="round", **style))


def dots(axes: Any, points: Array, colour: str, size: float, **style: Any) -> None:
    """Draw points (n, 2) as the round ends of lines that stand still: a tenth of the SVG that markers would be."""
    stroke(axes, points[:, None].repeat(2, axis=1), edgecolor=colour, linewidth=size, **style)


def moved(axes: Any, at: Sequence[float], first: Sequence[float], last: Sequence[float]) -> list[tuple[Any, str]]:
    """Draw what each client went from and to, a hollow mark and a full one; what they are, for a legend."""
    axes.vlines(at, first, last, color=SOFT, linewidth=1.0)
    hollow = {"marker": "s", "markerfacecolor": "none", "markeredgecolor": SOFT, "markeredgewidth": 1.2}
    (before,) = axes.plot(at, first, linestyle="none", **hollow)
    (after,) = axes.plot(at, last, "o", color=PALETTE[0], zorder=3)
    return [(before, "after the first round"), (after, "after the last round")]


def bar(axes: Any, at: Any, heights: Sequence[float], width: float, look: Look, **style: Any) -> None:
    """Draw bars of a look."""
    face = {"color": look.tint, "hatch": look.hatch, "edgecolor": look.colour, "linewidth": 1.0}
    axes.bar(at, heights, width, **face, **style)


def cells(axes: Any, values: Array, there: NDArray[np.bool_], aspect: str = "auto") -> None:
    """Draw a cell per entry, from one colour at -1 by grey at 0 to the other at 1; none where there is none."""
    from matplotlib.colors import to_rgb

    # In 32 steps: what the eye tells apart, and a picture is smaller for it.
    depth = np.round(np.clip(np.abs(values), 0, 1) * 32) / 32
    hue = np.where(values[..., None] < 0, to_rgb(_LESS), to_rgb(_MORE))
    colour = to_rgb(_NEUTRAL) + np.minimum(4 * depth, 1)[..., None] * (hue - to_rgb(_NEUTRAL))
    alpha = np.where(there, 0.12 + 0.88 * depth, 0.0)
    pixels = np.concatenate([colour, alpha[..., None]], axis=2)
    axes.imshow((255 * pixels).round().astype(np.uint8), interpolation="none", aspect=aspect)
    axes.grid(False)
    axes.spines[:].set_visible(False)


def name_cells(axes: Any, columns: Sequence[str], rows: Sequence[str], x: str, y: str, most: int = 30) -> None:
    """Name the columns and rows of cells, as many of either as have room."""
    short, names = 8, [printable(column) for column in columns]
    upright = max(map(len, names)) > 3
    steps(axes.set_xticks, names, most, fontsize=short, rotation=90 if upright else 0)
    steps(axes.set_yticks, [printable(row) for row in rows], most, fontsize=short)
    axes.set(xlabel=x, ylabel=y)
