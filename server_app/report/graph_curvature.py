"""The figure of the clients' graphs in spaces of constant curvature."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from curvfed.server_app.report import labels, style
from curvfed.server_app.report.page import Picture


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
