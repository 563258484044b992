"""The figures of commands: differences between methods, and the clients' graphs in spaces of
constant curvature."""

from collections.abc import Mapping, Sequence
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


def draw_curvature(
    dim: int,
    curves: Sequence[Mapping[float, float]],
    points: Sequence[tuple[float, float]],
    stem: Path,
) -> Picture:
    """Draw each client's distortion over the curvature, and its best curvature over its Forman
    curvature, and save the picture.

    Parameters
    ----------
    dim : int
        Number of dimensions.
    curves : sequence of N mappings
        Distortion by curvature.
    points : sequence of N (mean Forman curvature, best curvature)
    stem : Path
    """
    with style.applied():
        figure, (left, right) = style.panels(2)
        for curve in curves:
            inner = {size: error for size, error in curve.items() if abs(size) <= 1}
            shares = [100 * error for error in inner.values()]
            left.plot([*inner], shares, color=style.CLIENT, linewidth=1.2)
        left.set_xscale("symlog", linthresh=0.01)
        left.axvline(0, color=style.SOFT, linewidth=1.2, linestyle=":")
        labels.name(left, "curvature", "distortion (%)")
        formans, best = zip(*points, strict=True)
        right.plot(formans, best, "o", color=style.MEAN)
        right.axhline(0, color=style.SOFT, linewidth=1.2, linestyle=":")
        labels.name(right, "mean Forman curvature", "best curvature")
    title = f"The clients' graphs in {dim} dimensions"
    caption = (
        "Left: a line per client; the lowest place is its best curvature. Right: a dot per client."
    )
    return Picture(figure, title, caption).saved(stem)
