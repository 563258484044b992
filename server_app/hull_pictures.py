"""The pictures of one-shot runs; equal bytes for equal figures."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.hull import from_klein, to_klein
from curvfed.server_app.canvas import (
    INK,
    MEAN,
    OTHER,
    PAPER,
    SOFT,
    dots,
    new_figure,
    page_style,
    printable,
    stroke,
    to_svg,
)
from curvfed.server_app.hues import hues
from curvfed.server_app.page import Html

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

GRID = 160
"""Pixels along a side of the map of decisions."""

MOST_KEYS = 24
"""Groups that are named beside their colours."""

MOST_TICKS = 10
"""Names along an axis."""

MANY = 400
"""Points, or corners, beyond which each is drawn smaller."""

_SIDE = 340.0  # of the picture in points, about
_SMOOTH = 0.15  # points that a polyline may be away from its geodesic


@dataclass(frozen=True, eq=False)
class Disc:
    """What is drawn of the disc, scaled to radius 1.

    Attributes
    ----------
    centre : array (2,)
    half : float
        Half the side of the view.
    keys : list of (str, int)
        Names of groups, with their colours.
    colours : int
        Their number.
    hulls, true_hulls : list of (int, array (m, 2))
        Colour and corners in order.
    dots : list of (int, array (n, 2))
        Colour and points.
    wrong : array (w, 2)
        Test points that are predicted wrongly.
    lines : list of (int or None, reference (2,), normal (2,))
        Decision geodesics, in a colour or in the text's.
    decisions : int array (GRID, GRID) or None
        The colour of every pixel from the lower left one on, -1 for none.
    """

    centre: Array
    half: float
    keys: list[tuple[str, int]]
    colours: int
    hulls: list[tuple[int, Array]]
    true_hulls: list[tuple[int, Array]]
    dots: list[tuple[int, Array]]
    wrong: Array
    lines: list[tuple[int | None, Array, Array]]
    decisions: Integers | None

    @property
    def whole(self) -> bool:
        """Whether all of the disc is in view."""
        return self.half > 1


@dataclass(frozen=True, eq=False)
class Curve:
    """One figure against epsilon: `ours` are of the run's own classifier, and means."""

    label: str
    values: Array
    ours: bool = True


def disc(name: str, seen: Disc, alt: str) -> Html:
    """Draw hulls as hyperbolic polygons, with points, decisions and geodesics.

    Parameters
    ----------
    name : str
        Of the picture, unique in its page.
    alt : str
        The picture in words.
    """
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Circle

    colours = hues(seen.colours)
    pixel = 2 * seen.half / _SIDE
    with page_style(name):
        figure, axes = new_figure(5.3)
        if seen.decisions is not None:
            _decisions(axes, seen, colours)
        axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=SOFT, linewidth=1.0))
        for colour, points in seen.dots:
            dots(axes, points, colours[colour], 2.2 if _count(seen.dots) > MANY else 3.0, alpha=0.4)
        for colour, outlines in _by_colour(seen.true_hulls, pixel):
            stroke(axes, outlines, edgecolor=colours[colour], linewidth=0.7, linestyle=(0, (3, 2)), alpha=0.9)
        many = _count(seen.hulls) > MANY
        for colour, outlines in _by_colour(seen.hulls, pixel):
            shade = colours[colour]
            stroke(axes, outlines, to_rgba(shade, 0.12), edgecolor=shade, linewidth=0.7 if many else 1.0)
            corners = np.concatenate([c for other, c in seen.hulls if other == colour])
            dots(axes, corners, shade, 1.6 if many else 2.6)
        _lines(axes, seen, colours, pixel)
        reach = 2.2 * pixel * np.array([[-1, -1], [1, 1], [-1, 1], [1, -1]]).reshape(2, 2, 2)
        stroke(axes, (seen.wrong[:, None, None] + reach).reshape(-1, 2, 2), edgecolor=INK, linewidth=0.9)
        (x, y), half = seen.centre, seen.half
        axes.set(xlim=(x - half, x + half), ylim=(y - half, y + half), aspect="equal", xticks=[], yticks=[])
        axes.spines[:].set_visible(not seen.whole)
        _colour_key(axes, seen.keys, colours)
        return to_svg(figure, alt)


def _decisions(axes: Any, seen: Disc, colours: Sequence[str]) -> None:
    """A light background of the decided group's colour."""
    from matplotlib.colors import to_rgb

    colour = np.array([*map(to_rgb, colours), (0, 0, 0)])[seen.decisions]
    alpha = np.where(np.asarray(seen.decisions) < 0, 0, 0.13)[..., None]
    pixels = (255 * np.concatenate([colour, alpha], axis=2)).round().astype(np.uint8)
    (x, y), half = seen.centre, seen.half
    axes.imshow(pixels, interpolation="none", origin="lower", extent=(x - half, x + half, y - half, y + half))
    axes.grid(False)


def _lines(axes: Any, seen: Disc, colours: Sequence[str], pixel: float) -> None:
    """Decision geodesics, and a diamond at the reference point of each."""
    for colour, reference, normal in seen.lines:
        if normal.any():
            line = decision(reference, normal, pixel)
            shade, width = (INK, 1.8) if colour is None else (colours[colour], 1.1)
            stroke(axes, [line], edgecolor=shade, linewidth=width)
    for colour, reference, _ in seen.lines:
        face = INK if colour is None else colours[colour]
        axes.plot(*reference, "D", color=face, markersize=5, markeredgecolor=PAPER, markeredgewidth=0.8)


def decision(reference: Array, normal: Array, pixel: float) -> Array:
    """The geodesic (n, 2) through a point, at right angles to a normal that is not 0; `pixel` as of `geodesic`."""
    return geodesic(*_ends(reference, np.array([-normal[1], normal[0]]) / float(np.hypot(*normal))), pixel)


def _ends(point: Array, direction: Array) -> tuple[Array, Array]:
    """Where on the boundary the geodesic through a point along a unit vector ends: point ⊕ ±direction."""

    def end(unit: Array) -> Array:
        along, square = 2 * float(point @ unit), float(point @ point)
        far: Array = (2 + along) * point + (1 - square) * unit
        far /= np.hypot(*far)
        return far

    return end(-direction), end(direction)


def geodesic(start: Array, end: Array, pixel: float) -> Array:
    """Points (n, 2) along the geodesic between two points of the closed unit disc, dense enough to look like it.

    Parameters
    ----------
    pixel : float
        What a point of print is in the disc.
    """
    ends = np.array([start, end])
    klein = to_klein(ends)  # geodesics are straight there
    middle = from_klein(klein.mean(axis=0, keepdims=True))[0]
    sag = float(np.hypot(*(middle - ends.mean(axis=0))))
    number = 1 + math.ceil(math.sqrt(1.5 * sag / (_SMOOTH * pixel)))
    # Denser towards the ends, where near the boundary the disc's metric is the denser too.
    at = (1 - np.cos(np.linspace(0, np.pi, number + 1))) / 2
    line = from_klein(klein[0] + at[:, None] * (klein[1] - klein[0]))
    line[0], line[-1] = start, end
    return line


def outline(corners: Array, pixel: float) -> Array:
    """A polygon's closed line; back and forth between two corners, and standing still at a single one."""
    sides = [geodesic(one, other, pixel)[:-1] for one, other in zip(corners, np.roll(corners, -1, axis=0), strict=True)]
    return np.concatenate([*sides, corners[:1]])


def _by_colour(polygons: Sequence[tuple[int, Array]], pixel: float) -> Iterable[tuple[int, list[Array]]]:
    for colour in sorted({colour for colour, _ in polygons}):
        yield colour, [outline(corners, pixel) for other, corners in polygons if other == colour]


def _count(parts: Sequence[tuple[int, Array]]) -> int:
    return sum(len(points) for _, points in parts)


def _colour_key(axes: Any, keys: Sequence[tuple[str, int]], colours: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    shown = keys[:MOST_KEYS]
    texts = [printable(name) for name, _ in shown]
    marks = [Line2D([], [], color=colours[colour], linewidth=4, alpha=0.8) for _, colour in shown]
    axes.legend(
        marks, texts, loc="lower left", bbox_to_anchor=(0, 1), ncols=max(80 // (max(map(len, texts)) + 6), 1),
        handlelength=1.0, fontsize=8, columnspacing=1.2, handletextpad=0.7,
    )  # fmt: skip


def over_epsilon(name: str, epsilon: Array, curves: Sequence[Curve], axis: str, own: float, alt: str) -> Html:
    """Draw curves over epsilon on a log axis, and a mark where the run's own epsilon is.

    Parameters
    ----------
    name : str
        Of the picture, unique in its page.
    epsilon : array (e,)
        Ascending, positive.
    axis : str
        What is measured, with its unit.
    own : float
    alt : str
        The picture in words.
    """
    with page_style(name):
        figure, axes = new_figure(2.8)
        for curve in curves:
            shade, dash = (MEAN, "-") if curve.ours else (OTHER, "--")
            axes.plot(
                epsilon, curve.values, dash, marker="o", markersize=4, color=shade, linewidth=2, label=curve.label
            )
        axes.axvline(own, color=SOFT, linewidth=1.2, linestyle=":", label="this run")
        axes.set_xscale("log")
        axes.set(xlabel="ε, hyperbolic distance", ylabel=axis)
        named = _spaced(epsilon)
        axes.set_xticks(named, [f"{value:g}" for value in named])
        axes.set_xticks([], minor=True)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
        return to_svg(figure, alt)


def _spaced(epsilon: Array) -> list[float]:
    """Those values that have room for their names on a log axis."""
    least, named = math.log(epsilon[-1] / epsilon[0]) / MOST_TICKS, [float(epsilon[0])]
    for value in epsilon[1:]:
        if math.log(value / named[-1]) >= least:
            named.append(float(value))
    return named
