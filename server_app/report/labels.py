"""What is written in figures, fitted to the room that there is."""

import textwrap
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from typing import Any

from curvfed.server_app.report.style import LARGE, SMALLER

SMALL = LARGE * SMALLER

LONGEST = 32
"""Letters of a word, such as the name of a data set, and of a slanted label."""

MOST_LINES = 3
"""Of a label."""


def legend(figure: Any, keys: Sequence[tuple[Any, str]]) -> None:
    """Put a legend above all panels, in as many columns as have room, and make the figure that much higher."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    if not keys:
        return
    marks, texts = [mark for mark, _ in keys], [wrapped(text, 62) for _, text in keys]
    canvas: Any = FigureCanvasAgg(figure)
    for columns in range(min(len(keys), 8), 0, -1):
        made = figure.legend(marks, texts, loc="outside upper left", ncols=columns)
        box = made.get_window_extent(canvas.get_renderer())
        if box.width <= figure.bbox.width - 0.2 * figure.dpi or columns == 1:
            break
        made.remove()
    figure.set_figheight(figure.get_figheight() + box.height / figure.dpi)


def page_legend(axes: Any, keys: Sequence[tuple[Any, str]] = (), columns: int = 2, **style: Any) -> None:
    """Put a legend above the axes of a picture of a page, by default of what is labelled."""
    told = list(zip(*keys, strict=True))
    axes.legend(*told, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, **style)


def name(axes: Any, x: str, y: str, title: str = "") -> None:
    """Say what the axes have, in as many lines as it takes."""
    height = axes.figure.get_figheight() / axes.get_gridspec().nrows - (1.0 if title else 0.7)
    for set_text, text, room in (
        (axes.set_xlabel, x, _width(axes)), (axes.set_ylabel, y, height), (axes.set_title, title, _width(axes)),
    ):  # fmt: skip
        set_text(fitted(text, room, LARGE))


def categories(axes: Any, words: Sequence[str]) -> None:
    """Name the places 0, 1, … of the axis below: in several lines, numbers in steps, or where there is no room slanted."""
    room, widest = 0.95 * _width(axes) / max(len(words), 1), max(map(inches, words), default=0.0)
    broken = [fitted(text, room) for text in words]
    if widest > room and all(text.isdecimal() for text in words):
        steps(axes.set_xticks, words, int(_width(axes) / (widest + 0.15)))
    elif all("…" not in text and text.count("\n") < MOST_LINES for text in broken):
        axes.set_xticks(range(len(words)), broken)
    else:
        cut = [wrapped(text, len(text) + 1) for text in words]
        cut = [text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…" for text in cut]
        alone = axes.get_gridspec().ncols == 1
        # Beside another panel labels stand upright: slanted ones would reach into the panel before.
        slant = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if alone else {"rotation": 90}
        axes.set_xticks(range(len(words)), cut, **slant)
        if axes.get_subplotspec().is_first_col():  # the row gets as much higher as the labels need
            higher = (0.5 if alone else 1.0) * max(map(inches, cut))
            axes.figure.set_figheight(axes.figure.get_figheight() + higher)


def steps(set_ticks: Callable[..., Any], words: Sequence[str], most: int, **style: Any) -> None:
    """Name every place, or every second, fifth, tenth …, so that they are at most so many."""
    step = next(one for one in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if len(words) <= one * max(most, 1))
    set_ticks(range(0, len(words), step), words[::step], **style)


def numbers(axes: Any, values: Sequence[float], words: Sequence[str], log: bool, room: float = 0.0) -> None:
    """Mark these values, ascending, on the axis below, as many as have room: the first, the last, round ones, others."""
    import numpy as np

    if log:
        axes.set_xscale("log")
    at = np.log(values) if log else np.asarray(values, float)
    at = (room or 0.9 * _width(axes)) * (at - at[0]) / max(at[-1] - at[0], 1e-300)
    tens = [place for place, value in enumerate(values) if log and np.log10(value).round(9).is_integer()]
    kept: list[int] = []
    for place in dict.fromkeys((0, len(values) - 1, *tens, *range(len(values)))):
        if all(abs(at[place] - at[one]) >= (inches(words[place]) + inches(words[one])) / 2 + 0.1 for one in kept):
            kept.append(place)
    kept.sort()
    axes.set_xticks([values[place] for place in kept], [words[place] for place in kept])
    axes.set_xticks([], minor=True)


def fitted(text: str, room: float, size: float = SMALL) -> str:
    """A text in lines of so many inches: what is in brackets goes on a line of its own first, words are cut short last."""
    parts = [wrapped(part, len(part) + 1) for part in text.replace(" (", "\n(", 1).split("\n")]
    tries = chain([wrapped(text, len(text) + 1), "\n".join(parts)],
                  (wrapped(text, width) for width in range(max(len(text), 6), 5, -1)),
                  (wrapped(text, length, length) for length in range(LONGEST, 5, -2)))  # fmt: skip
    return next((broken for broken in tries if inches(broken, size) <= room), wrapped(text, 5, 5))


@cache
def inches(text: str, size: float = SMALL) -> float:
    """The width of a text."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font: Any = FontProperties(family="DejaVu Sans", size=size)
    widths = (text_to_path.get_text_width_height_descent(line, font, ismath=False)[0] for line in text.split("\n"))
    return float(max(widths)) / 72


def wrapped(text: str, width: int, longest: int = LONGEST) -> str:
    """A text in lines of at most so many letters, words unbroken but cut short; what does not print is marked."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in text)
    plain = " ".join(word if len(word) <= longest else f"{word[: longest - 1]}…" for word in plain.split())
    return textwrap.fill(plain, max(width, 1), break_long_words=False, break_on_hyphens=True)


def _width(axes: Any) -> float:
    """About; what the layout leaves is known only when it is drawn."""
    return float(axes.figure.get_figwidth() / axes.get_gridspec().ncols - 0.95)
