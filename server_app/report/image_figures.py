"""The figures that runs on images alone have: accuracies, confusions, features, weights of the clients."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.directory.run_files import CALIBRATIONS, RunFiles
from curvfed.server_app.report import charts, labels, style, units
from curvfed.server_app.report.projection import project
from curvfed.server_app.report.templates import Picture
from curvfed.strategies.wire.messages import FINE_TUNE, TRAIN

Array = NDArray[np.float64]

MOST_TOLD = 3
"""Confusions that are put in words."""

MOST_NUMBERED = 12
"""Classes up to which a matrix has figures in its cells."""

ON_COLOUR = "#0e1317"
"""Text on a deep colour, on light paper and on dark."""

_LAYERS = 4
"""Parts that the dots are drawn in, so that no class covers all others."""


class Course(NamedTuple):
    """A column of `rounds.csv` in percent; single points have a marker."""

    label: str
    rounds: Array
    values: Array
    colour: str
    marker: str = ""


def accuracy(run: RunFiles) -> Picture | None:
    """The global model's accuracy and the personal ones' over the rounds, where there is anything but the latter."""
    rounds, test = run.by_client("test")
    personal = charts.row_means(charts.known(100 * test))
    scored = np.isfinite(personal)
    trained = Course("personal, after local training", rounds[scored], personal[scored], style.OTHER)
    told = [
        _course(run, "global", "global_accuracy", style.MEAN, TRAIN),
        trained,
        _course(run, "global, calibrated", "global_accuracy", style.MEAN, *CALIBRATIONS, marker="*"),
        _course(run, "personal, fine-tuned", "personal_accuracy_mean", style.OTHER, FINE_TUNE, marker="D"),
    ]
    told = [one for one in told if len(one.values)]
    if told in ([], [trained]) or max(len(one.values) for one in told) < 2:
        return None
    axes = style.page_axes(3.1)
    for one in told:
        _draw_course(axes, one)
    charts.over_rounds(axes, "accuracy (%)")
    labels.page_legend(axes)
    facts = {"courses": told, "global": any(one.colour == style.MEAN for one in told), "things": run.examples}
    return Picture(style.to_svg(axes, "accuracy"), "accuracy", facts)


def _course(run: RunFiles, label: str, column: str, colour: str, *phases: str, marker: str = "") -> Course:
    rounds, values = run.by_round(column, *phases)
    return Course(label, rounds, 100 * values, colour, marker)


def _draw_course(axes: Any, one: Course) -> None:
    from matplotlib.transforms import offset_copy

    if not one.marker:
        marks = {"marker": "o", "markersize": 3.5} if len(one.rounds) <= 12 else {}
        at = charts.evenly(len(one.rounds))
        axes.plot(one.rounds[at], one.values[at], color=one.colour, linewidth=2.0, label=one.label, **marks)
        return
    edge: dict[str, Any] = {"linestyle": "none", "markeredgecolor": style.PAPER, "markeredgewidth": 0.8, "zorder": 5}
    if one.marker == "*":  # a little later than the last round, as calibration is, and not on top of other points
        edge |= {"markersize": 12, "transform": offset_copy(axes.transData, axes.figure, x=8, units="points")}
    axes.update_datalim(np.column_stack([one.rounds, one.values]))
    axes.plot(one.rounds, one.values, one.marker, color=one.colour, label=one.label, clip_on=False, **edge)


def confusion(run: RunFiles) -> Picture | None:
    """True by predicted classes of the test images at the server, the most frequent classes where there are many."""
    test = run.global_test
    if test is None:
        return None
    names = _names(run, int(max(test.labels.max(), test.predicted.max())) + 1)
    total = len(names)
    kept = charts.largest(np.bincount(test.labels, minlength=total).astype(np.float64), charts.MOST_CELLS)
    place = np.full(total + 1, -1)  # the last for what is predicted as no class
    place[kept] = np.arange(len(kept))
    row, column = place[test.labels], place[test.predicted]
    there = row >= 0
    counts = np.zeros((len(kept), len(kept) + 1))
    np.add.at(counts, (row[there], column[there]), 1)  # a class that is not drawn is the last column too
    shown = [names[one] for one in kept]
    axes = style.page_axes(4.6)
    _draw_confusion(axes, counts, shown)
    facts = {
        "drawn": len(kept), "classes": total, "images": len(test.labels), "right": np.mean(test.labels == test.predicted),
        "worst": _worst(counts, shown), "numbered": len(kept) <= MOST_NUMBERED, "lost": int((test.predicted < 0).sum()),
        "calibrated": len(run.by_round("global_accuracy", *CALIBRATIONS)[0]) > 0,
    }  # fmt: skip
    return Picture(style.to_svg(axes, "confusion"), "confusion", facts)


def _draw_confusion(axes: Any, counts: Array, classes: list[str]) -> None:
    """Draw a matrix (C, C + 1) of true by predicted classes, shaded by the share of a row."""
    shares, size = (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))[:, :-1], len(classes)
    # Small shares are what is looked for, the more so where no figures tell them.
    shade = np.sqrt(shares) if size <= MOST_NUMBERED else np.cbrt(shares)
    charts.cells(axes, np.where(np.eye(size, dtype=bool), -1, 1) * shade, shares > 0, "equal")
    if size <= MOST_NUMBERED:
        for row, column in np.argwhere(shares > 0):
            colour = ON_COLOUR if shade[row, column] > 0.8 else style.INK
            centred = {"ha": "center", "va": "center", "fontsize": 7.5, "color": colour}
            axes.annotate(short_share(shares[row, column]), (column, row), **centred)
    charts.name_cells(axes, classes, classes, "predicted class", "true class")


def short_share(share: float) -> str:
    """Percent, with a decimal where it is small."""
    percent = 100 * share
    return f"{percent:.0f}" if percent >= 9.95 else "<.1" if percent < 0.05 else f"{percent:.1f}".lstrip("0")


def _worst(counts: Array, names: list[str]) -> list[tuple[str, str, float, float]]:
    """The most frequent confusions: the true class, the other one, how often, of how many."""
    wrong = counts[:, :-1] * ~np.eye(len(names), dtype=bool)
    places = np.argsort(-wrong, axis=None, kind="stable")[:MOST_TOLD]
    pairs = [divmod(int(place), len(names)) for place in places if wrong.flat[place]]
    return [(names[true], names[other], wrong[true, other], counts[true].sum()) for true, other in pairs]


def features(run: RunFiles) -> Picture | None:
    """Features of test images at the server in the plane, a dot per image and a star per prototype."""
    from matplotlib.patches import Circle

    test = run.global_test
    view = None if test is None else project(test)
    if test is None or view is None:
        return None
    of_dots = test.labels[view.kept]
    names = _names(run, int(of_dots.max()) + 1)
    few, colours = len(names) <= len(style.HUES), style.hues(len(names))
    axes = style.page_axes(5.2)
    for layer in range(_LAYERS):
        for number in np.unique(of_dots):
            points = view.points[of_dots == number][layer::_LAYERS]
            charts.dots(axes, points, colours[number], 2.6 if len(of_dots) > 800 else 3.6, clip_on=False)
    axes.update_datalim(view.points)
    stars = view.prototypes[: len(names)]
    if len(stars):
        size, edge = (130, 0.7) if few else (36, 0.4)
        style_of_stars = {"s": size, "linewidth": edge, "edgecolor": style.INK, "zorder": 5, "clip_on": False}
        axes.scatter(*stars.T, marker="*", color=colours[: len(stars)], **style_of_stars)
    if view.disc:
        axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=style.SOFT, linewidth=1.0))
        axes.set(xlim=(-1.02, 1.02), ylim=(-1.02, 1.02), aspect="equal")
    else:
        axes.set(xlabel=view.axes[0], ylabel=view.axes[1])
        axes.set_aspect("equal", "datalim")
        axes.margins(0.04)
    if not any(view.axes):
        axes.set_axis_off()
    _colour_key(axes, colours, names, bool(len(stars)))
    facts = {"images": len(of_dots), "classes": len(names), "how": view.how, "stars": len(stars)}
    return Picture(style.to_svg(axes, "features"), "features", facts)


def _colour_key(axes: Any, colours: Sequence[str], classes: list[str], starred: bool) -> None:
    """Which colour is which class; of many some from the first to the last."""
    from matplotlib.lines import Line2D

    some = (
        range(len(classes))
        if len(classes) <= len(style.HUES)
        else np.linspace(0, len(classes) - 1, 6).round().astype(int)
    )
    keys = [(Line2D([], [], marker="o", color=colours[one], linestyle="none", markersize=5),
             units.printable(classes[one])) for one in some]  # fmt: skip
    if starred:
        star = Line2D([], [], marker="*", color="none", markeredgecolor=style.INK, linestyle="none", markersize=10)
        keys.append((star, "prototype"))
    columns = max(80 // (max(len(text) for _, text in keys) + 6), 1)
    labels.page_legend(axes, keys, columns, handlelength=1.0, fontsize=8, handletextpad=0.5)


def _names(run: RunFiles, least: int) -> list[str]:
    """The names of the classes, at least so many: numbers where there are none."""
    return [*run.class_names, *map(str, range(len(run.class_names), least))]


def weights(run: RunFiles) -> Picture | None:
    """What the clients weighed in the aggregation of every round, where it was not their share of the data."""
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
    ratios = ratios[kept]
    low, high = float(np.nanmin(ratios)), float(np.nanmax(ratios))
    limit = min(max(high - 1, 1 - low, 0.01), 1.0)
    height = min(max(0.16 * len(kept), 0.6), 3.6)
    axes = style.page_axes(1.0 + height)
    charts.cells(axes, np.nan_to_num((ratios - 1) / limit), np.isfinite(ratios))
    _weights_key(axes.inset_axes((0.0, 1 + 0.12 / height, 0.4, 0.09 / height)), limit)
    clients = [str(run.partitions[one]) for one in kept]
    charts.name_cells(axes, [f"{one:.0f}" for one in rounds[shown]], clients, "round", "client", most=15)
    notes = Counter(note for note in run.rounds.get("aggregation_note", ()) if note)
    apart, ratio = (run.by_round(name, TRAIN)[1] for name in ("weights_l1", "norm_ratio"))
    facts = {
        "drawn": len(kept), "clients": int(np.isfinite(weight).any(axis=0).sum()), "scored": len(scored), "low": low,
        "high": high, "apart": float(apart.mean()) if len(apart) else None, "notes": dict(notes),
        "ratio": float(ratio.mean()) if len(ratio) else None, "rounds": run.rounds.get("phase", ()).count(TRAIN),
    }  # fmt: skip
    return Picture(style.to_svg(axes, "weights"), "weights", facts)


def _weights_key(axes: Any, limit: float) -> None:
    """Which colour is which ratio, above the map; beyond `limit` from 1 colours do not change."""
    charts.cells(axes, np.linspace(-1, 1, 65)[None], np.ones((1, 65), dtype=bool))
    most = f"{'≥ ' if limit == 1 else ''}{1 + limit:.2f}"
    axes.set_xticks([0, 32, 64], [f"{1 - limit:.2f}", "1", most], fontsize=8)
    axes.set(yticks=[])
    axes.xaxis.tick_top()
    words = "weight over share of the data"
    axes.annotate(words, (1.06, 0.5), xycoords="axes fraction", va="center", color=style.SOFT, fontsize=8)
