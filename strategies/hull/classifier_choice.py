"""The choice of the classifier on the clients' hulls, and its calibration, both by hulls of
left-out clients."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby, product
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from curvfed.geometry.arrays import Booleans, Floats, Integers
from curvfed.geometry.hull import points_within
from curvfed.geometry.linear_classifiers import GRID
from curvfed.strategies.hull.classifier import Classifier, Kind, cost_words
from curvfed.strategies.hull.depth import MedianDepth
from curvfed.strategies.hull.grouped_hulls import GroupedHulls, Outlines
from curvfed.strategies.run_log import log

Model = tuple[Kind, float]
"""A kind of classifier and its C."""

FOLDS = 5
MANY = 4000
"""Number of corners above which the choice omits the SVM: with every C and fold it takes
minutes."""

DRAWN = 40
DRAWN_IN_ALL = 4000
"""Maximum number of points drawn within a hull, and within all hulls together; at least one in each
hull."""

COSTS = tuple(10.0**power for power in range(-1, 4))
"""Values of C for the multinomial models of `hull.classifier=auto`. A larger C follows single
corners, which are the outliers of their class."""

DEPTH: Model = ("depth", np.inf)

KEYS: Mapping[Kind, str] = {
    "depth": "depth",
    "plane": "multinomial",
    "logistic": "logistic",
    "lorentz": "lorentz",
    "poincare": "svm",
}
"""The kinds and their values of `hull.classifier`. The first of equally good kinds is taken. Only
"depth" lacks C."""


def kind_of(classifier: str, svm: str, auto: Any) -> Any:
    """The kind for values of `hull.classifier` and `hull.svm`; `auto` for the automatic choice."""
    if svm == "hinge":
        return "hinge"
    return {key: kind for kind, key in KEYS.items()}.get(classifier, auto)


def key_of(kind: Kind) -> str:
    """The value of `hull.classifier` for a kind; "hinge", a value of `hull.svm`, as it is."""
    return KEYS.get(kind, kind)


@dataclass(frozen=True)
class Choice:
    """A kind of classifier with its accuracy on points drawn within left-out hulls.

    Attributes
    ----------
    kind : Kind
    c : float
    share : float
        Share of the points that it assigns to their group.
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


def folds(bodies: GroupedHulls) -> Iterator[Booleans]:
    """The hulls (h,) that are left out in turn: those of a fifth of the clients, each client once.
    At least two groups remain.

    Clients are anonymous and sorted by their hulls, so that the folds depend only on the hulls.
    """
    _, numbers = np.unique(bodies.clients, return_inverse=True)
    for fold in range(min(FOLDS, int(numbers.max()) + 1)):
        hidden = numbers % FOLDS == fold
        if len(np.unique(bodies.groups[~hidden])) > 1:
            yield hidden


def train_classifier(
    bodies: GroupedHulls, kind: Kind, c: float, hard: bool, seed: int
) -> Classifier:
    """A classifier of one kind on all hulls. Raises as `Classifier.train`."""
    curvature = bodies.curvature
    if kind == "depth":
        model = MedianDepth().fit(bodies.vertices, bodies.groups, curvature)
        return Classifier(kind, curvature, model)
    classifier = Classifier.train(
        bodies.points, bodies.labels, curvature, c=c, hard=hard, seed=seed, kind=kind
    )
    if not c and classifier.c in (GRID[0], GRID[-1]):
        log.warning(
            "C = %g is at the edge of the grid, %g to %g: a better value may lie beyond; set it by"
            " hull.c",
            classifier.c,
            GRID[0],
            GRID[-1],
        )
    return classifier


def draw_points(bodies: GroupedHulls, seed: int) -> tuple[Floats, Integers]:
    """Points (n, 2) drawn like test points, the same number within each hull, and the number (n,)
    of their hull."""
    rng = np.random.default_rng(seed)
    num = max(1, min(DRAWN, DRAWN_IN_ALL // len(bodies.vertices)))
    points = [points_within(corners, bodies.curvature, num, rng) for corners in bodies.vertices]
    return np.concatenate(points), np.repeat(np.arange(len(points)), num)


def predictions(
    bodies: GroupedHulls, points: Floats, hull_of: Integers, c: float, seed: int
) -> dict[Model, Integers]:
    """Groups (n,) that each kind and C predicts for points drawn within hulls, trained without the
    clients of these hulls.

    A group is -1 if the other clients have hulls of only one group.
    """
    if len(bodies.points) > MANY:
        kinds = list(KEYS)[1:-1]
    else:
        kinds = list(KEYS)[1:]
    models: list[Model] = [DEPTH, *product(kinds, (c,) if c else COSTS)]
    groups = {model: np.full(len(points), -1) for model in models}
    for hidden in folds(bodies):
        remaining = bodies.where(~hidden)
        is_hidden = hidden[hull_of]
        for (kind, cost), predicted in groups.items():
            predicted[is_hidden] = train_classifier(remaining, kind, cost, False, seed).predict(
                points[is_hidden]
            )
    return groups


def rank(groups: Mapping[Model, Integers], labels: Integers, clients: Integers) -> Comparison:
    """Compare kinds, each with its best C, by the predictions (n,) for points with known groups and
    clients, (n,) each.

    The best kind comes first, or "depth", which needs no C, if it is within one standard error of
    the best.
    """
    right = {model: (predicted == labels).astype(float) for model, predicted in groups.items()}
    shares = {model: float(values.mean()) for model, values in right.items()}
    best = []
    for _, candidates in groupby(groups, key=itemgetter(0)):
        models = list(candidates)
        best_share = max(shares[model] for model in models)
        equal = [model for model in models if shares[model] == best_share]
        best.append(equal[(len(equal) - 1) // 2])
    best.sort(key=lambda model: -shares[model])
    if shares[best[0]] - shares[DEPTH] <= _standard_error(right[best[0]] - right[DEPTH], clients):
        best.sort(key=lambda model: model != DEPTH)
    answers = np.stack([groups[model] for model in best])
    choices = tuple(Choice(*model, shares[model]) for model in best)
    return Comparison(choices, float((answers != answers[0]).any(axis=0).mean()))


def _standard_error(values: Floats, clients: Integers) -> float:
    """Standard error of the mean of values (n,), clustered by their clients (n,)."""
    _, numbers = np.unique(clients, return_inverse=True)
    sums = np.bincount(numbers, values - values.mean())
    variance = np.square(sums).sum() * len(sums) / max(len(sums) - 1, 1)
    return float(np.sqrt(variance) / len(values))


def compare_kinds(bodies: GroupedHulls, c: float, seed: int) -> Comparison:
    """`rank` the kinds on points drawn within hulls; empty if no client can be left out."""
    points, hull_of = draw_points(bodies, seed)
    groups = predictions(bodies, points, hull_of, c, seed)
    is_left_out = groups[DEPTH] >= 0
    if not is_left_out.any():
        return Comparison()
    hulls = hull_of[is_left_out]
    left_out = {model: predicted[is_left_out] for model, predicted in groups.items()}
    return rank(left_out, bodies.groups[hulls], bodies.clients[hulls])


def choose_classifier(bodies: GroupedHulls, c: float, seed: int) -> tuple[Classifier, Comparison]:
    """The best kind of `compare_kinds`, trained on all hulls; the median depth without a
    comparison."""
    comparison = compare_kinds(bodies, c, seed)
    for choice in comparison.choices:
        log.info(
            "hull.classifier = auto: %s classifies %.1f%% of the points within left-out hulls"
            " correctly%s",
            KEYS[choice.kind],
            100 * choice.share,
            cost_words(choice.kind, choice.c),
        )
    kind, cost = DEPTH
    if comparison.choices:
        kind = comparison.choices[0].kind
        cost = comparison.choices[0].c
    return train_classifier(bodies, kind, cost, False, seed), comparison


def calibrate(classifier: Classifier, bodies: GroupedHulls, hard: bool, seed: int) -> Classifier:
    """The classifier with a temperature and outlines, by corners of left-out clients.

    The temperature maximises the likelihood of left-out corners (Guo et al., 2017); it is 1 if no
    client can be left out. Corners are the least certain points of a class; points inside are more
    certain.
    """
    logs = []
    for hidden in folds(bodies):
        is_hidden = hidden[bodies.hull_of]
        try:
            model = train_classifier(
                bodies.where(~hidden), classifier.kind, classifier.c, hard, seed
            )
        except ValueError:  # a hard margin cannot separate the other hulls
            continue
        columns = np.searchsorted(model.groups, bodies.labels[is_hidden])
        is_covered = (
            model.groups[np.minimum(columns, len(model.groups) - 1)] == bodies.labels[is_hidden]
        )
        covered_points = bodies.points[is_hidden][is_covered]
        chances = np.log(np.maximum(model.probabilities(covered_points), 1e-300))
        if len(chances):
            chances = chances - chances[np.arange(len(chances)), columns[is_covered], None]
        logs.append(chances)
    classifier = replace(classifier, outlines=Outlines.of(bodies))
    if not logs:
        return classifier

    def loss(exponent: float) -> float:
        """Negative log likelihood at a temperature."""
        temperature = np.exp(exponent)
        terms = [np.logaddexp.reduce(log_odds / temperature, axis=1).sum() for log_odds in logs]
        return sum(map(float, terms))

    optimum = minimize_scalar(loss, bounds=(np.log(1e-3), np.log(30)), method="bounded")
    return replace(classifier, temperature=float(np.exp(optimum.x)))
