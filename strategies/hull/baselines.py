"""What the federated hyperbolic SVM (FLP) is compared with (Section 6.1 and Appendix I.3)."""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.hull import convex_hull
from curvfed.strategies.hull.classifier import Classifier
from curvfed.strategies.hull.learn import Learned, Settings

Points = NDArray[np.float64]
Labels = NDArray[np.int64]
Kind = Literal["poincare", "euclidean", "logistic"]

FEDERATED = "fle"
"""The Euclidean SVM on the hulls that the clients sent."""

CENTRALISED: dict[str, tuple[Kind, bool]] = {
    "cp": ("poincare", False),
    "ce": ("euclidean", False),
    "ch-cp": ("poincare", True),
    "ch-ce": ("euclidean", True),
    "logistic": ("logistic", False),
}
"""Of all training points in one place: kind of classifier, and whether on the classes' hulls alone."""

NAMES = (FEDERATED, *CENTRALISED)


def chosen(names: str) -> tuple[str, ...]:
    """Those that the key `hull.baselines` names."""
    return {"none": (), "all": NAMES}.get(names) or tuple(
        dict.fromkeys(one for one in names.split(",") if one in NAMES)
    )


def federated(learned: Learned, curvature: float, settings: Settings) -> Classifier:
    """FLE: predicts the same groups."""
    return Classifier.train(
        learned.points, learned.groups, curvature, settings.c, settings.hard, settings.seed, kind="euclidean"
    )


def centralised(
    name: str, points: Points, labels: Labels, curvature: float, settings: Settings
) -> Callable[[Points], Labels]:
    """One of `CENTRALISED`, trained: from points to classes."""
    kind, on_hulls = CENTRALISED[name]
    if on_hulls:
        kept = hull_vertices(points, labels, curvature)
        points, labels = points[kept], labels[kept]
    logistic = kind == "logistic"  # whose C is not that of an SVM
    hard, c = settings.hard and not logistic, 0.0 if logistic else settings.c
    return Classifier.train(points, labels, curvature, c, hard, settings.seed, kind=kind).predict


def hull_vertices(points: Points, labels: Labels, curvature: float) -> NDArray[np.intp]:
    """Indices of the extreme points of every class."""
    parts: Sequence[NDArray[np.intp]] = [
        (mine := np.flatnonzero(labels == one))[convex_hull(points[mine], curvature)] for one in np.unique(labels)
    ]
    return np.concatenate(parts)
