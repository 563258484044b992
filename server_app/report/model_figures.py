"""The pictures of a run with a global model: accuracies, test images, features, and weights of the
clients."""

import math
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.directory.run_files import CALIBRATIONS, RunFiles
from curvfed.server_app.report import charts, class_scores, labels, style, units
from curvfed.server_app.report.page import Picture
from curvfed.strategies.wire.messages import FINE_TUNE, TRAIN

Array = NDArray[np.float64]

_LAYERS = 4
"""Parts in which dots are drawn, so that no class covers all others."""

_COLUMNS = 5
"""Images in a row."""


class Series(NamedTuple):
    """A column of `rounds.csv` in percent; with a `marker` it is drawn as single points."""

    label: str
    rounds: Array
    values: Array
    colour: str
    marker: str = ""


def accuracy(run: RunFiles) -> Picture | None:
    """Accuracy of the global model and of the personal models by round, unless only the latter were
    measured."""
    rounds, scores = run.by_client("score")
    personal = charts.row_means(charts.known(100 * scores))
    scored = np.isfinite(personal)
    trained = Series(
        "personal, after local training", rounds[scored], personal[scored], style.OTHER
    )
    series = [
        _series(run, "global", "global_accuracy", style.MEAN, TRAIN),
        trained,
        _series(
            run, "global, calibrated", "global_accuracy", style.MEAN, *CALIBRATIONS, marker="*"
        ),
        _series(
            run,
            "personal, fine-tuned",
            "personal_accuracy_mean",
            style.OTHER,
            FINE_TUNE,
            marker="D",
        ),
    ]
    series = [one for one in series if len(one.values)]
    if series in ([], [trained]) or max(len(one.values) for one in series) < 2:
        return None
    axes = style.page_axes(3.1)
    draw_series(axes, series)
    charts.over_rounds(axes, "accuracy (%)")
    labels.page_legend(axes)
    caption = f"On the server's test {run.examples}, and the mean over the clients on their own."
    return Picture(axes.figure, "Accuracy by round", caption)


def _series(
    run: RunFiles, label: str, column: str, colour: str, *phases: str, marker: str = ""
) -> Series:
    rounds, values = run.by_round(column, *phases)
    return Series(label, rounds, 100 * values, colour, marker)


def draw_series(axes: Any, series: list[Series]) -> None:
    """Draw lines and single points; stars stand a little after their round, as calibration does."""
    edge = {
        "linestyle": "none",
        "markeredgecolor": style.PAPER,
        "markeredgewidth": 0.8,
        "zorder": 5,
        "clip_on": False,
    }
    later = 0.025 * max(np.ptp(one.rounds) for one in series)
    for one in series:
        at = charts.evenly(len(one.rounds))
        look: dict[str, Any] = {
            "marker": "o" if len(at) <= 12 else "",
            "markersize": 3.5,
            "linewidth": 2.0,
        }
        if one.marker:
            look = edge | {"marker": one.marker, "markersize": 12 if one.marker == "*" else 6}
        x = one.rounds[at] + (later if one.marker == "*" else 0)
        axes.plot(x, one.values[at], color=one.colour, label=one.label, **look)


def examples(run: RunFiles) -> Picture | None:
    """An image of each of some classes, above the name of its class."""
    test = run.global_test
    if test is None or not len(test.images):
        return None
    names = class_scores.named(run.class_names, int(test.image_labels.max()) + 1)
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
    of_dots = test.labels[view.kept]
    names = class_scores.named(run.class_names, int(of_dots.max()) + 1)
    few = len(names) <= len(style.HUES)
    colours = style.hues(len(names))
    axes = style.page_axes(5.2)
    for layer in range(_LAYERS):
        for number in np.unique(of_dots):
            points = view.points[of_dots == number][layer::_LAYERS]
            charts.dots(
                axes, points, colours[number], 2.6 if len(of_dots) > 800 else 3.6, clip_on=False
            )
    axes.update_datalim(view.points)
    stars = view.prototypes[: len(names)]
    # Of many classes some are named, from the first to the last.
    some = range(len(names)) if few else np.linspace(0, len(names) - 1, 6).round().astype(int)
    keys = [
        charts.key(
            units.printable(names[one]),
            marker="o",
            color=colours[one],
            linestyle="none",
            markersize=5,
        )
        for one in some
    ]
    if len(stars):
        edge = {
            "linewidth": 0.7 if few else 0.4,
            "edgecolor": style.INK,
            "zorder": 5,
            "clip_on": False,
        }
        axes.scatter(
            *stars.T, s=130 if few else 36, marker="*", color=colours[: len(stars)], **edge
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
    return Picture(axes.figure, f"Features of {len(of_dots):,} test images", caption)


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
    kept = charts.largest(np.nansum(examples, axis=0), charts.MOST_CELLS)
    kept = kept[np.isfinite(ratios[kept]).any(axis=1)]
    low = float(np.nanmin(ratios[kept]))
    high = float(np.nanmax(ratios[kept]))
    limit = min(max(high - 1, 1 - low, 0.01), 1.0)  # beyond it from 1 the colours do not change
    axes = style.page_axes(1.3 + min(max(0.16 * len(kept), 0.6), 3.6))
    names = [f"{one:.0f}" for one in rounds[shown]], [str(run.partitions[one]) for one in kept]
    image = charts.cells(axes, (ratios[kept] - 1) / limit, names, most=15)
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
    left_out = charts.left_out(kept, np.isfinite(weight).any(axis=0).sum(), "clients")
    caption = "Weight in the aggregation over the share of the data: blue less, orange more."
    return Picture(
        axes.figure, "Weights of the clients", " ".join([caption, left_out, *sentences]).strip()
    )
