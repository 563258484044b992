"""The looks of lines and bars, and the legend that names them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from curvfed.deployments.report.words import FIGURE, Names, Place
from curvfed.server_app.report.charts import key
from curvfed.server_app.report.style import SOFT, Look
from curvfed.strategies.methods import METHODS

# In rows of as many methods as there are colours, so that methods that papers compare differ in colour.
_FIRST = (
    "flatland", "fedavg", "hyperfed", "spherefed", "local", "hull", "fedprox",
    "hyperfed-averaged", "fednova", "flatland-constant", "flatland-shared", "hyperfed-fixed", "local-lorentz", "fedper",
    "fedopt", "ccvr", "fedhgcn", "hyperfed-geodesic", "fed-pub", "hyperfed-shared", "gcfl",
    "fedbabu", "fedrep", "flatland-euclidean",
)  # fmt: skip
ORDER = (*_FIRST, *(name for name in METHODS if name not in _FIRST))
"""A method's place in it sets its look, the same in all figures."""

Keys = list[tuple[Any, str]]
"""Marks and their texts, for a legend."""


def looks(lines: Iterable[Place]) -> dict[Place, Look]:
    """Choose a look for each line: by its method, or where the method tells nothing apart by its number."""
    lines = list(dict.fromkeys(lines))
    methods = [dict(line).get("method") for line in lines]
    if None in methods or (len(set(methods)) == 1 and len(lines) > 1):
        return {line: Look.of(number) for number, line in enumerate(lines)}
    rest = [tuple(setting for setting in line if setting[0] != "method") for line in lines]
    turns = list(dict.fromkeys(rest))
    return {
        line: Look.of(ORDER.index(method) if method in ORDER else len(ORDER), turns.index(other))
        for line, method, other in zip(lines, methods, rest, strict=True)
    }


def line_mark(look: Look) -> Any:
    """Draw a piece of line for a legend."""
    return key("", color=look.colour, marker=look.marker, linestyle=look.dashes)[0]


def bar_mark(look: Look) -> Any:
    """Draw a bar for a legend."""
    from matplotlib.patches import Patch

    return Patch(facecolor=look.tint, edgecolor=look.colour, hatch=look.hatch)


def legend_keys(look: Mapping[Place, Look], names: Names, mark: Callable[[Look], Any]) -> Keys:
    """Name each line; settings that all lines share are left out where figures tell the lines apart."""
    settings = {tuple(setting for setting in line if setting[0] != FIGURE) for line in look}
    shared = settings.pop() if len(settings) == 1 and len(look) > 1 else ()
    told = {line: tuple(setting for setting in line if setting not in shared) for line in look}
    return [(mark(look[line]), names.place(place)) for line, place in told.items() if place]


def seeds_key(counts: set[int], mark: Any = None) -> Keys:
    """Explain spreads; without a mark where there is one seed."""
    if max(counts, default=0) < 2:
        return [key("one seed", linestyle="none")] if counts else []
    number = f"{max(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    bar = {"color": SOFT, "marker": "|", "markersize": 13, "markeredgewidth": 1.4, "linestyle": "none"}
    entry = key(f"± standard deviation over {number} seeds", **bar)
    return [(mark or entry[0], entry[1])]


def paper_key(spec: Mapping[str, Any]) -> Keys:
    """Explain hollow marks."""
    hollow = {"marker": "o", "markerfacecolor": "white", "markeredgecolor": SOFT, "markersize": 8, "linestyle": "none"}
    return [key(f"the paper's number, {str(spec['paper']).partition(',')[2].strip()}", **hollow)]
