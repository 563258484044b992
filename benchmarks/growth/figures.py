"""A figure for everything that grows: time and memory over the size, both axes logarithmic."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.growth.curves import CURVES
from benchmarks.growth.fit import LEAST_BYTES, exponent
from benchmarks.growth.measure import Measured
from curvfed.server_app.report import labels, style

_SECONDS = {
    -6: "1 µs",
    -5: "10 µs",
    -4: "100 µs",
    -3: "1 ms",
    -2: "10 ms",
    -1: "0.1 s",
    0: "1 s",
    1: "10 s",
    2: "100 s",
}
_BYTES = {5: "0.1 MB", 6: "1 MB", 7: "10 MB", 8: "100 MB", 9: "1 GB", 10: "10 GB"}
_LEAST = {"seconds": 0.0, "bytes": float(LEAST_BYTES)}


def draw(grows: str, found: Mapping[str, Measured], stem: Path) -> None:
    """Write `stem`.png and `stem`.svg, if any of its curves is measured."""
    from matplotlib.lines import Line2D

    curves = [curve for curve in CURVES if curve.grows == grows and curve.name in found]
    if not curves:
        return
    with style.applied():
        figure, panels = style.panels(2, 2, height=3.4)
        keys = []
        for number, curve in enumerate(curves):
            look, points = style.Look.of(number), found[curve.name].points
            how: dict[str, Any] = {"color": look.colour, "marker": look.marker, "linestyle": look.dashes}
            for axes, part in zip(panels, _LEAST, strict=True):
                shown = [(p.size, value) for p in points if (value := getattr(p, part) or 0) > _LEAST[part]]
                axes.plot(*zip(*shown, strict=True), **how) if shown else None
            slope = exponent([p.size for p in points], [p.seconds for p in points])
            keys.append((Line2D([], [], **how), curve.what + ("" if slope is None else f" ({slope:.2f})")))
        sizes = sorted({point.size for curve in curves for point in found[curve.name].points})
        for axes, (label, words) in zip(panels, (("time", _SECONDS), ("memory", _BYTES)), strict=True):
            _decades(axes, words)
            if len(sizes) > 1:
                labels.numbers(axes, sizes, [_short(size) for size in sizes], log=True)
                axes.set_xlim(sizes[0] / 1.3, sizes[-1] * 1.3)
            labels.name(axes, grows, label)
        labels.legend(figure, keys)
        style.save(figure, stem)


def _decades(axes: Any, words: Mapping[int, str]) -> None:
    """Name the powers of ten on the axis at the side, whole decades of which it shows."""
    import numpy as np

    axes.set_yscale("log")
    values = [value for line in axes.lines for value in line.get_ydata()]
    if values:
        low, high = int(np.floor(np.log10(min(values)))), int(np.ceil(np.log10(max(values))))
        low, high = max(low, min(words)), min(max(high, low + 1), max(words))
        axes.set_ylim(10.0**low / 1.3, 10.0**high * 1.3)
        axes.set_yticks([10.0**power for power in range(low, high + 1)], [words[p] for p in range(low, high + 1)])
    else:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "less than can be told", ha="center", transform=axes.transAxes, color=style.SOFT)
    axes.set_yticks([], minor=True)


def _short(size: int) -> str:
    """10000 is 10k."""
    for power, letter in ((6, "M"), (3, "k")):
        if size >= 10**power:
            return f"{size / 10**power:g}{letter}"
    return str(size)
