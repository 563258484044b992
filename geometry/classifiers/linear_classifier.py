"""The common base of the linear classifiers of points in the disc and in the plane, and checks of
their arguments."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

_LARGEST = 1e12  # for a larger C, float64 cannot tell the soft margin from the hard one


class LinearClassifier(ABC):
    """A classifier with scores that are linear in features of the points, with scikit-learn's
    interface.

    Parameters
    ----------
    C : float > 0
        Cost of the loss, at most 1e12; `math.inf` is the hard margin.
    curvature : float ≤ 0
        Curvature of the disc; 0 is the plane.

    Attributes
    ----------
    classes_ : array (J,)
        The labels in ascending order.
    normals_ : array (m, 2), float64
        For two classes m = 1, and the score is positive for the second class; for more classes m =
        J.

    Raises
    ------
    ValueError
        If C is out of its range.
    """

    classes_: NDArray[Any]
    normals_: Array

    def __init__(self, C: float, curvature: float = 0.0) -> None:
        self.C = checked_cost(C)
        self.curvature = curvature

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on points (n, 2) with labels (n,).

        Raises
        ------
        ValueError
            If the points are not of shape (n, 2), not finite or not inside the disc; if there are
            not n labels, or fewer than two classes. Without given reference points also as
            `hull.convex_hull`, near the boundary.
        NotSeparableError
            If C is inf and a class cannot be separated from the rest.
        """
        return next(self.fit_each(X, y, [self.C]))

    def fit_each(self, X: ArrayLike, y: ArrayLike, grid: Sequence[float]) -> Iterator[Self]:
        """Train as `fit`, with every C of a grid in turn. What does not depend on C is computed
        once."""
        points = checked_points(X, self.curvature)
        self.classes_, labels = checked_labels(y, len(points))
        train = self._prepared(points, labels)
        for cost in grid:
            self.C = checked_cost(cost)
            train()
            yield self

    def decision_function(self, X: ArrayLike) -> Array:
        """Scores (n,) for two classes, (n, J) for more."""
        scores = self._scores(checked_points(X, self.curvature))
        return scores[0] if len(scores) == 1 else scores.T

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Labels (n,): by the sign of the score for two classes, else the most probable class, or
        the first of these."""
        scores = self._scores(checked_points(X, self.curvature))
        winners = (
            (scores[0] > 0).astype(np.intp)
            if len(scores) == 1
            else self._logs(scores).argmax(axis=0)
        )
        return np.asarray(self.classes_[winners])

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities (n, J). Those of an SVM are Platt's, for more than two classes divided by
        their sum.

        For two classes the more probable class of an SVM need not be the one that the sign of the
        score predicts.
        """
        logs = self._logs(self._scores(checked_points(X, self.curvature)))
        shares = np.exp(logs - logs.max(axis=0))
        return np.ascontiguousarray((shares / shares.sum(axis=0)).T)

    @abstractmethod
    def _prepared(self, points: Array, labels: Indices) -> Callable[[], None]:
        """A function that trains with the current C on points (n, 2) and class indices (n,)."""

    @abstractmethod
    def _scores(self, points: Array) -> Array:
        """Scores (m, n)."""

    @abstractmethod
    def _logs(self, scores: Array) -> Array:
        """Logarithms (J, n) of the classes' probabilities, up to a constant for each point, from
        scores (m, n)."""


def checked_points(X: ArrayLike, curvature: float = 0.0) -> Array:
    """Points (n, 2) in float64, or ValueError if they are not finite or not inside the disc;
    curvature 0 is the plane."""
    points = np.ascontiguousarray(X, np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"points of shape {points.shape}; it must be (n, 2)")
    if not np.isfinite(points).all():
        raise ValueError("points are not finite")
    if curvature and not (np.square(points).sum(axis=1) * -curvature < 1).all():
        raise ValueError(
            f"points are not inside the disc of curvature {curvature}, of radius 1/√|curvature|"
        )
    return points


def checked_labels(y: ArrayLike, num: int) -> tuple[NDArray[Any], Indices]:
    """Classes (J,) in ascending order, and each point's class index (num,). Raise ValueError if the
    labels are wrong."""
    names = np.asarray(y)
    if names.shape != (num,):
        raise ValueError(f"labels of shape {names.shape} for {num} points; it must be ({num},)")
    if (names != names).any():
        raise ValueError(
            f"labels: {int((names != names).sum())} of {num} are NaN; every point needs a label"
        )
    classes, labels = np.unique(names, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"points of {len(classes)} classes; a classifier needs at least two")
    return classes, labels


def checked_cost(C: float) -> float:
    """C, or ValueError if it is out of its range."""
    if not (C > 0 and (C <= _LARGEST or math.isinf(C))):
        raise ValueError(
            f"C is {C}; it must be > 0 and at most {_LARGEST:g}, or inf for the hard margin"
        )
    return float(C)


def checked_curvature(curvature: float) -> float:
    """The curvature, or ValueError if it is not negative and finite."""
    if not -math.inf < curvature < 0:
        raise ValueError(f"curvature {curvature}; it must be negative and finite")
    return float(curvature)
