"""Parts of several figures: legends, ticks and names of axes, fitted to the available room; and
shapes, curves and cells."""

import textwrap
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from curvfed.geometry.arrays import Floats, Indices
from curvfed.server_app.report.page import printable
from curvfed.server_app.report.style import LARGE, PALETTE, SMALLER, SOFT, Look

SMALL = LARGE * SMALLER

LONGEST = 32
"""Letters of a word, such as the name of a data set, and of a slanted label, beyond which it is cut
short."""

MOST_LINES = 3
"""Lines of a tick's label."""


CURVATURE = "sectional curvature (−1: unit ball)"
FORMAN = "mean Forman–Ricci curvature"

MOST_POINTS = 200
"""Points along a line; if there are more rounds, evenly spaced ones are drawn, the first and the
last included."""

MOST_CELLS = 200
"""Rows, and columns, that fit into a map of cells."""

# Pixels know no CSS variables: these colours stand out on light paper and on dark paper.
_LESS = "#2a8fd0"
_MORE = "#d9751a"
_NEUTRAL = "#87929d"


def legend(figure: Any, keys: Sequence[tuple[Any, str]]) -> None:
    """Put a legend above all panels, in as many columns as have room, and make the figure that much
    higher."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    if not keys:
        return
    texts = [wrapped(text, 62) for _, text in keys]
    widths = [inches(text) + 0.75 for text in texts]  # with the mark
    room = figure.get_figwidth()
    wide = [
        sum(map(max, np.array_split(widths, columns)))
        for columns in range(1, min(len(keys), 8) + 1)
    ]
    columns = max((number for number, width in enumerate(wide, 1) if width <= room), default=1)
    box = figure.legend([mark for mark, _ in keys], texts, loc="outside upper left", ncols=columns)
    canvas: Any = FigureCanvasAgg(figure)
    higher = box.get_window_extent(canvas.get_renderer()).height / figure.dpi
    figure.set_figheight(figure.get_figheight() + higher)


def page_legend(
    axes: Any, keys: Sequence[tuple[Any, str]] = (), columns: int = 2, **style: Any
) -> None:
    """Put a legend above the axes of a picture of a page, by default of all labelled artists."""
    axes.legend(
        *zip(*keys, strict=True), loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, **style
    )


def class_legend(axes: Any, keys: Sequence[tuple[Any, str]]) -> None:
    """Put a legend of short names in small type above the axes of a picture of a page."""
    longest = max(len(text) for _, text in keys)
    columns = max(80 // (longest + 6), 1)
    page_legend(axes, keys, columns, handlelength=1.0, fontsize=8, handletextpad=0.6)


def name(axes: Any, x: str, y: str, title: str = "") -> None:
    """Name the axes and give them a title, in as many lines as it takes."""
    height = axes.figure.get_figheight() / axes.get_gridspec().nrows - (1.0 if title else 0.7)
    for set_text, text, room in (
        (axes.set_xlabel, x, _width(axes)),
        (axes.set_ylabel, y, height),
        (axes.set_title, title, _width(axes)),
    ):
        set_text(fitted(text, room, LARGE))


def categories(axes: Any, words: Sequence[str]) -> None:
    """Name the positions 0, 1, … of the x axis: in several lines, numbers in steps, or slanted if
    room is short."""
    room = 0.95 * _width(axes) / max(len(words), 1)
    widest = max(map(inches, words), default=0.0)
    broken = [fitted(text, room) for text in words]
    if widest > room and all(text.isdecimal() for text in words):
        steps(axes.set_xticks, words, int(_width(axes) / (widest + 0.15)))
    elif all("…" not in text and text.count("\n") < MOST_LINES for text in broken):
        axes.set_xticks(range(len(words)), broken)
    else:
        short = [printable(text, LONGEST) for text in words]
        alone = axes.get_gridspec().ncols == 1
        # Next to another panel labels are vertical: slanted ones would reach into the panel before.
        slant = (
            {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
            if alone
            else {"rotation": 90}
        )
        axes.set_xticks(range(len(words)), short, **slant)
        if axes.get_subplotspec().is_first_col():  # the row gets as much higher as the labels need
            higher = (0.5 if alone else 1.0) * max(map(inches, short))
            axes.figure.set_figheight(axes.figure.get_figheight() + higher)


def steps(
    set_ticks: Callable[..., Any], words: Sequence[str], max_names: int, **style: Any
) -> None:
    """Name every position, or every second, fifth, tenth …, so that there are at most `max_names`
    names.
    """
    sizes = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    step = next(size for size in sizes if len(words) <= size * max(max_names, 1))
    set_ticks(range(0, len(words), step), words[::step], **style)


def numbers(axes: Any, values: Sequence[float], words: Sequence[str], log: bool) -> None:
    """Mark ascending values on the x axis, always the first and the last, others if there is
    room."""
    if log:
        axes.set_xscale("log")
    positions = np.log(values) if log else np.asarray(values, float)
    extent = max(positions[-1] - positions[0], 1e-300)
    positions = 0.9 * _width(axes) * (positions - positions[0]) / extent
    marked: list[int] = []
    for place in dict.fromkeys((0, len(values) - 1, *range(len(values)))):
        if all(
            abs(positions[place] - positions[neighbour])
            >= (inches(words[place]) + inches(words[neighbour])) / 2 + 0.1
            for neighbour in marked
        ):
            marked.append(place)
    marked.sort()
    axes.set_xticks([values[place] for place in marked], [words[place] for place in marked])
    axes.set_xticks([], minor=True)


def fitted(text: str, room: float, size: float = SMALL) -> str:
    """Break a text into lines of at most so many inches, first before a bracket; words are cut
    short last."""
    pieces = text.replace(" (", "\n(", 1).split("\n")
    parts = "\n".join(wrapped(piece, len(piece) + 1) for piece in pieces)
    tries = chain(
        [wrapped(text, len(text) + 1), parts],
        (wrapped(text, width) for width in range(max(len(text), 6), 5, -1)),
        (wrapped(text, length, length) for length in range(LONGEST, 5, -2)),
    )
    return next((broken for broken in tries if inches(broken, size) <= room), wrapped(text, 5, 5))


@cache
def inches(text: str, size: float = SMALL) -> float:
    """The width of the widest line of a text."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font: Any = FontProperties(family="DejaVu Sans", size=size)
    widths = (
        text_to_path.get_text_width_height_descent(line, font, ismath=False)[0]
        for line in text.split("\n")
    )
    return float(max(widths)) / 72


def wrapped(text: str, width: int, longest: int = LONGEST) -> str:
    """Break a text into lines of at most so many letters; long words are cut short."""
    words = " ".join(printable(word, longest) for word in text.split())
    return textwrap.fill(words, max(width, 1), break_long_words=False, break_on_hyphens=True)


def _width(axes: Any) -> float:
    """The width of a panel, about: the layout is only known once it is drawn."""
    return float(axes.figure.get_figwidth() / axes.get_gridspec().ncols - 0.95)


def carried_forward(values: Floats) -> Floats:
    """Fill every gap with the client's last measured value, as the means of a run do; NaN before
    its first one.

    Parameters
    ----------
    values : array (R, C)
        A row per round, NaN where a client was not measured.
    """
    rounds = np.arange(len(values))[:, None]
    measured = np.where(np.isfinite(values), rounds, 0)
    latest = np.maximum.accumulate(measured, axis=0)
    return np.take_along_axis(values, latest, axis=0)


def row_means(values: Floats) -> Floats:
    """Average the finite values of each row of (R, C); NaN for a row without any."""
    return np.ma.masked_invalid(values).mean(axis=1).filled(np.nan)


def evenly(count: int) -> Indices:
    """Choose at most `MOST_POINTS` evenly spaced indices below `count`, the first and the last
    included."""
    if count:
        spaced = np.linspace(0, count - 1, MOST_POINTS)
        return np.unique(spaced.round().astype(np.intp))
    return np.empty(0, np.intp)


def largest(sizes: Floats, count: int) -> Indices:
    """Choose the indices of the `count` largest of (N,), ascending; of equal ones the first."""
    return np.sort(np.argsort(-sizes, kind="stable")[:count])


def left_out(drawn: Sequence[Any] | Indices, total: int, nouns: str) -> str:
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
    axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=SOFT, linewidth=1.0))
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
    axes.vlines(positions, first, last, color=SOFT, linewidth=1.0)
    hollow = {
        "marker": "s",
        "markerfacecolor": "none",
        "markeredgecolor": SOFT,
        "markeredgewidth": 1.2,
    }
    (before,) = axes.plot(positions, first, linestyle="none", **hollow)
    (after,) = axes.plot(positions, last, "o", color=PALETTE[0], zorder=3)
    return [(before, "after the first round"), (after, "after the last round")]


def bar(
    axes: Any, positions: Any, heights: Sequence[float], width: float, look: Look, **style: Any
) -> None:
    """Draw bars in a look."""
    face = {"color": look.tint, "hatch": look.hatch, "edgecolor": look.colour, "linewidth": 1.0}
    axes.bar(positions, heights, width, **face, **style)


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
    columns, rows = ([printable(name) for name in axis_names] for axis_names in names)
    upright = max(map(len, columns)) > 3
    steps(axes.set_xticks, columns, max_names, fontsize=8, rotation=90 if upright else 0)
    steps(axes.set_yticks, rows, max_names, fontsize=8)
    return image
