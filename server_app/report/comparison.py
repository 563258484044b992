"""The figure of a comparison of methods: differences to the best one, with their intervals."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from curvfed.server_app.report import labels, style
from curvfed.server_app.report.page import Picture


def draw_differences(
    best: str, names: Sequence[str], intervals: Sequence[Sequence[float]], stem: Path
) -> Picture:
    """Draw the differences to the best method, and save the picture.

    Parameters
    ----------
    best : str
    names : sequence of N str
        The other methods.
    intervals : sequence of N (difference, low, high)
        In percentage points.
    stem : Path
    """
    means, low, high = np.array(intervals).T
    bars = {"fmt": "o", "color": style.MEAN, "capsize": 4}
    with style.applied():
        figure, (axes,) = style.panels(1)
        axes.axhline(0, color=style.SOFT, linewidth=1.2, linestyle=":")
        axes.errorbar(range(len(names)), means, [means - low, high - means], **bars)
        labels.categories(axes, names)
        axes.set_xlim(-0.5, len(names) - 0.5)
        labels.name(axes, "", f"difference to {best} (points)")
    title = f"Differences to {best}, with their intervals"
    caption = f"{title}. Where one contains 0, the data show no difference."
    return Picture(figure, title, caption).saved(stem)
