"""Which classifier is trained on the clients' hulls, and how sure it is: both by hulls of clients that were left out."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar

from curvfed.geometry.classifiers.cross_validation import GRID
from curvfed.strategies.hull.bodies import Bodies, Booleans
from curvfed.strategies.hull.classifier import Classifier, Kind
from curvfed.strategies.hull.depth import MedianDepth
from curvfed.strategies.hull.outlines import Outlines

log = logging.getLogger("curvfed")

FOLDS = 5
MANY = 4000
"""Corners above which the SVM is left out of the choice: with every C and fold it would take minutes."""

COSTS = tuple(10.0**power for power in range(-1, 6))
"""C of the multinomial models among which `hull.classifier=auto` chooses."""

CANDIDATES: tuple[Kind, ...] = ("plane", "logistic", "lorentz", "depth", "poincare")
"""Kinds in the order in which the first of equally good ones is taken."""


@dataclass(frozen=True)
class Choice:
    """A kind of classifier, its C, and the share of left-out corners that it puts in their group."""

    kind: Kind
    c: float
    share: float


def folds(bodies: Bodies) -> Iterator[Booleans]:
    """Whose hulls (h,) are left out in turn: each client's once, with those of a fifth of all. Some groups must remain two.

    Clients are anonymous and sorted by their hulls, so that the folds depend on the hulls alone.
    """
    _, numbers = np.unique(bodies.clients, return_inverse=True)
    for fold in range(min(FOLDS, int(numbers.max()) + 1)):
        hidden = numbers % FOLDS == fold
        if len(np.unique(bodies.groups[~hidden])) > 1:
            yield hidden


def trained(bodies: Bodies, kind: Kind, c: float, hard: bool, seed: int) -> Classifier:
    """A classifier of one kind on all hulls. Raises as `Classifier.train`."""
    if kind == "depth":
        return Classifier(kind, bodies.curvature, MedianDepth().fit(bodies.vertices, bodies.groups, bodies.curvature))
    classifier = Classifier.train(bodies.points, bodies.labels, bodies.curvature, c, hard, seed, kind)
    if not c and classifier.c in (GRID[0], GRID[-1]):
        at_edge(classifier.c, GRID)
    return classifier


def at_edge(c: float, grid: tuple[float, ...]) -> None:
    """Say that the best C is the first or the last one tried."""
    log.warning("C = %g is at the edge of the values tried, %g to %g: a better one may lie beyond; hull.c sets it",
                c, grid[0], grid[-1])  # fmt: skip


def choices(bodies: Bodies, seed: int) -> list[Choice]:
    """How well each kind, with its best C, puts the corners of left-out clients in their groups; the best one first."""
    groups, count = np.unique(bodies.groups), 0
    right: dict[tuple[Kind, float], int] = {}
    for hidden in folds(bodies):
        kept, out = bodies.where(~hidden), hidden[bodies.hull_of]
        points, wanted = bodies.points[out], bodies.labels[out]
        count += len(points)
        for kind in CANDIDATES:
            if kind == "depth":
                found = {np.inf: groups[bodies.depths_without(hidden).argmax(axis=1)]}
            elif kind == "poincare" and len(bodies.points) > MANY:
                continue
            else:
                found = {c: trained(kept, kind, c, False, seed).predict(points) for c in COSTS}
            for c, predicted in found.items():
                right[kind, c] = right.get((kind, c), 0) + int((predicted == wanted).sum())
    best = {}
    for kind in dict.fromkeys(kind for kind, _ in right):
        costs = [c for one, c in right if one == kind]
        most = max(right[kind, c] for c in costs)
        level = [c for c in costs if right[kind, c] == most]
        best[kind] = Choice(kind, level[(len(level) - 1) // 2], most / count)
    return sorted(best.values(), key=lambda one: -one.share)


def chosen(bodies: Bodies, seed: int) -> tuple[Classifier, list[Choice]]:
    """The best of all kinds; the median depth, which nothing needs to be fitted for, where no client can be left out."""
    ordered = choices(bodies, seed)
    for one in ordered:
        log.info("hull.classifier = auto: %s puts %.1f%% of the corners of left-out clients in their group (C = %g)",
                 one.kind, 100 * one.share, one.c)  # fmt: skip
    first = ordered[0] if ordered else Choice("depth", np.inf, 0.0)
    if first.c in (COSTS[0], COSTS[-1]):
        at_edge(first.c, COSTS)
    return trained(bodies, first.kind, first.c if np.isfinite(first.c) else 0.0, False, seed), ordered


def calibrated(classifier: Classifier, bodies: Bodies, hard: bool, seed: int) -> Classifier:
    """The classifier with a temperature and outlines, by corners of left-out clients.

    The temperature is where left-out corners have the largest likelihood (Guo et al., 2017); 1 where no client can be left
    out. Corners are the least sure points of a class, so that points inside are surer.
    """
    logs = []
    for hidden in folds(bodies):
        out = hidden[bodies.hull_of]
        try:
            c = classifier.c if np.isfinite(classifier.c) else 0.0
            model = trained(bodies.where(~hidden), classifier.kind, c, hard, seed)
        except ValueError:  # what is left cannot be separated by a hard margin
            continue
        columns = np.searchsorted(model.groups, bodies.labels[out])
        known = model.groups[np.minimum(columns, len(model.groups) - 1)] == bodies.labels[out]
        chances = np.log(np.maximum(model.probabilities(bodies.points[out][known]), 1e-300))
        logs.append((chances - chances[np.arange(len(chances)), columns[known], None]) if len(chances) else chances)
    classifier = replace(classifier, outlines=Outlines.of(bodies))
    if not logs:
        return classifier

    def loss(exponent: float) -> float:
        """Mean negative log likelihood at a temperature."""
        return sum(float(np.logaddexp.reduce(one / np.exp(exponent), axis=1).sum()) for one in logs)

    found = minimize_scalar(loss, bounds=(np.log(1e-3), np.log(30)), method="bounded")
    return replace(classifier, temperature=float(np.exp(found.x)))
