"""The pictures of a run with a global model: accuracies, test images, weights of the clients, and
features and prototypes in the plane."""

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch

from curvfed.extensions.reports import class_scores, shapes
from curvfed.extensions.reports.array_files import GlobalTest, global_test_of
from curvfed.extensions.reports.run_clients import class_names, examples_of
from curvfed.geometry import poincare
from curvfed.geometry.arrays import Floats, Indices
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import charts, style
from curvfed.server_app.report.page import Picture, percent, printable
from curvfed.strategies.base.figures import GLOBAL_ACCURACY, PERSONAL_ACCURACY
from curvfed.strategies.wire.messages import CALIBRATE, FINE_TUNE, TRAIN
from curvfed.tasks.amounts import amount

MOST_FEATURES = 2000
"""Features that are drawn."""

FAR = 2.0
NEAR = 1.2
"""Median length of tangent vectors beyond which they are shortened, and the median after that; by
exp0 these lengths become norms of 0.96 and 0.83."""

_LAYERS = 4
"""Number of parts to draw dots in, so that no class covers all others."""

_COLUMNS = 5
"""Images in a row."""


@dataclass(frozen=True, eq=False)
class View:
    """Features and prototypes in the plane.

    Attributes
    ----------
    finite : int array (m,)
        The features that are drawn: those that are finite.
    points : array (m, 2)
    prototypes : array (C, 2), or (0, 2) for none
    disc : bool
        Whether they are points of the Poincaré disc.
    how : str
        How they were brought to the plane, in a sentence or two.
    """

    finite: Indices
    points: Floats
    prototypes: Floats
    disc: bool
    how: str


def project(test: GlobalTest) -> View | None:
    """Bring features and prototypes to the plane; equal input gives equal output, sign included.

    Points of space "poincare" in up to two dimensions are drawn as they are, all others by
    principal components.

    Parameters
    ----------
    test : GlobalTest
        Its first `MOST_FEATURES` features are drawn, and its prototypes, except in a flat space:
        there the rows of a classifier are not points among the features.

    Returns
    -------
    View or None
        None if there are not two finite features.
    """
    features = test.features[:MOST_FEATURES]
    finite = np.flatnonzero(np.isfinite(features).all(axis=1))
    if len(finite) < 2 or not features.shape[1]:
        return None
    features = features[finite]
    dimensions = features.shape[1]
    prototypes = test.prototypes
    if prototypes is None or test.space == "flat" or not np.isfinite(prototypes).all():
        prototypes = np.empty((0, dimensions))
    if test.space == "sphere":
        features, prototypes = (
            rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
            for rows in (features, prototypes)
        )
    if test.space == "poincare":
        prototypes = np.asarray(poincare.log0(torch.from_numpy(prototypes), -1.0))
        if dimensions <= 2:
            how = "This is the Poincaré disc itself, whose rim is infinitely far"
            return _in_disc(finite, _two_columns(features), _two_columns(prototypes), how)
    what = {
        "flat": "features",
        "sphere": "features on the unit sphere",
        "poincare": "tangent vectors at the origin",
        "prototypes": "features",
    }
    subject = f"{what[test.space]} ({dimensions} dimensions)"
    centre = 0.0 if test.space == "poincare" else features.mean(axis=0)
    basis, share = _plane(features - centre)
    points = (features - centre) @ basis
    stars = (prototypes - centre) @ basis
    how = f"The two principal components of the {subject}, with {percent(share)} of their squares"
    if test.space == "poincare":
        return _in_disc(finite, points, stars, f"{how}, brought to the disc by exp0")
    return View(finite, points, stars, False, how)


def _in_disc(finite: Indices, points: Floats, stars: Floats, how: str) -> View:
    """The view of tangent vectors (m, 2) and (C, 2); the former are shortened if they would all lie
    on the rim."""
    median = float(np.median(np.linalg.norm(points, axis=1)))
    nearer = 1.0
    if median > FAR:
        nearer = median / NEAR
        how += (
            f". The dots are drawn {nearer:.3g} times nearer to the centre than they are, which is"
            " almost on the rim"
        )
    points, stars = (
        np.asarray(poincare.exp0(torch.from_numpy(rows), -1.0)) for rows in (points / nearer, stars)
    )
    return View(finite, points, stars, True, how)


def _plane(rows: Floats) -> tuple[Floats, float]:
    """The plane (d, 2) of the two principal components of rows (m, d), with positive largest
    entries, and its share of the sum of squares."""
    basis = _two_columns(np.linalg.eigh(rows.T @ rows)[1][:, ::-1])
    largest_entries = basis[np.abs(basis).argmax(axis=0), [0, 1]]
    basis = basis * np.where(largest_entries < 0, -1.0, 1.0)
    total = max(np.square(rows).sum(), 1e-300)
    share = np.square(rows @ basis).sum() / total
    return basis, float(share)


def _two_columns(rows: Floats) -> Floats:
    """The first two columns, 0 where missing."""
    return np.pad(rows[:, :2], ((0, 0), (0, max(2 - rows.shape[1], 0))))


def accuracy(run: RunFiles) -> Picture | None:
    """Accuracy of the global model and of the personal models by round, unless only the latter were
    measured."""
    rounds, scores = run.by_client("score")
    trained = "personal, after local training"
    means = charts.row_means(charts.carried_forward(scores))
    courses = {
        "global": (*run.by_round(GLOBAL_ACCURACY, TRAIN), style.MEAN, "-"),
        trained: (rounds, means, style.OTHER, "-"),
        "global, calibrated": (*run.by_round(GLOBAL_ACCURACY, CALIBRATE), style.MEAN, "*"),
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
    charts.page_legend(axes)
    caption = f"The mean over the clients on their own test {examples_of(run)}."
    if any(label.startswith("global") for label in measured):
        caption = (
            f"On the server's test {examples_of(run)}, and the mean over the clients on their own."
        )
    return Picture(axes.figure, "Accuracy by round", caption)


def examples(run: RunFiles) -> Picture | None:
    """An image of each class, or of some if there are many, above the name of its class."""
    test = global_test_of(run)
    if test is None or not len(test.images):
        return None
    names = class_scores.class_labels(class_names(run), int(test.image_labels.max()) + 1)
    height, width = test.images.shape[1:3]
    cell = math.ceil(1.25 * max(height, width))  # with room for a name
    rows = math.ceil(len(test.images) / _COLUMNS)
    sheet = np.zeros((rows * cell, _COLUMNS * cell, 4), np.uint8)
    axes = style.page_axes(style.PAGE_WIDTH / _COLUMNS * rows)
    for place, (image, label) in enumerate(zip(test.images, test.image_labels, strict=True)):
        top, left = (cell * step for step in divmod(place, _COLUMNS))
        sheet[top : top + height, left : left + width, :3] = image
        sheet[top : top + height, left : left + width, 3] = 255
        axes.text(left, top + height, printable(names[label], 14), va="top", fontsize=7.5)
    axes.imshow(sheet, interpolation="none")
    axes.set_axis_off()
    shown = "each class" if len(test.image_labels) == len(names) else "each of some classes"
    caption = f"One test image of {shown}, turned and scaled as the model gets it."
    return Picture(axes.figure, "Test images", caption)


def features(run: RunFiles) -> Picture | None:
    """Features of the server's test images in the plane, a dot for each image and a star for each
    prototype."""
    test = global_test_of(run)
    if test is None:
        return None

    view = project(test)
    if view is None:
        return None
    dot_labels = test.labels[view.finite]
    names = class_scores.class_labels(class_names(run), int(dot_labels.max()) + 1)
    is_few = len(names) <= len(shapes.HUES)
    colours = shapes.hues(len(names))
    axes = style.page_axes(5.2)
    for layer in range(_LAYERS):
        for number in np.unique(dot_labels):
            points = view.points[dot_labels == number][layer::_LAYERS]
            shapes.dots(
                axes, points, colours[number], 2.6 if len(dot_labels) > 800 else 3.6, clip_on=False
            )
    axes.update_datalim(view.points)
    stars = view.prototypes[: len(names)]
    # Of many classes some are named, from the first to the last.
    classes = range(len(names)) if is_few else np.linspace(0, len(names) - 1, 6).round().astype(int)
    keys = [
        charts.key(
            printable(names[named_class], charts.LONGEST),
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
    shapes.class_legend(axes, keys)
    if view.disc:
        shapes.unit_circle(axes)
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
    clients = shapes.largest(np.nansum(examples, axis=0), shapes.MOST_CELLS)
    clients = clients[np.isfinite(ratios[clients]).any(axis=1)]
    low = float(np.nanmin(ratios[clients]))
    high = float(np.nanmax(ratios[clients]))
    limit = min(max(high - 1, 1 - low, 0.01), 1.0)  # beyond it from 1 the colours do not change
    height = min(max(0.16 * len(clients), 0.6), 3.6)
    axes = style.page_axes(1.3 + height)
    names = (
        [f"{number:.0f}" for number in rounds[shown]],
        [str(run.partitions[number]) for number in clients],
    )
    image = shapes.cells(axes, (ratios[clients] - 1) / limit, names, max_names=15)
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
    sentences = [f"In {amount(count, 'round')} {note}." for note, count in notes.items()]
    left_out = shapes.left_out(clients, np.isfinite(weight).any(axis=0).sum(), "clients")
    caption = "Weight in the aggregation over the share of the data: blue less, orange more."
    return Picture(
        axes.figure, "Weights of the clients", " ".join([caption, left_out, *sentences]).strip()
    )
