"""Parts of several figures: legends, ticks and names of axes, fitted to the available room; and
curves."""

import textwrap
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from curvfed.geometry.arrays import Floats, Indices
from curvfed.server_app.report.page import printable
from curvfed.server_app.report.style import LARGE, PAGE_SIZE, SMALLER, load_fonts

SMALL = LARGE * SMALLER

LONGEST = 32
"""Letters of a word, such as the name of a data set, and of a slanted label, beyond which it is cut
short."""

_LEGEND_MARK = 0.5
_LEGEND_BESIDE_AXES = 0.35
"""Inches of a legend's mark with the space around it, and of a page's legend beyond `_width`."""


CURVATURE = "sectional curvature (−1: unit ball)"

MOST_POINTS = 200
"""Points along a line; if there are more rounds, evenly spaced ones are drawn, the first and the
last included."""


def legend_columns(axes: Any, texts: Sequence[str], size: float) -> int:
    """The number of columns, at least 2, of a legend above the axes of a picture of a page that
    breaks no text."""
    widest = max(inches(text, size) for text in texts)
    return max(int((panel_width(axes) + _LEGEND_BESIDE_AXES) / (widest + _LEGEND_MARK)), 2)


def page_legend(
    axes: Any,
    keys: Sequence[tuple[Any, str]] = (),
    columns: int = 2,
    size: float = PAGE_SIZE,
    **style: Any,
) -> None:
    """Put a legend above the axes of a picture of a page, by default of all labelled artists; texts
    that are too long for their column, in letters of this size, are broken."""
    marks, texts = zip(*keys, strict=True) if keys else axes.get_legend_handles_labels()
    room = (panel_width(axes) + _LEGEND_BESIDE_AXES) / columns - _LEGEND_MARK
    widths = [inches(text, size) for text in texts]
    wide = sum(max(column, default=0.0) for column in np.array_split(widths, columns))
    if wide > columns * room:
        texts = [fitted(text, room, size) for text in texts]
    axes.legend(marks, texts, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, **style)


def name(axes: Any, x: str, y: str, title: str = "") -> None:
    """Name the axes and give them a title, in as many lines as it takes."""
    height = axes.figure.get_figheight() / axes.get_gridspec().nrows - (1.0 if title else 0.7)
    for set_text, text, room in (
        (axes.set_xlabel, x, panel_width(axes)),
        (axes.set_ylabel, y, height),
        (axes.set_title, title, panel_width(axes)),
    ):
        set_text(fitted(text, room, LARGE))


def steps(
    set_ticks: Callable[..., Any], words: Sequence[str], max_names: int, **style: Any
) -> None:
    """Name every position, or every second, fifth, tenth …, so that there are at most `max_names`
    names.
    """
    sizes = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    step = next(size for size in sizes if len(words) <= size * max(max_names, 1))
    set_ticks(range(0, len(words), step), words[::step], **style)


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
    load_fonts()
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


def panel_width(axes: Any) -> float:
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


def key(text: str, **look: Any) -> tuple[Any, str]:
    """An entry of a legend: a piece of line or a marker, and its text."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **look), text


def over_rounds(axes: Any, label: str) -> None:
    """Name the axes of a figure over the rounds."""
    axes.set(xlabel="round", ylabel=label)
    axes.xaxis.get_major_locator().set_params(integer=True, nbins=6)
    axes.margins(x=0.02)
