"""How the figures of a sweep look, and files of them whose bytes depend on nothing else.

Every look differs from those beside it in colour, marker and dashes at once: a figure can be read by the colour-blind,
and in black and white. The type is large enough for a figure that is shown at half its width.
"""

import html
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from curvfed.strategies.methods import METHODS
from curvfed.tasks.atomic_file import write_atomically

WIDTH = 7.5  # inches
DPI = 180

LARGE, SMALL = 12.0, 11.0  # points: the second of ticks and legends

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#e69f00", "#000000", "#cc79a7", "#56b4e9")
"""Okabe's and Ito's, without the yellow that is too light for lines."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "*", ">", "p", "h", "d")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
HATCHES = (
    "", "///", "\\\\\\", "xxx", "---", "|||", "+++", "//--", "\\\\||", "//||", "\\\\--", "xx--", "xx||",
)  # fmt: skip
"""Of lines alone: in an SVG, dots are a hundred times as long."""

LONGEST = 32
"""Letters of a word, such as the name of a data set, and of a slanted label."""

MOST_LINES = 3
"""Of a label."""

SOFT, GRID = "#555555", "#dddddd"

# In rows of as many as there are colours, so that those that papers show side by side differ in theirs.
_FIRST = (
    "flatland", "fedavg", "hyperfed", "spherefed", "local", "hull", "fedprox",
    "hyperfed-averaged", "fednova", "flatland-constant", "flatland-shared", "hyperfed-fixed", "local-lorentz", "fedper",
    "fedopt", "ccvr", "fedhgcn", "hyperfed-geodesic", "fed-pub", "hyperfed-shared", "gcfl",
    "fedbabu", "fedrep", "flatland-euclidean",
)  # fmt: skip
ORDER = (*_FIRST, *(name for name in METHODS if name not in _FIRST))
"""The place of a method in it is its look, the same in all figures."""

_RC: dict[str, Any] = {
    "font.size": LARGE, "axes.titlesize": LARGE, "axes.labelsize": LARGE,
    "xtick.labelsize": SMALL, "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL, "text.parse_math": False, "axes.formatter.useoffset": False,
    "figure.facecolor": "white", "savefig.facecolor": "white",
    "figure.constrained_layout.use": True, "figure.constrained_layout.w_pad": 0.07,
    "figure.constrained_layout.h_pad": 0.07,
    "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True, "axes.grid": True,
    "grid.color": GRID, "grid.linewidth": 0.7, "lines.linewidth": 1.8, "lines.markersize": 6.0, "hatch.linewidth": 0.6,
    "legend.frameon": False, "legend.handlelength": 2.6, "legend.columnspacing": 1.4, "legend.borderaxespad": 0.2,
    "svg.fonttype": "none", "svg.hashsalt": "curvfed",
}  # fmt: skip


@dataclass(frozen=True)
class Look:
    """What tells one of several lines, or bars, from the others."""

    colour: str
    marker: str
    dashes: Any
    hatch: str

    @classmethod
    def of(cls, number: int, turn: int = 0) -> "Look":
        """The look of a number; those that share its colour differ in `turn`."""
        at = number + turn
        return cls(
            PALETTE[number % len(PALETTE)],
            MARKERS[at % len(MARKERS)],
            DASHES[at % len(DASHES)],
            HATCHES[at % len(HATCHES)],
        )

    @property
    def tint(self) -> tuple[float, float, float]:
        """The colour as an area has it, on which hatches and dots can be seen."""
        from matplotlib.colors import to_rgb

        red, green, blue = to_rgb(self.colour)
        return 0.45 + 0.55 * red, 0.45 + 0.55 * green, 0.45 + 0.55 * blue


@contextmanager
def applied() -> Iterator[None]:
    """matplotlib's defaults with ours on top, whatever the user's own settings."""
    import matplotlib

    ours: Any = _RC
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(ours)
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # names come from other machines
        yield


def columns_for(count: int) -> int:
    """In how many columns so many panels stand."""
    return count if count <= 3 else 2 if count == 4 else 3


def panels(count: int, columns: int = 0, height: float = 0.0, width: float = WIDTH) -> tuple[Any, list[Any]]:
    """A figure with its axes, row by row.

    Parameters
    ----------
    columns : int, optional
        By default as many as look well.
    height : float, optional
        Of a panel, in inches.
    """
    from matplotlib.figure import Figure

    columns = columns or columns_for(count)
    rows = -(-count // columns)
    height = height or {1: 3.6, 2: 3.0}.get(columns, 2.6)
    figure = Figure(figsize=(width, rows * height))
    every = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axes in every[count:]:
        axes.remove()
    return figure, every[:count]


def legend(figure: Any, keys: Sequence[tuple[Any, str]]) -> None:
    """Put a legend above all panels, in as many columns as have room, and make the figure that much higher."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    if not keys:
        return
    marks, texts = zip(*keys, strict=True)
    texts = tuple(wrapped(text, 62) for text in texts)
    canvas: Any = FigureCanvasAgg(figure)
    room = figure.get_figwidth() / (min(map(inches, texts)) + 0.4)
    for columns in range(min(len(keys), max(int(room), 1)), 0, -1):
        made = figure.legend(marks, texts, loc="outside upper left", ncols=columns)
        box = made.get_window_extent(canvas.get_renderer())
        if box.width <= figure.bbox.width - 0.2 * figure.dpi or columns == 1:
            break
        made.remove()
    figure.set_figheight(figure.get_figheight() + box.height / figure.dpi)


def name(axes: Any, x: str, y: str, title: str = "") -> None:
    """Say what the axes have, in as many lines as it takes."""
    figure = axes.figure
    height = figure.get_figheight() / axes.get_gridspec().nrows - (1.0 if title else 0.7)
    axes.set_xlabel(fitted(x, _width(axes), LARGE))
    axes.set_ylabel(fitted(y, height, LARGE))
    axes.set_title(fitted(title, _width(axes), LARGE))


def categories(axes: Any, words: Sequence[str]) -> None:
    """Name the places 0, 1, … of the axis below: in several lines, numbers in steps, or where there is no room slanted."""
    room = _width(axes) / max(len(words), 1)
    broken = [fitted(text, 0.95 * room) for text in words]
    if all(text.isdecimal() for text in words) and max(map(inches, words), default=0.0) > 0.95 * room:
        steps(axes.set_xticks, words, int(_width(axes) / (max(map(inches, words)) + 0.15)))
    elif all("…" not in text and text.count("\n") < MOST_LINES for text in broken):
        axes.set_xticks(range(len(words)), broken)
    else:
        cut = [wrapped(text, len(text) + 1, LONGEST) for text in words]
        cut = [text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…" for text in cut]
        if axes.get_gridspec().ncols == 1:
            axes.set_xticks(range(len(words)), cut, rotation=30, ha="right", rotation_mode="anchor")
        else:  # upright, where a slanted one would reach into the panel before
            axes.set_xticks(range(len(words)), cut, rotation=90)
        if axes.get_subplotspec().is_first_col():  # the row gets as much higher as the labels need
            share = 0.5 if axes.get_gridspec().ncols == 1 else 1.0
            axes.figure.set_figheight(axes.figure.get_figheight() + share * max(map(inches, cut)))


def steps(set_ticks: Any, words: Sequence[str], most: int) -> None:
    """Name every place, or every second, fifth, tenth …, so that they are at most so many."""
    step = next(one for one in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if len(words) <= one * max(most, 1))
    set_ticks(range(0, len(words), step), words[::step])


def numbers(axes: Any, values: Sequence[float], words: Sequence[str], log: bool) -> None:
    """Mark these values, ascending, on the axis below, as many as have room: the first, the last, round ones, others."""
    import numpy as np

    if log:
        axes.set_xscale("log")
    at = np.log(values) if log else np.asarray(values, float)
    at = 0.9 * _width(axes) * (at - at[0]) / max(at[-1] - at[0], 1e-300)
    half = [inches(text) / 2 for text in words]
    tens = [place for place, value in enumerate(values) if log and np.log10(value).round(9).is_integer()]
    kept: list[int] = []
    for place in dict.fromkeys((0, len(values) - 1, *tens, *range(len(values)))):
        if all(abs(at[place] - at[other]) >= half[place] + half[other] + 0.1 for other in kept):
            kept.append(place)
    kept.sort()
    axes.set_xticks([values[place] for place in kept], [words[place] for place in kept])
    axes.set_xticks([], minor=True)


def fitted(text: str, room: float, size: float = SMALL) -> str:
    """A text in lines of so many inches; what is in brackets goes on a line of its own first, words are cut short last."""
    before, bracket, rest = text.partition(" (")
    parts = (before, bracket.strip() + rest) if bracket else (text,)
    widths, lengths = range(len(text), 5, -1), range(LONGEST, 5, -2)

    def tries() -> Iterator[str]:
        yield wrapped(text, len(text))
        yield "\n".join(wrapped(part, len(part)) for part in parts)
        yield from (wrapped(text, width) for width in widths)
        yield from (wrapped(text, length, length) for length in lengths)

    return next((broken for broken in tries() if inches(broken, size) <= room), wrapped(text, 5, 5))


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
    import textwrap

    plain = "".join(letter if letter.isprintable() else "?" for letter in text)
    plain = " ".join(word if len(word) <= longest else f"{word[: longest - 1]}…" for word in plain.split())
    return textwrap.fill(plain, max(width, 1), break_long_words=False, break_on_hyphens=True)


def _width(axes: Any) -> float:
    """About; what the layout leaves is known only when it is drawn."""
    return float(axes.figure.get_figwidth() / axes.get_gridspec().ncols - 0.95)


def save(figure: Any, stem: Path, digest: str) -> None:
    """Write `stem`.png and `stem`.svg, with the digest of what they were drawn of in their metadata.

    Equal figures give equal bytes, by the same version of matplotlib.
    """
    with applied():
        for kind, metadata in (
            ("png", {"Software": None, "Description": digest}),
            ("svg", {"Date": None, "Creator": None, "Description": digest}),
        ):
            file = BytesIO()
            figure.savefig(file, format=kind, dpi=DPI, metadata=metadata)
            write_atomically(Path(f"{stem}.{kind}"), file.getvalue())


def saved_digest(path: Path) -> str:
    """The digest in a file that `save` wrote; "" where there is none."""
    try:
        if path.suffix == ".png":
            from PIL import Image

            with Image.open(path) as image:
                return str(image.info.get("Description", ""))
        found = re.search(r"<dc:description>(.*?)</dc:description>", path.read_text(encoding="utf-8"), re.DOTALL)
        return html.unescape(found[1]) if found else ""
    except (OSError, ValueError, SyntaxError):  # absent, or torn
        return ""


def paper_key(spec: Mapping[str, Any]) -> list[tuple[Any, str]]:
    """What hollow marks are, for a legend."""
    from matplotlib.lines import Line2D

    mark = Line2D([], [], linestyle="none", marker="o", markerfacecolor="white", markeredgecolor=SOFT, markersize=8)
    return [(mark, f"the paper's number, {str(spec['paper']).partition(',')[2].strip()}")]
