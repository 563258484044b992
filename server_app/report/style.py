"""The style of all figures: colours, type, looks of lines, and files with reproducible bytes.

Neighbouring looks differ in colour, marker and dashes at once, so that a figure can be read by the
colour-blind and in black and white. The page of a run holds figures as inline SVG in the page's own
colours, light or dark; the figures of a sweep are files on white paper.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from markupsafe import Markup

from curvfed.tasks.stored_files import write_atomically

INK = "#1d2329"
SOFT = "#5b6570"
LINE = "#e1e4e8"
PAPER = "#fdfdfc"
MEAN = "#0072b2"
OTHER = "#c04f00"
CLIENT = "#7d8894"

_VARIABLES = {
    INK: "ink",
    SOFT: "soft",
    LINE: "line",
    PAPER: "paper",
    MEAN: "mean",
    OTHER: "other",
    CLIENT: "client",
}
"""The names of these colours in templates/style.css.md, which has other values for dark paper."""

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#e69f00", "#000000", "#cc79a7", "#56b4e9")
"""The colours of Okabe and Ito, without yellow, which is too light for lines."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "*", ">", "p", "h", "d")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
HATCHES = (
    "",
    "///",
    "\\\\\\",
    "xxx",
    "---",
    "|||",
    "+++",
    "//--",
    "\\\\||",
    "//||",
    "\\\\--",
    "xx--",
    "xx||",
)
"""Hatches of lines only: in an SVG, dots take a hundred times the room."""

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

WIDTH = 7.5
LARGE = 12.0
DPI = 180
"""Width of a file in inches, size of its type in points, which is shown at half its size, and dots
per inch."""

PAGE_WIDTH = 5.0
PAGE_SIZE = 9.5
"""Width of a picture of a page in inches, about that of a phone, and size of its type in points."""

SMALLER = 11 / 12
"""Ratio of the type size of ticks and legends to that of other text."""

_RC: dict[str, Any] = {
    "text.parse_math": False,
    "text.color": INK,
    "axes.formatter.useoffset": False,
    "axes.titlesize": "medium",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.06,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "lines.linewidth": 1.8,
    "lines.markersize": 6.0,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "legend.columnspacing": 1.4,
    "legend.borderaxespad": 0.2,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "svg.hashsalt": "curvfed",
}


@dataclass(frozen=True)
class Look:
    """The look of a line or a bar that tells it from others."""

    colour: str
    marker: str
    dashes: Any
    hatch: str

    @classmethod
    def of(cls, number: int, turn: int = 0) -> "Look":
        """The look with a number; looks of the same colour differ in `turn`."""
        cycles = (MARKERS, DASHES, HATCHES)
        index = number + turn
        colour = PALETTE[number % len(PALETTE)]
        return cls(colour, *(cycle[index % len(cycle)] for cycle in cycles))

    @property
    def tint(self) -> tuple[float, float, float]:
        """The colour of an area, light enough for hatches and dots to be seen on it."""
        from matplotlib.colors import to_rgb

        red, green, blue = to_rgb(self.colour)
        return 0.45 + 0.55 * red, 0.45 + 0.55 * green, 0.45 + 0.55 * blue


def hues(count: int) -> Sequence[str]:
    """Colours for `count` classes: `HUES`, or for more classes a ramp with similar neighbours."""
    if count <= len(HUES):
        return HUES
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    ramp = LinearSegmentedColormap.from_list("ramp", _RAMP)
    return [to_hex(ramp(place / (count - 1))) for place in range(count)]


@contextmanager
def applied(size: float = LARGE) -> Iterator[None]:
    """Apply matplotlib's defaults and ours, whatever the user's own settings, with type of `size`
    points."""
    import matplotlib

    small = dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), size * SMALLER)
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        ours: Any = _RC | small | {"font.size": size}
        matplotlib.rcParams.update(ours)
        # names come from other machines
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def panels(
    count: int, columns: int = 0, height: float = 0.0, width: float = WIDTH
) -> tuple[Any, list[Any]]:
    """Make a figure with `count` panels; returns it and its axes, row by row.

    Parameters
    ----------
    columns : int, optional
        By default `columns_for`.
    height : float, optional
        Height of a panel in inches.
    """
    from matplotlib.figure import Figure

    columns = columns or columns_for(count)
    rows = -(-count // columns)
    figure = Figure(figsize=(width, rows * (height or {1: 3.6, 2: 3.0}.get(columns, 2.6))))
    all_axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axes in all_axes[count:]:
        axes.remove()
    return figure, all_axes[:count]


def columns_for(count: int) -> int:
    """The number of columns for `count` panels."""
    if count <= 3:
        return count
    return 2 if count == 4 else 3


def page_axes(height: float) -> Any:
    """Make the axes of a picture of a page, of this height in inches."""
    return panels(1, height=height, width=PAGE_WIDTH)[1][0]


_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Metadata to leave out, by format: the time and the program that made the file."""


def save(figure: Any, stem: Path, pdf: bool = False) -> list[Path]:
    """Write `stem`.png and `stem`.svg, and for papers `stem`.pdf, on white paper.

    Equal figures give equal bytes, by the same version of matplotlib.

    Returns
    -------
    list of Path
        The files.
    """
    stem.parent.mkdir(parents=True, exist_ok=True)
    files = [stem.with_name(f"{stem.name}.{kind}") for kind in _METADATA if pdf or kind != "pdf"]
    for path in files:
        buffer = BytesIO()
        kind = path.suffix[1:]
        with applied():
            figure.savefig(
                buffer, format=kind, dpi=DPI, metadata=_METADATA[kind], facecolor="white"
            )
        write_atomically(path, buffer.getvalue())
    return files


def to_svg(figure: Any, name: str) -> Markup:
    """Render a figure as the content of an inline element; its `name` is unique in the page."""
    import matplotlib

    buffer = StringIO()
    with applied(PAGE_SIZE):
        matplotlib.rcParams["svg.hashsalt"] = name
        figure.savefig(
            buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    text = buffer.getvalue()
    box = re.search(r'viewBox="([^"]*)"', text)
    content = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    # Its only style rule would apply to the whole page, which has the rule already.
    content = re.sub(r"<style.*?</style>", "", content, flags=re.DOTALL).replace(
        "xlink:href", "href"
    )
    used = set(re.findall(r"#([\w-]+)", content))
    content = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", content)
    content = re.sub(r' d="[^"]*"', lambda match: re.sub(r"(\.\d\d)\d+", r"\1", match[0]), content)
    for colour, variable in _VARIABLES.items():
        content = content.replace(colour, f"var(--{variable})")
    return Markup(f'viewBox="{box[1] if box else ""}">{content}')
