"""Baselines of the federated hyperbolic SVM (Section 6.1 and Appendix I.3)."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.hull import convex_hull
from curvfed.strategies.hull.classifier import Classifier, Kind
from curvfed.strategies.hull.learn import Learned, Settings

Points = NDArray[np.float64]
Labels = NDArray[np.int64]

FEDERATED = "fle"
"""The Euclidean SVM on the hulls that the clients sent."""

CENTRALISED: dict[str, tuple[Kind, bool]] = {
    "cp": ("poincare", False),
    "ce": ("euclidean", False),
    "ch-cp": ("poincare", True),
    "ch-ce": ("euclidean", True),
    "logistic": ("logistic", False),
    "multinomial": ("plane", False),
}
"""Classifiers of all pooled training points: the kind, and whether they see only the hulls of the
classes."""

NAMES = (FEDERATED, *CENTRALISED)


def chosen(names: str) -> tuple[str, ...]:
    """The baselines that the key `hull.baselines` names, each once."""
    if names == "all":
        return NAMES
    return tuple(dict.fromkeys(one for one in names.split(",") if one in NAMES))


def federated(learned: Learned, curvature: float, settings: Settings) -> Classifier:
    """The Euclidean SVM on the same hulls. It predicts the same groups."""
    groups = learned.per_vertex(learned.groups)
    return Classifier.train(
        learned.points,
        groups,
        curvature,
        settings.c,
        settings.hard,
        settings.seed,
        kind="euclidean",
    )


def centralised(
    name: str, points: Points, labels: Labels, curvature: float, settings: Settings
) -> Callable[[Points], Labels]:
    """Train one of `CENTRALISED`. The result maps points to classes."""
    kind, on_hulls = CENTRALISED[name]
    if on_hulls:
        kept = hull_vertices(points, labels, curvature)
        points = points[kept]
        labels = labels[kept]
    if kind in ("logistic", "plane"):  # its C is not that of an SVM, and it has no hard margin
        return Classifier.train(points, labels, curvature, 0.0, False, settings.seed, kind).predict
    return Classifier.train(
        points, labels, curvature, settings.c, settings.hard, settings.seed, kind
    ).predict


def hull_vertices(points: Points, labels: Labels, curvature: float) -> NDArray[np.intp]:
    """Indices of the vertices of every class's hull."""
    members = [np.flatnonzero(labels == one) for one in np.unique(labels)]
    return np.concatenate([mine[convex_hull(points[mine], curvature)] for mine in members])
