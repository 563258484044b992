"""Linear classifiers on features of points, one class against the rest: what the machines in disc and plane share."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curvfed.geometry.margin import NotSeparableError, hard_margin
from curvfed.geometry.platt import fit_platt, log_platt
from curvfed.geometry.squared_hinge import soft_margin

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]

_LARGEST = 1e12  # C from which on float64 cannot tell it from the hard margin
_BLOCK = 2**21  # points times classifiers that are trained at once


class _Trained(NamedTuple):
    """f one-vs-rest classifiers: references (f, m, 2), coefficients (f, m, d), platt (f, m, 2), scores (f, m, n)."""

    references: Array
    coefficients: Array
    platt: Array
    scores: Array


class OneVsRest(ABC):
    """Linear classifiers on features of points, one for each class against the rest; a single one for two classes.

    Parameters
    ----------
    C : float > 0
        Cost of the squared hinge, at most 1e12; `math.inf` is the hard margin.

    Attributes
    ----------
    classes_ : array (J,)
        The labels in ascending order.
    normals_ : array (m, 2), float64
        m = 1 for two classes, then the score is positive for the second; else m = J.
    platt_ : array (m, 2), float64
        As `platt.fit_platt` returns it, fitted to the training data.

    Raises
    ------
    ValueError
        If C is out of its range.
    """

    classes_: NDArray[Any]
    normals_: Array
    platt_: Array

    def __init__(self, C: float) -> None:
        self.C = checked_cost(C)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on points (n, 2) with labels (n,).

        Raises
        ------
        ValueError
            If the points are not of shape (n, 2), not finite or, in the disc, not inside it; if there are not n labels,
            or fewer than two classes; without given reference points also as `hull.convex_hull`, near the boundary.
        NotSeparableError
            If C is inf and a class cannot be separated from the rest.
        """
        points = self._checked(X)
        self.classes_, labels = checked_labels(y, len(points))
        sides = _sides(labels, len(self.classes_))
        everything = np.ones((1, len(points)), bool)
        candidates = self._candidates(points, sides, everything)
        trained = self._train(self._features(points, candidates), candidates, sides, everything, self.C)
        self._store(trained.coefficients[0], trained.references[0])
        self.platt_ = trained.platt[0]
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """Scores (n,) for two classes, (n, J) for more."""
        scores = self._scores(X)
        return scores[0] if len(scores) == 1 else scores.T

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Labels (n,): by the sign of the score for two classes, else the most probable, the first of equals."""
        labels: NDArray[Any] = self.classes_[_winners(self._scores(X), self.platt_)]
        return labels

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities (n, J): Platt's, for more than two classes divided by their sum.

        For two classes the higher one may be on another side than the sign of the score.
        """
        scores = self._scores(X)
        logs = log_platt(scores, self.platt_)
        if len(logs) == 1:
            logs = np.concatenate([log_platt(scores, -self.platt_), logs])
        shares = np.exp(logs - logs.max(axis=0))
        return np.ascontiguousarray((shares / shares.sum(axis=0)).T)

    def held_out(self, X: ArrayLike, y: ArrayLike, kept: Mask, grid: Sequence[float]) -> NDArray[np.int64]:
        """How many of the points held out are classified rightly, for every C of a grid in place of the own.

        Parameters
        ----------
        X : array (n, 2)
        y : array (n,)
        kept : array (f, n), bool
            What is trained on in each fold.
        grid : sequence of g floats

        Returns
        -------
        array (g, f), int64
            As by `fit` to what is kept and `predict` of the others, but all folds at once.

        Raises
        ------
        ValueError
            As `fit`, and if a fold keeps nothing of a class.
        """
        points = self._checked(X)
        classes, labels = checked_labels(y, len(points))
        sides = _sides(labels, len(classes))
        if not all(np.isin(np.arange(len(classes)), labels[fold]).all() for fold in kept):
            raise ValueError("a fold keeps nothing of a class")
        blocks = np.array_split(kept, min(len(kept), 1 + kept.size * len(sides) // _BLOCK))
        return np.hstack([self._right(points, labels, sides, block, grid) for block in blocks])

    def _right(
        self, points: Array, labels: Indices, sides: Mask, kept: Mask, grid: Sequence[float]
    ) -> NDArray[np.int64]:
        candidates = self._candidates(points, sides, kept)
        features = self._features(points, candidates)
        counts = []
        for cost in grid:
            trained = self._train(features, candidates, sides, kept, checked_cost(cost))
            right = _winners(trained.scores, trained.platt) == labels
            counts.append(np.count_nonzero(right & ~kept, axis=1))
        return np.array(counts)

    def _train(self, features: Array, candidates: Array, sides: Mask, kept: Mask, cost: float) -> _Trained:
        """For f folds at once, with the candidate of best accuracy on what is kept, the first of equals."""
        f, m, k, d, n = features.shape
        shown = np.broadcast_to(kept[:, None, None], (f, m, k, n))
        products = np.where(sides, 1, -1)[:, None, None] * features
        coefficients = _separate(products.reshape(-1, d, n), shown.reshape(-1, n), cost).reshape(f, m, k, d)
        scores = (coefficients[..., None, :] @ features)[..., 0, :]
        right = ((scores > 0) == sides[:, None]) & shown
        best = np.count_nonzero(right, axis=-1).argmax(axis=-1)[..., None, None]
        references, coefficients, scores = (
            np.take_along_axis(tried, best, axis=2)[:, :, 0] for tried in (candidates, coefficients, scores)
        )
        if math.isinf(cost) and not coefficients.any(axis=-1).all():
            raise NotSeparableError("C = inf, but a class cannot be separated from the rest; give a finite C")
        platt = fit_platt(scores.reshape(f * m, n), np.tile(sides, (f, 1)), np.repeat(kept, m, axis=0))
        return _Trained(references, coefficients, platt.reshape(f, m, 2), scores)

    @abstractmethod
    def _checked(self, X: ArrayLike) -> Array:
        """The points (n, 2), or ValueError."""

    @abstractmethod
    def _candidates(self, points: Array, sides: Mask, kept: Mask) -> Array:
        """Reference points (f, m, k, 2) to try, the likeliest first, from points (n, 2), sides (m, n), kept (f, n)."""

    @abstractmethod
    def _features(self, points: Array, references: Array) -> Array:
        """Features (..., d, n) of points (n, 2) for reference points (..., 2)."""

    @abstractmethod
    def _store(self, coefficients: Array, references: Array) -> None:
        """Keep coefficients (m, d) and reference points (m, 2) as attributes."""

    @abstractmethod
    def _scores(self, X: ArrayLike) -> Array:
        """Scores (m, n) of the trained classifier."""


def checked_points(X: ArrayLike, curvature: float | None = None) -> Array:
    """Points (n, 2) in float64, finite and inside the disc of a curvature, or ValueError."""
    points = np.ascontiguousarray(X, np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"points of shape {points.shape}; it must be (n, 2)")
    if not np.isfinite(points).all():
        raise ValueError("points that are not finite")
    if curvature is not None and not (np.square(points).sum(axis=1) * -curvature < 1).all():
        raise ValueError(f"points that are not inside the disc of curvature {curvature}, of radius 1/√|curvature|")
    return points


def checked_labels(y: ArrayLike, num: int) -> tuple[NDArray[Any], Indices]:
    """Classes (J,) in ascending order and the index (num,) of each point's, or ValueError."""
    given = np.asarray(y)
    if given.shape != (num,):
        raise ValueError(f"labels of shape {given.shape} for {num} points; it must be ({num},)")
    classes, labels = np.unique(given, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"points of {len(classes)} classes; a classifier wants at least two")
    return classes, labels


def checked_cost(C: float) -> float:
    """C if in its range, or ValueError."""
    if not (C > 0 and (C <= _LARGEST or math.isinf(C))):
        raise ValueError(f"C is {C}; it must be > 0 and at most {_LARGEST:g}, or inf for the hard margin")
    return float(C)


def checked_curvature(curvature: float) -> float:
    """The curvature if negative and finite, or ValueError."""
    if not -math.inf < curvature < 0:
        raise ValueError(f"curvature {curvature}; it must be negative and finite")
    return float(curvature)


def _sides(labels: Indices, num: int) -> Mask:
    """What is on the positive side of each classifier, (m, n)."""
    positive: Mask = labels == np.arange(1 if num == 2 else 0, num)[:, None]
    return positive


def _separate(products: Array, kept: Mask, cost: float) -> Array:
    """Coefficients (b, d) for signed features (b, d, n); 0 where a hard margin does not exist."""
    if math.isfinite(cost):
        return soft_margin(products, np.where(kept, cost, 0.0))
    coefficients = np.zeros(products.shape[:2])
    for row, (vectors, columns) in enumerate(zip(products, kept)):
        try:
            coefficients[row] = hard_margin(vectors[:, columns].T)
        except NotSeparableError:
            continue
    return coefficients


def _winners(scores: Array, platt: Array) -> Indices:
    """Indices of classes (..., n) by scores (..., m, n)."""
    if scores.shape[-2] == 1:
        return (scores[..., 0, :] > 0).astype(np.intp)
    winners: Indices = log_platt(scores, platt).argmax(axis=-2)
    return winners
