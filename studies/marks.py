"""Bars, and marks of numbers on an axis, in the figures of studies."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from curvfed.server_app.report.charts import inches, panel_width
from curvfed.server_app.report.style import Look


def numbers(axes: Any, values: Sequence[float], words: Sequence[str], log: bool) -> None:
    """Mark ascending values on the x axis, always the first and the last, others if there is
    room."""
    if log:
        axes.set_xscale("log")
    positions = np.log(values) if log else np.asarray(values, float)
    extent = max(positions[-1] - positions[0], 1e-300)
    positions = 0.9 * panel_width(axes) * (positions - positions[0]) / extent
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


def bar(
    axes: Any, positions: Any, heights: Sequence[float], width: float, look: Look, **style: Any
) -> None:
    """Draw bars in a look."""
    face = {"color": look.tint, "hatch": look.hatch, "edgecolor": look.colour, "linewidth": 1.0}
    axes.bar(positions, heights, width, **face, **style)
