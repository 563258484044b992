"""Which classifier is trained on the clients' hulls, and how sure it is: both by hulls of clients
that were left out."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby, product
from operator import itemgetter

import numpy as np
from scipy.optimize import minimize_scalar

from curvfed.geometry.classifiers.cross_validation import GRID
from curvfed.geometry.hull import points_within
from curvfed.strategies.hull.bodies import Array, Bodies, Booleans, Integers
from curvfed.strategies.hull.classifier import Classifier, Kind
from curvfed.strategies.hull.depth import MedianDepth
from curvfed.strategies.hull.outlines import Outlines

log = logging.getLogger("curvfed")

Model = tuple[Kind, float]
"""A kind of classifier and its C."""

FOLDS = 5
MANY = 4000
"""Corners above which the SVM is left out of the choice: with every C and fold it would take
minutes."""

DRAWN = 40
DRAWN_IN_ALL = 4000
"""Points drawn within a hull, and within all hulls together; in each hull one at least."""

COSTS = tuple(10.0**power for power in range(-1, 4))
"""C of the multinomial models among which `hull.classifier=auto` chooses. A larger one follows
single corners, which are the outliers of their class."""

DEPTH: Model = ("depth", np.inf)

CANDIDATES: tuple[Kind, ...] = ("depth", "plane", "logistic", "lorentz", "poincare")
"""Kinds in the order in which the first of equally good ones is taken; "depth" alone has no C."""


@dataclass(frozen=True)
class Choice:
    """A kind of classifier and how it does on points drawn within left-out hulls.

    Attributes
    ----------
    kind : Kind
    c : float
    share : float
        Share of the points that it puts in their group.
    """

    kind: Kind
    c: float
    share: float


@dataclass(frozen=True)
class Comparison:
    """The kinds of classifiers, the chosen one first, and the share of the drawn points on which
    they do not all agree."""

    choices: tuple[Choice, ...] = ()
    disagreement: float = 0.0


def folds(bodies: Bodies) -> Iterator[Booleans]:
    """Whose hulls (h,) are left out in turn: each client's once, with those of a fifth of all. Some
    groups must remain two.

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
        return Classifier(
            kind,
            bodies.curvature,
            MedianDepth().fit(bodies.vertices, bodies.groups, bodies.curvature),
        )
    classifier = Classifier.train(
        bodies.points, bodies.labels, bodies.curvature, c, hard, seed, kind
    )
    if not c and classifier.c in (GRID[0], GRID[-1]):
        at_edge(classifier.c, GRID)
    return classifier


def at_edge(c: float, grid: tuple[float, ...]) -> None:
    """Say that the best C is the first or the last one tried."""
    log.warning(
        "C = %g is at the edge of the values tried, %g to %g: a better one may lie beyond; hull.c"
        " sets it",
        c,
        grid[0],
        grid[-1],
    )


def draw_points(bodies: Bodies, seed: int) -> tuple[Array, Integers]:
    """Points (n, 2) as test points could be, equally many within each hull, and the number (n,) of
    their hull."""
    rng = np.random.default_rng(seed)
    num = max(1, min(DRAWN, DRAWN_IN_ALL // len(bodies.vertices)))
    points = [points_within(corners, bodies.curvature, num, rng) for corners in bodies.vertices]
    return np.concatenate(points), np.repeat(np.arange(len(points)), num)


def predictions(
    bodies: Bodies, points: Array, hull_of: Integers, c: float, seed: int
) -> dict[Model, Integers]:
    """Groups (n,) of points drawn within hulls by every kind and C, trained without the clients of
    the points' hulls.

    A group is -1 if the other clients have hulls of a single group.
    """
    kinds = CANDIDATES[1:-1] if len(bodies.points) > MANY else CANDIDATES[1:]
    models: list[Model] = [DEPTH, *product(kinds, (c,) if c else COSTS)]
    groups = {model: np.full(len(points), -1) for model in models}
    for hidden in folds(bodies):
        others = bodies.where(~hidden)
        is_hidden = hidden[hull_of]
        for (kind, cost), predicted in groups.items():
            predicted[is_hidden] = trained(others, kind, cost, False, seed).predict(
                points[is_hidden]
            )
    return groups


def rank(groups: Mapping[Model, Integers], labels: Integers, clients: Integers) -> Comparison:
    """Compare kinds, each with its best C, by the predictions (n,) for points of known groups and
    clients, (n,) each.

    The best kind comes first, but "depth", which has no C to fit, if it is worse by no more than
    the standard error.
    """
    right = {model: (predicted == labels).astype(float) for model, predicted in groups.items()}
    shares = {model: float(values.mean()) for model, values in right.items()}
    best = []
    for _, of_kind in groupby(groups, key=itemgetter(0)):
        models = list(of_kind)
        most = max(shares[model] for model in models)
        level = [model for model in models if shares[model] == most]
        best.append(level[(len(level) - 1) // 2])
    best.sort(key=lambda model: -shares[model])
    if shares[best[0]] - shares[DEPTH] <= _standard_error(right[best[0]] - right[DEPTH], clients):
        best.sort(key=lambda model: model != DEPTH)
    answers = np.stack([groups[model] for model in best])
    choices = tuple(Choice(*model, shares[model]) for model in best)
    return Comparison(choices, float((answers != answers[0]).any(axis=0).mean()))


def _standard_error(values: Array, clients: Integers) -> float:
    """Standard error of the mean of values (n,), where those of one client (n,) go together."""
    _, numbers = np.unique(clients, return_inverse=True)
    sums = np.bincount(numbers, values - values.mean())
    return float(np.sqrt(np.square(sums).sum() * len(sums) / max(len(sums) - 1, 1)) / len(values))


def compare(bodies: Bodies, c: float, seed: int) -> Comparison:
    """`rank` the kinds on points drawn within hulls; nothing is compared if no client can be left
    out."""
    points, hull_of = draw_points(bodies, seed)
    groups = predictions(bodies, points, hull_of, c, seed)
    is_left_out = groups[DEPTH] >= 0
    if not is_left_out.any():
        return Comparison()
    hulls = hull_of[is_left_out]
    left_out = {model: predicted[is_left_out] for model, predicted in groups.items()}
    return rank(left_out, bodies.groups[hulls], bodies.clients[hulls])


def choose(bodies: Bodies, c: float, seed: int) -> tuple[Classifier, Comparison]:
    """The first of `compare`, trained on all hulls; the median depth, which needs no fit, if
    nothing is compared."""
    comparison = compare(bodies, c, seed)
    for choice in comparison.choices:
        log.info(
            "hull.classifier = auto: %s puts %.1f%% of the points within hulls of left-out clients"
            " in their group (C = %g)",
            choice.kind,
            100 * choice.share,
            choice.c,
        )
    kind, cost = (
        (comparison.choices[0].kind, comparison.choices[0].c) if comparison.choices else DEPTH
    )
    return trained(bodies, kind, cost, False, seed), comparison


def calibrated(classifier: Classifier, bodies: Bodies, hard: bool, seed: int) -> Classifier:
    """The classifier with a temperature and outlines, by corners of left-out clients.

    The temperature is where left-out corners have the largest likelihood (Guo et al., 2017); 1
    where no client can be left out. Corners are the least sure points of a class, so that points
    inside are surer.
    """
    logs = []
    for hidden in folds(bodies):
        out = hidden[bodies.hull_of]
        try:
            model = trained(bodies.where(~hidden), classifier.kind, classifier.c, hard, seed)
        except ValueError:  # what is left cannot be separated by a hard margin
            continue
        columns = np.searchsorted(model.groups, bodies.labels[out])
        known = model.groups[np.minimum(columns, len(model.groups) - 1)] == bodies.labels[out]
        chances = np.log(np.maximum(model.probabilities(bodies.points[out][known]), 1e-300))
        logs.append(
            (chances - chances[np.arange(len(chances)), columns[known], None])
            if len(chances)
            else chances
        )
    classifier = replace(classifier, outlines=Outlines.of(bodies))
    if not logs:
        return classifier

    def loss(exponent: float) -> float:
        """Mean negative log likelihood at a temperature."""
        return sum(float(np.logaddexp.reduce(one / np.exp(exponent), axis=1).sum()) for one in logs)

    found = minimize_scalar(loss, bounds=(np.log(1e-3), np.log(30)), method="bounded")
    return replace(classifier, temperature=float(np.exp(found.x)))
