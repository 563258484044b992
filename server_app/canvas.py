"""What the pictures of a report are drawn on: matplotlib's SVG, in the page's own colours and type."""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.page import Html, element

# matplotlib knows no CSS variables: it draws in stand-ins, which `to_svg` replaces. (It leaves plain black out.)
INK, SOFT, LINE, MEAN, OTHER, CLIENT, PAPER = (f"#0100{n:02x}" for n in range(1, 8))
_VARIABLES = {
    INK: "ink",
    SOFT: "soft",
    LINE: "line",
    MEAN: "mean",
    OTHER: "other",
    CLIENT: "client",
    PAPER: "paper",
}

Array = NDArray[np.float64]

WIDTH = 5.0  # inches; about the width of a phone, where 9 points are then still 9 points

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none", "font.size": 9.0, "text.color": INK, "text.parse_math": False,
    "figure.facecolor": "none", "figure.constrained_layout.use": True,
    "axes.facecolor": "none", "axes.edgecolor": SOFT, "axes.labelcolor": SOFT, "axes.linewidth": 0.6,
    "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True, "axes.grid": True,
    "grid.color": LINE, "grid.linewidth": 0.6, "xtick.color": SOFT, "ytick.color": SOFT,
    "xtick.major.size": 0, "ytick.major.size": 0,
    "legend.frameon": False, "legend.borderpad": 0, "legend.borderaxespad": 0.4, "legend.handlelength": 1.8,
    "legend.columnspacing": 1.4,
}  # fmt: skip


def printable(name: str) -> str:
    """A name as it fits beside an axis: names come from other machines."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in name)
    return plain if len(plain) <= 18 else plain[:17] + "…"


@contextmanager
def page_style(name: str) -> Iterator[None]:
    """matplotlib's defaults with ours on top, whatever the user's own settings, for the time of one picture."""
    import matplotlib

    style: Any = _STYLE | {"svg.hashsalt": name}
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(style)
        yield


def new_figure(height: float) -> tuple[Any, Any]:
    """A figure of the page's width and this height in inches, with its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height))
    return figure, figure.add_subplot()


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


def to_svg(figure: Any, alt: str) -> Html:
    """The figure as one inline element."""
    buffer = StringIO()
    with warnings.catch_warnings():
        # The reader's own fonts draw the text.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    text = buffer.getvalue()
    box = re.search(r'viewBox="([^"]*)"', text)
    content = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    # Its one style rule would hold for the whole page, and is in the page's own style.
    content = re.sub(r"<style.*?</style>", "", content, flags=re.DOTALL).replace("xlink:href", "href")
    used = set(re.findall(r"#([\w-]+)", content))
    content = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", content)
    content = re.sub(r' d="[^"]*"', lambda match: re.sub(r"(\.\d\d)\d+", r"\1", match[0]), content)
    for stand_in, variable in _VARIABLES.items():
        content = content.replace(stand_in, f"var(--{variable})")
    return element("svg", Html(content), viewBox=box[1] if box else "", role="img", aria_label=alt)
