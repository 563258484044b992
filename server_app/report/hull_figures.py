"""The pictures of a one-shot run: the disc with its hulls, and the confusion of classes."""

import numpy as np

from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import charts, labels, style, units
from curvfed.server_app.report.class_scores import confusion_of, count_pairs
from curvfed.server_app.report.disc import Disc, everything, view
from curvfed.server_app.report.page import Picture

MOST_KEYS = 24
"""Groups that the legend names."""

_SIDE = 340.0  # the disc in points of print, about


def confusion(run: RunFiles) -> Picture | None:
    """True by predicted classes of the test points."""
    file = run.hulls
    if file is None or not len(file.test.labels):
        return None
    return confusion_of(count_pairs(file.test.labels, file.predicted), file.class_names, "points")


def disc(run: RunFiles) -> Picture | None:
    """Points, hulls and decisions on the Poincaré disc."""
    file = run.hulls
    assert file is not None
    centre, half = view(everything(file))
    disc = Disc(file, style.page_axes(5.3), centre, half, 2 * half / _SIDE)
    is_decided = disc.decisions()
    dots = disc.points()
    disc.hulls()
    lines = disc.geodesics()
    disc.wrong()
    groups = sorted(
        (colour, name or f"group {number}")
        for number, (colour, name) in enumerate(zip(disc.of_group, file.names, strict=True), 1)
    )
    keys = [
        charts.key(units.printable(name), color=disc.colours[colour], linewidth=4, alpha=0.8)
        for colour, name in groups[:MOST_KEYS]
    ]
    labels.class_legend(disc.axes, keys)
    wrong = int(np.sum(file.test.labels != file.predicted))
    sentences = {
        "Filled are the hulls that the server decoded.": len(file.hulls),
        "Dashed are the hulls before quantisation.": len(file.true_hulls),
        "Dots are training points, which the server sees in a simulation alone.": dots,
        "Lines are decisions, diamonds their reference points.": lines,
        "The background is what the classifier decides.": is_decided,
        f"Crosses are the {wrong:,} test points that are predicted wrongly.": wrong,
        f"The view is {1 / half:.3g} times less wide than the disc.": half < 1,
    }
    caption = " ".join(text for text, is_told in sentences.items() if is_told)
    return Picture(disc.axes.figure, f"Poincaré disc of {len(file.hulls)} hulls", caption)
