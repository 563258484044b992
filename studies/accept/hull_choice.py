"""Accuracies of `hull.classifier=auto` on made points and on Olsson, beside every classifier by
name.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from curvfed.strategies.hull.classifier import Classifier, accuracy, name_groups
from curvfed.strategies.hull.classifier_choice import KEYS, choose_classifier, train_classifier
from curvfed.strategies.hull.codec import DecodedHulls, PublicParameters
from curvfed.strategies.hull.grouped_hulls import GroupedHulls, outlying_clients, without_clients
from curvfed.strategies.hull.grouping import group_hulls
from curvfed.strategies.hull.local import local_hulls
from studies.accept.lab import Lab, Outcome, Table
from studies.accept.point_sets import HELD_OUT, SETS, Labelled, Split, olsson_split

SEEDS = range(10)
CAP = 8
BELOW_BEST = 1.5
"""Most points by which the mean of `auto` may lie below that of the best classifier."""
BELOW_DEPTH = 3.0
"""Most points by which `auto` may lie below `depth` with a single seed."""

NAMES = {
    "auto": "auto",
    "plane": "multinomial",
    "logistic": "logistic",
    "lorentz": "lorentz",
    "depth": "depth",
    "poincare": "svm",
}
"""By kind of classifier, its value of `hull.classifier`."""


def num_classes_of(parts: list[Labelled], test: Labelled) -> int:
    """The number of classes of a split."""
    return 1 + max(int(labels.max()) for _, labels in [*parts, test])


def decoded_hulls(parts: list[Labelled], num_classes: int) -> tuple[DecodedHulls, PublicParameters]:
    """The clients' quantised hulls as the server decodes them, without messages."""
    public = PublicParameters(
        -1.0, 0.999, 0.01, num_classes=num_classes, num_clients=len(parts), cap=CAP
    )
    clients = [[bins.tolist() for bins in local_hulls(*part, public).hulls] for part in parts]
    return DecodedHulls.of(clients), public


def accuracy_on(test: Labelled, classifier: Classifier, num_classes: int) -> float:
    """Accuracy in percent. The test points name the groups, as in a run."""
    points, labels = test
    predicted = classifier.predict(points)
    names = name_groups(predicted, labels, num_classes, num_classes)
    return 100 * (accuracy(predicted, labels, names) or 0.0)


def scores_of(split: Split, seed: int) -> dict[str, float]:
    """Accuracies in percent of every kind of classifier, and of `auto`."""
    logging.getLogger("curvfed").setLevel(logging.ERROR)
    parts, test = split(seed)
    classes = num_classes_of(parts, test)
    hulls, public = decoded_hulls(parts, classes)
    vertices = [public.quantizer.decode(bins) for bins in hulls.bins]
    groups = group_hulls(vertices, hulls.clients, classes, -1.0, "assignment", seed)
    bodies = GroupedHulls(vertices, groups, hulls.clients, -1.0)
    honest = without_clients(bodies, outlying_clients(bodies))
    classifiers = {"auto": choose_classifier(honest, 0.0, seed)[0]}
    classifiers |= {kind: train_classifier(bodies, kind, 0.0, False, seed) for kind in KEYS}
    return {kind: accuracy_on(test, each, classes) for kind, each in classifiers.items()}


def outcomes(sets: Mapping[str, Split]) -> Iterator[Outcome]:
    """A line for each set."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        started = {
            name: [pool.submit(scores_of, split, seed) for seed in SEEDS]
            for name, split in sets.items()
        }
        for name, futures in started.items():
            yield _outcome(name, [future.result() for future in futures])


def _outcome(name: str, results: list[dict[str, float]]) -> Outcome:
    means = {kind: float(np.mean([scores[kind] for scores in results])) for kind in NAMES}
    short = max(means[kind] for kind in KEYS) - means["auto"]
    below = max(scores["depth"] - scores["auto"] for scores in results)
    words = ", ".join(f"{NAMES[kind]} {mean:.1f}" for kind, mean in means.items())
    return Outcome(
        f"{name}, {len(SEEDS)} seeds: {words}",
        f"best minus auto <= {BELOW_BEST}; depth minus auto <= {BELOW_DEPTH:g} with every seed",
        f"{short:+.1f}; {below:+.1f}",
        short <= BELOW_BEST and below <= BELOW_DEPTH,
    )


def auto_choice(lab: Lab) -> Iterator[Outcome]:
    """Sets that the rule was made with, and Olsson."""
    olsson: dict[str, Split] = {
        f"Olsson, {clients} clients": partial(olsson_split, lab.data, clients=clients)
        for clients in (3, 10)
    }
    yield from outcomes({name: points.split for name, points in SETS.items()} | olsson)


def auto_held_out(lab: Lab) -> Iterator[Outcome]:
    """Sets that were first run when the rule was fixed."""
    yield from outcomes({name: points.split for name, points in HELD_OUT.items()})


TABLES: tuple[Table, ...] = (auto_choice, auto_held_out)
