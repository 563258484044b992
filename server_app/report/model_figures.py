"""The pictures of a run with a global model: accuracies, test images, features, and weights of the
clients."""

import math
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.directory.run_files import CALIBRATIONS, RunFiles
from curvfed.server_app.report import charts, class_scores, labels, style, units
from curvfed.server_app.report.page import Picture
from curvfed.strategies.base.figures import GLOBAL_ACCURACY, PERSONAL_ACCURACY
from curvfed.strategies.wire.messages import FINE_TUNE, TRAIN

Array = NDArray[np.float64]

_LAYERS = 4
"""Parts in which dots are drawn, so that no class covers all others."""

_COLUMNS = 5
"""Images in a row."""


def accuracy(run: RunFiles) -> Picture | None:
    """Accuracy of the global model and of the personal models by round, unless only the latter were
    measured."""
    rounds, scores = run.by_client("score")
    trained = "personal, after local training"
    courses = {
        "global": (*run.by_round(GLOBAL_ACCURACY, TRAIN), style.MEAN, "-"),
        trained: (rounds, charts.row_means(charts.known(scores)), style.OTHER, "-"),
        "global, calibrated": (*run.by_round(GLOBAL_ACCURACY, *CALIBRATIONS), style.MEAN, "*"),
        "personal, fine-tuned": (*run.by_round(PERSONAL_ACCURACY, FINE_TUNE), style.OTHER, "D"),
    }
    measured = {label: course for label, course in courses.items() if np.isfinite(course[1]).any()}
    if not measured.keys() - {trained} or max(len(course[0]) for course in measured.values()) < 2:
        return None
    axes = style.page_axes(3.1)
    for label, (x, y, colour, mark) in measured.items():
        shown = charts.evenly(len(x))
        look = {
            "color": colour,
            "label": label,
            "linewidth": 2.0,
            "markersize": 8,
            "clip_on": False,
        }
        axes.plot(x[shown], 100 * y[shown], mark, **look)
    charts.over_rounds(axes, "accuracy (%)")
    labels.page_legend(axes)
    caption = f"On the server's test {run.examples}, and the mean over the clients on their own."
    return Picture(axes.figure, "Accuracy by round", caption)


def examples(run: RunFiles) -> Picture | None:
    """An image of each of some classes, above the name of its class."""
    test = run.global_test
    if test is None or not len(test.images):
        return None
    names = class_scores.class_labels(run.class_names, int(test.image_labels.max()) + 1)
    height, width = test.images.shape[1:3]
    cell = math.ceil(1.25 * max(height, width))  # with room for a name
    rows = math.ceil(len(test.images) / _COLUMNS)
    sheet = np.zeros((rows * cell, _COLUMNS * cell, 4), np.uint8)
    axes = style.page_axes(style.PAGE_WIDTH / _COLUMNS * rows)
    for place, (image, label) in enumerate(zip(test.images, test.image_labels, strict=True)):
        top, left = (cell * step for step in divmod(place, _COLUMNS))
        sheet[top : top + height, left : left + width, :3] = image
        sheet[top : top + height, left : left + width, 3] = 255
        axes.text(left, top + height, units.printable(names[label], 14), va="top", fontsize=7.5)
    axes.imshow(sheet, interpolation="none")
    axes.set_axis_off()
    caption = "One test image of each of some classes, turned and scaled as the model gets it."
    return Picture(axes.figure, "Test images", caption)


def features(run: RunFiles) -> Picture | None:
    """Features of the server's test images in the plane, a dot for each image and a star for each
    prototype."""
    test = run.global_test
    if test is None:
        return None
    from curvfed.server_app.report.features import project

    view = project(test)
    if view is None:
        return None
    dot_labels = test.labels[view.kept]
    names = class_scores.class_labels(run.class_names, int(dot_labels.max()) + 1)
    is_few = len(names) <= len(style.HUES)
    colours = style.hues(len(names))
    axes = style.page_axes(5.2)
    for layer in range(_LAYERS):
        for number in np.unique(dot_labels):
            points = view.points[dot_labels == number][layer::_LAYERS]
            charts.dots(
                axes, points, colours[number], 2.6 if len(dot_labels) > 800 else 3.6, clip_on=False
            )
    axes.update_datalim(view.points)
    stars = view.prototypes[: len(names)]
    # Of many classes some are named, from the first to the last.
    classes = range(len(names)) if is_few else np.linspace(0, len(names) - 1, 6).round().astype(int)
    keys = [
        charts.key(
            units.printable(names[named_class]),
            marker="o",
            color=colours[named_class],
            linestyle="none",
            markersize=5,
        )
        for named_class in classes
    ]
    if len(stars):
        edge = {
            "linewidth": 0.7 if is_few else 0.4,
            "edgecolor": style.INK,
            "zorder": 5,
            "clip_on": False,
        }
        axes.scatter(
            *stars.T, s=130 if is_few else 36, marker="*", color=colours[: len(stars)], **edge
        )
        hollow = {
            "color": "none",
            "markeredgecolor": style.INK,
            "linestyle": "none",
            "markersize": 10,
        }
        keys.append(charts.key("prototype", marker="*", **hollow))
    labels.class_legend(axes, keys)
    if view.disc:
        charts.unit_circle(axes)
    else:
        axes.set_aspect("equal", "datalim")
        axes.margins(0.04)
    axes.set_axis_off()
    stars_too = " The stars are the prototypes." if len(stars) else ""
    caption = f"{view.how}.{stars_too}"
    return Picture(axes.figure, f"Features of {len(dot_labels):,} test images", caption)


def weights(run: RunFiles) -> Picture | None:
    """The weights of the clients in each round's aggregation over their shares of the data, if they
    have weights."""
    rounds, weight = run.by_client("weight", TRAIN)
    examples = run.by_client("num_examples", TRAIN)[1]
    examples = np.where(np.isfinite(weight) & (examples > 0), examples, np.nan)
    scored = np.flatnonzero(np.isfinite(examples).any(axis=1))
    if not len(scored):
        return None
    shown = scored[charts.evenly(len(scored))]
    ratios = (weight * np.nansum(examples, axis=1, keepdims=True) / examples)[shown].T
    clients = charts.largest(np.nansum(examples, axis=0), charts.MOST_CELLS)
    clients = clients[np.isfinite(ratios[clients]).any(axis=1)]
    low = float(np.nanmin(ratios[clients]))
    high = float(np.nanmax(ratios[clients]))
    limit = min(max(high - 1, 1 - low, 0.01), 1.0)  # beyond it from 1 the colours do not change
    axes = style.page_axes(1.3 + min(max(0.16 * len(clients), 0.6), 3.6))
    names = [f"{one:.0f}" for one in rounds[shown]], [str(run.partitions[one]) for one in clients]
    image = charts.cells(axes, (ratios[clients] - 1) / limit, names, most=15)
    axes.set(xlabel="round", ylabel="client")
    bar = axes.figure.colorbar(
        image, ax=axes, location="top", shrink=0.5, anchor=(0, 0), aspect=30, ticks=[-1, 0, 1]
    )
    bar.set_label("weight over share of the data", color=style.SOFT, fontsize=8)
    bar.ax.set_xticklabels(
        [f"{1 - limit:.2f}", "1", f"{'≥ ' if limit == 1 else ''}{1 + limit:.2f}"], fontsize=8
    )
    bar.solids.set_rasterized(True)
    bar.outline.set_visible(False)
    notes = Counter(note for note in run.rounds.get("aggregation_note", ()) if note)
    sentences = [f"In {count} rounds {note}." for note, count in notes.items()]
    left_out = charts.left_out(clients, np.isfinite(weight).any(axis=0).sum(), "clients")
    caption = "Weight in the aggregation over the share of the data: blue less, orange more."
    return Picture(
        axes.figure, "Weights of the clients", " ".join([caption, left_out, *sentences]).strip()
    )
