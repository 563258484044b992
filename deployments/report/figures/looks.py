"""What lines and bars look like, and the legend that says which is which."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from curvfed.deployments.report.cells import Cell
from curvfed.deployments.report.words import Line, Names
from curvfed.server_app.report.style import SOFT, Look
from curvfed.strategies.methods import METHODS

# In rows of as many as there are colours, so that those that papers show side by side differ in theirs.
_FIRST = (
    "flatland", "fedavg", "hyperfed", "spherefed", "local", "hull", "fedprox",
    "hyperfed-averaged", "fednova", "flatland-constant", "flatland-shared", "hyperfed-fixed", "local-lorentz", "fedper",
    "fedopt", "ccvr", "fedhgcn", "hyperfed-geodesic", "fed-pub", "hyperfed-shared", "gcfl",
    "fedbabu", "fedrep", "flatland-euclidean",
)  # fmt: skip
ORDER = (*_FIRST, *(name for name in METHODS if name not in _FIRST))
"""The place of a method in it is its look, the same in all figures."""

Keys = list[tuple[Any, str]]
"""Marks and what they are, for a legend."""


def looks(lines: Iterable[Line]) -> dict[Line, Look]:
    """A look for each of the lines: a method has its own colour, whatever the figure."""
    lines = list(dict.fromkeys(lines))
    methods = [dict(place).get("method") for place, _ in lines]
    if None in methods or (len(set(methods)) == 1 and len(lines) > 1):
        return {line: Look.of(number) for number, line in enumerate(lines)}
    rest = [(tuple(one for one in place if one[0] != "method"), column) for place, column in lines]
    turns = list(dict.fromkeys(rest))
    return {
        line: Look.of(ORDER.index(method) if method in ORDER else len(ORDER), turns.index(other))
        for line, method, other in zip(lines, methods, rest, strict=True)
    }


def line_mark(look: Look) -> Any:
    """A piece of line, for a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=look.colour, marker=look.marker, linestyle=look.dashes)


def bar_mark(look: Look) -> Any:
    """A bar, for a legend."""
    from matplotlib.patches import Patch

    return Patch(facecolor=look.tint, edgecolor=look.colour, hatch=look.hatch)


def legend_keys(look: Mapping[Line, Look], names: Names, draw: Callable[[Look], Any]) -> Keys:
    """A line each; what all have in common is not said, unless it is all there is."""
    same = len({place for place, _ in look}) == 1 and len(look) > 1
    told = {line: one for line, one in look.items() if line[1] or not same}
    return [(draw(one), names.line((() if same else line[0], line[1]))) for line, one in told.items()]


def seeds_key(counts: set[int], mark: Any = None) -> Keys:
    """What spreads are of; no mark where there is one seed."""
    from matplotlib.lines import Line2D

    if max(counts, default=0) < 2:
        return [(Line2D([], [], linestyle="none"), "one seed")] if counts else []
    bar = Line2D([], [], color=SOFT, marker="|", markersize=13, markeredgewidth=1.4, linestyle="none")
    number = f"{max(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    return [(mark or bar, f"± standard deviation over {number} seeds")]


def cells_keys(spec: Mapping[str, Any], cells: Sequence[Cell]) -> Keys:
    """What the spreads of cells are of, and what hollow marks are, where there are any."""
    from matplotlib.lines import Line2D

    keys = seeds_key({len(cell.values) for cell in cells})
    if any(cell.printed for cell in cells):
        mark = Line2D([], [], linestyle="none", marker="o", markerfacecolor="white", markeredgecolor=SOFT, markersize=8)
        keys.append((mark, f"the paper's number, {str(spec['paper']).partition(',')[2].strip()}"))
    return keys
