"""The style of all figures: colours, type, looks of lines, and files with reproducible bytes.

Neighbouring looks differ in colour, marker and dashes at once, so that a figure can be read by the
colour-blind and in black and white. Pages hold figures as inline SVG in their own colours, light or
dark; figures are also saved as files on white paper.
"""

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
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

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#e69f00", "#000000", "#cc79a7", "#56b4e9")
"""The colours of Okabe and Ito, without yellow, which is too light for lines."""

COLOURS = {
    PAPER: ("paper", "#14181c"),
    INK: ("ink", "#e6e9ec"),
    SOFT: ("soft", "#a3adb7"),
    LINE: ("line", "#2d343b"),
    MEAN: ("mean", "#56b4e9"),
    OTHER: ("other", "#e69f00"),
    CLIENT: ("client", "#87929d"),
    "#d55e00": ("vermilion", "#f08a4b"),
    "#009e73": ("green", "#2fc39a"),
    "#e69f00": ("amber", "#ffc54d"),
    "#000000": ("black", "#ffffff"),
    "#cc79a7": ("purple", "#e39bc4"),
    "#56b4e9": ("sky", "#f0e442"),
}
"""By colour on light paper: the name of its variable in pages, and the colour on dark paper."""


def _mixed(colour: str, paper: str, share: float = 0.55) -> str:
    """A share of a colour on paper."""
    pairs = [(int(colour[at : at + 2], 16), int(paper[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(share * ink + (1 - share) * below):02x}" for ink, below in pairs)


_TINTS = {
    _mixed(colour, "#ffffff"): (f"{COLOURS[colour][0]}-tint", _mixed(COLOURS[colour][1], "#14181c"))
    for colour in PALETTE
}
"""The colours of areas, `Look.tint`."""

VARIABLES = [(name, light, dark) for light, (name, dark) in (COLOURS | _TINTS).items()]
"""The variables of the pages' style sheet: name, value on light paper, value on dark paper."""

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
    def tint(self) -> str:
        """The colour of an area, light enough for hatches and dots to be seen on it."""
        return _mixed(self.colour, "#ffffff")


@cache
def load_fonts() -> None:
    """Import matplotlib's fonts. On a new machine it lists them, and logs that this takes a moment;
    nobody asked."""
    logger = logging.getLogger("matplotlib.font_manager")

    def is_news(record: logging.LogRecord) -> bool:
        return "is building the font cache" not in record.getMessage()

    logger.addFilter(is_news)
    try:
        import matplotlib.font_manager  # noqa: F401
    finally:
        logger.removeFilter(is_news)


@contextmanager
def applied(size: float = LARGE) -> Iterator[None]:
    """Apply matplotlib's defaults and ours, whatever the user's own settings, with type of `size`
    points."""
    import matplotlib

    load_fonts()
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
    load_fonts()
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


def to_svg(figure: Any, name: str, size: float = PAGE_SIZE) -> Markup:
    """Render a figure as the content of an inline element; its `name` is unique in the page, and
    its type has `size` points."""
    import matplotlib

    buffer = StringIO()
    with applied(size):
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
    for name, colour, _ in VARIABLES:
        content = content.replace(colour, f"var(--{name})")
    return Markup(f'viewBox="{box[1] if box else ""}">{content}')
