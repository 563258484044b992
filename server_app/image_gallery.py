"""From the files of a run on images to the pictures that it alone has, each with a caption and in words."""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app import image_pictures as pictures
from curvfed.server_app.canvas import printable
from curvfed.server_app.image_pictures import Course
from curvfed.server_app.page import Html, amount, figure, number, percent
from curvfed.server_app.pictures import evenly, known, largest, row_means
from curvfed.server_app.projection import project
from curvfed.server_app.run_files import CALIBRATIONS, RunFiles
from curvfed.strategies.wire.messages import FINE_TUNE, TRAIN

Array = NDArray[np.float64]

MOST_TOLD = 3
"""Confusions that are put in words."""


def accuracy(run: RunFiles) -> Html | None:
    """The global model's accuracy and the personal ones' over the rounds, where there is anything but the latter."""
    rounds, test = run.by_client("test")
    personal = row_means(known(100 * test))
    scored = np.isfinite(personal)
    trained = Course("personal, after local training", rounds[scored], personal[scored], ours=False)
    told = [
        _course(run, "global", "global_accuracy", TRAIN),
        trained,
        _course(run, "global, calibrated", "global_accuracy", *CALIBRATIONS, marker="*"),
        _course(run, "personal, fine-tuned", "personal_accuracy_mean", FINE_TUNE, marker="D"),
    ]
    told = [one for one in told if len(one.values)]
    if told in ([], [trained]) or max(len(one.values) for one in told) < 2:
        return None
    alt = f"Line chart of accuracy by round. {' '.join(map(_in_words, told))}"
    picture = pictures.courses("accuracy", told, "accuracy (%)", alt)
    caption = f"mean over the clients of the accuracy of personal models on their own test {run.examples}."
    if any(one.ours for one in told):
        return figure(picture, f"Accuracy of the global model on the server's test images, and {caption}")
    return figure(picture, f"{caption[0].upper()}{caption[1:]}")


def _course(run: RunFiles, label: str, column: str, *phases: str, marker: str = "") -> Course:
    """A column of `rounds.csv` in percent."""
    rounds, values = run.by_round(column, *phases)
    return Course(label, rounds, 100 * values, column.startswith("global"), marker)


def _in_words(course: Course) -> str:
    start, end = (f"{course.values[at]:.2f}% in round {course.rounds[at]:.0f}" for at in (0, -1))
    ends = end if len(course.values) == 1 else f"from {start} to {end}"
    return f"{course.label[0].upper()}{course.label[1:]}: {ends}."


def confusion(run: RunFiles) -> Html | None:
    """True by predicted classes of the test images at the server, the most frequent classes where there are many."""
    test = run.global_test
    if test is None:
        return None
    names = _names(run, int(max(test.labels.max(), test.predicted.max())) + 1)
    total = len(names)
    kept = largest(np.bincount(test.labels, minlength=total).astype(np.float64), pictures.MOST_CELLS)
    place = np.full(total + 1, -1)  # the last for what is predicted as no class
    place[kept] = np.arange(len(kept))
    row, column = place[test.labels], place[test.predicted]
    column, row = np.where(column < 0, len(kept), column)[row >= 0], row[row >= 0]
    counts = np.zeros((len(kept), len(kept) + 1))
    np.add.at(counts, (row, column), 1)
    shown = [names[one] for one in kept]
    right = percent(float(np.mean(test.labels == test.predicted)))
    worst = _worst(counts, shown)
    alt = (
        f"Matrix of {len(kept)} true by {len(kept)} predicted classes: {right} of "
        f"{amount(len(test.labels), 'image')} are on the diagonal. {worst}"
    )
    caption = "Of the test images of a class, a row, the share predicted as each class: blue rightly, orange wrongly"
    caption += ", in percent." if len(kept) <= pictures.MOST_NUMBERED else ", deeper the more."
    if len(kept) < total:
        caption += f" Drawn are the {len(kept)} most frequent of {total:,} classes."
    if len(run.by_round("global_accuracy", *CALIBRATIONS)[0]):
        caption += " The classifier is the calibrated one."
    if lost := int((test.predicted < 0).sum()):
        caption += f" For {amount(lost, 'image')} the model's output is not finite."
    return figure(pictures.confusion("confusion", counts, shown, alt), f"{caption} {worst}")


def _worst(counts: Array, names: list[str]) -> str:
    """The most frequent confusions in a sentence."""
    wrong = counts[:, :-1] * ~np.eye(len(names), dtype=bool)
    order = [place for place in np.argsort(-wrong, axis=None, kind="stable")[:MOST_TOLD] if wrong.flat[place]]
    if not order:
        return "No class is taken for another."
    pairs = [(*np.unravel_index(place, wrong.shape), wrong.flat[place]) for place in order]
    told = [
        f"{printable(names[true])} is taken for {printable(names[other])} ({count:.0f} of {counts[true].sum():,.0f})"
        for true, other, count in pairs
    ]
    return f"Most often {', then '.join(told)}."


def features(run: RunFiles) -> Html | None:
    """Features of test images at the server in the plane, with the prototypes."""
    test = run.global_test
    view = None if test is None else project(test)
    if test is None or view is None:
        return None
    labels = test.labels[view.kept]
    names = _names(run, int(labels.max()) + 1)
    stars = " The stars are the prototypes." if len(view.prototypes) else ""
    alt = f"Scatter plot of the features of {amount(len(labels), 'test image')} of {len(names)} classes. {view.how}.{stars}"
    picture = pictures.features("features", view, labels, names, alt)
    return figure(picture, f"Features of {amount(len(labels), 'test image')}, coloured by class. {view.how}.{stars}")


def _names(run: RunFiles, least: int) -> list[str]:
    """The names of the classes, at least so many: numbers where there are none."""
    return [*run.class_names, *map(str, range(len(run.class_names), least))]


def weights(run: RunFiles) -> Html | None:
    """What the clients weighed in the aggregation of every round, where it was not their share of the data."""
    rounds, weight = run.by_client("weight", TRAIN)
    examples = run.by_client("num_examples", TRAIN)[1]
    examples = np.where(np.isfinite(weight) & (examples > 0), examples, np.nan)
    scored = np.flatnonzero(np.isfinite(examples).any(axis=1))
    if not len(scored):
        return None
    shown = scored[evenly(len(scored))]
    ratios = (weight * np.nansum(examples, axis=1, keepdims=True) / examples)[shown].T
    kept = largest(np.nansum(examples, axis=0), pictures.MOST_CELLS)
    kept = kept[np.isfinite(ratios[kept]).any(axis=1)]
    ratios = ratios[kept]
    low, high = float(np.nanmin(ratios)), float(np.nanmax(ratios))
    limit = min(max(high - 1, 1 - low, 0.01), 1.0)
    alt = (
        f"Map of {amount(len(kept), 'client')} by {amount(len(scored), 'round')}: a client's weight in the aggregation is "
        f"{low:.2f} to {high:.2f} times its share of the training data."
    )
    picture = pictures.weights("weights", rounds[shown], [str(run.partitions[one]) for one in kept], ratios, limit, alt)
    return figure(picture, _weights_caption(run, len(kept), int(np.isfinite(weight).any(axis=0).sum())))


def _weights_caption(run: RunFiles, drawn: int, clients: int) -> str:
    caption = "What a client weighed in the aggregation of a round, over its share of the data: blue less, orange more"
    caption += f" (drawn are the {drawn:,} largest of {clients:,} clients)." if drawn < clients else "."
    apart, ratio = (run.by_round(name, TRAIN)[1] for name in ("weights_l1", "norm_ratio"))
    if len(apart):
        caption += (
            f" The weights lie {percent(float(apart.mean()))} from the shares in L1, in the mean over the rounds."
        )
    if len(ratio):
        caption += (
            f" The ratio of norms, of the aggregate's step to the average's, is {number(float(ratio.mean()), 3)}."
        )
    notes = Counter(note for note in run.rounds.get("aggregation_note", ()) if note)
    total = amount(run.rounds.get("phase", ()).count(TRAIN), "round")
    return caption + "".join(f" In {count} of {total} {note}." for note, count in notes.items())
