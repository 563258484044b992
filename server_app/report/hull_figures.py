"""The figures of one-shot runs: the disc with its hulls, and the confusion matrix."""

import math

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.directory.hull_file import HullFile
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import charts, labels, style, units
from curvfed.server_app.report.class_scores import confusion_of, counted
from curvfed.server_app.report.disc import Disc, everything, view
from curvfed.server_app.report.templates import Picture

Array = NDArray[np.float64]

MOST_KEYS = 24
"""Groups that the legend names."""

_SIDE = 340.0  # the disc in points of print, about


def hull_figures(run: RunFiles) -> list[Picture]:
    """The disc and the confusion matrix; nothing for a run without hulls."""
    if run.hulls is None:
        return []
    file = run.hulls
    pictures: list[Picture | None] = [_disc(file)]
    if len(file.test.labels):
        tested = counted(file.test.labels, file.predicted)
        pictures.append(confusion_of(tested, file.class_names, "point", "the group has no name"))
    return [picture for picture in pictures if picture is not None]


def _disc(file: HullFile) -> Picture:
    centre, half = view(everything(file))
    disc = Disc(file, style.page_axes(5.3), centre, half, 2 * half / _SIDE)
    decided = disc.decisions()
    dots = disc.points()
    disc.hulls()
    lines = disc.geodesics()
    wrong = disc.wrong()
    groups = sorted(
        (colour, name or f"group {number}")
        for number, (colour, name) in enumerate(zip(disc.of_group, file.names, strict=True), 1)
    )
    labels.class_legend(
        disc.axes,
        [
            charts.key(units.printable(name), color=disc.colours[colour], linewidth=4, alpha=0.8)
            for colour, name in groups[:MOST_KEYS]
        ],
    )
    facts = {
        "hulls": len(file.hulls),
        "true_hulls": len(file.true_hulls),
        "groups": len(file.groups),
        "lines": lines,
        "clients": len({hull.client for hull in file.hulls}),
        "named": any(file.names),
        "dots": dots,
        "wrong": wrong,
        "points": len(file.sample.points),
        "decided": decided,
        "tested": len(file.test.labels),
        "half": half,
        "missed": int((file.test.labels != file.predicted).sum()),
        "wide": _width(file, centre, half),
    }
    return Picture(disc.axes, "disc", facts)


def _width(file: HullFile, centre: Array, half: float) -> float | None:
    """The hyperbolic width of a closer view; None if it reaches beyond the disc."""
    gaps = 1 - np.square(centre + np.array([[-half, 0.0], [half, 0.0]])).sum(axis=1)
    if (gaps <= 0).any():
        return None
    return 2 / math.sqrt(-file.curvature) * math.asinh(2 * half / math.sqrt(float(gaps.prod())))
