"""Linear classifiers of points in the ball: one interface, multinomial logistic regression, and the
cost by cross-validation."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike

from curvfed.geometry import poincare
from curvfed.geometry.arrays import Array, Booleans, Floats, Indices

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

    classes_: Array
    normals_: Floats

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
        """Train as `fit`, with every C of a grid in turn. Values independent of C are computed
        once."""
        points = checked_points(X, self.curvature)
        self.classes_, labels = checked_labels(y, len(points))
        train = self._prepared(points, labels)
        for cost in grid:
            self.C = checked_cost(cost)
            train()
            yield self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Scores (n,) for two classes, (n, J) for more."""
        scores = self._scores(checked_points(X, self.curvature))
        return scores[0] if len(scores) == 1 else scores.T

    def predict(self, X: ArrayLike) -> Array:
        """Labels (n,): by the sign of the score for two classes, else the most probable class, or
        the first of these."""
        scores = self._scores(checked_points(X, self.curvature))
        if len(scores) == 1:
            winners = (scores[0] > 0).astype(np.intp)
        else:
            winners = self._logs(scores).argmax(axis=0)
        return self.classes_[winners]

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probabilities (n, J). Those of an SVM are Platt's, for more than two classes divided by
        their sum.

        For two classes the more probable class of an SVM need not be the one that the sign of the
        score predicts.
        """
        logs = self._logs(self._scores(checked_points(X, self.curvature)))
        shares = np.exp(logs - logs.max(axis=0))
        return np.ascontiguousarray((shares / shares.sum(axis=0)).T)

    @abstractmethod
    def _prepared(self, points: Floats, labels: Indices) -> Callable[[], None]:
        """A function that trains with the current C on points (n, 2) and class indices (n,)."""

    @abstractmethod
    def _scores(self, points: Floats) -> Floats:
        """Scores (m, n)."""

    @abstractmethod
    def _logs(self, scores: Floats) -> Floats:
        """Logarithms (J, n) of the classes' probabilities, up to a constant for each point, from
        scores (m, n)."""


def checked_points(X: ArrayLike, curvature: float = 0.0) -> Floats:
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


def checked_labels(y: ArrayLike, num: int) -> tuple[Array, Indices]:
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


_TOLERANCE = 1e-10  # for the gradient, per point
_STEPS = 1000


class Log0Logistic(LinearClassifier):
    """Logistic regression on log0(x) with intercept, by scikit-learn; multinomial for more than two
    classes.

    `PlaneLogistic` and `LorentzLogistic` are the same on other coordinates.

    Parameters
    ----------
    curvature : float < 0
    C : float > 0
        Weight of the cross-entropy relative to half the squared norm of the normals, at most 1e12.

    Attributes
    ----------
    intercepts_ : array (m,), float64
        For more than two classes they sum to 0.

    Raises
    ------
    ValueError
        If the curvature is not negative, or C not > 0 and finite.
    """

    intercepts_: Floats

    def __init__(self, curvature: float, C: float) -> None:
        super().__init__(C, checked_curvature(curvature))
        if np.isinf(C):
            raise ValueError("logistic regression has no hard margin; give a finite C")

    def _prepared(self, points: Floats, labels: Indices) -> Callable[[], None]:
        from sklearn.linear_model import LogisticRegression

        features = self._features(points)

        def train() -> None:
            model = LogisticRegression(
                C=self.C, solver="newton-cholesky", tol=_TOLERANCE, max_iter=_STEPS
            )
            # where float64 gives no smaller gradient, the model is as good as it gets
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(features, labels)
            self.normals_ = np.ascontiguousarray(model.coef_)
            self.intercepts_ = model.intercept_

        return train

    def _scores(self, points: Floats) -> Floats:
        return self.normals_ @ self._features(points).T + self.intercepts_[:, None]

    def _logs(self, scores: Floats) -> Floats:
        if len(scores) == 1:
            return np.concatenate([np.zeros_like(scores), scores])
        return scores

    def _features(self, points: Floats) -> Floats:
        return poincare.log0(torch.from_numpy(points), self.curvature).numpy()


class PlaneLogistic(Log0Logistic):
    """`Log0Logistic` on the points' own coordinates x and y."""

    def _features(self, points: Floats) -> Floats:
        return points


class LorentzLogistic(Log0Logistic):
    """`Log0Logistic` on Lorentz coordinates, time first, in units of the disc's radius; `normals_`
    is (m, 3).

    A point at Poincaré norm r, in the same units, has time (1 + r²)/(1 - r²) and space 2x/(1 - r²).
    """

    def _features(self, points: Floats) -> Floats:
        unit = points * np.sqrt(-self.curvature)
        squares = np.square(unit).sum(axis=1, keepdims=True)
        return np.concatenate([1 + squares, 2 * unit], axis=1) / (1 - squares)


class QuadraticLogistic(Log0Logistic):
    """`Log0Logistic` on log0 = (u, v) and u², uv, v²; `normals_` is (m, 5). Quadratic discriminants
    have this form."""

    def _features(self, points: Floats) -> Floats:
        tangents = super()._features(points)
        u, v = tangents.T
        products = np.stack([u * u, u * v, v * v], axis=1)
        return np.concatenate([tangents, products], axis=1)


GRID = tuple(10.0**power for power in range(-2, 6))
FOLDS = 5


def best_c(
    make: Callable[[float], LinearClassifier],
    X: ArrayLike,
    y: ArrayLike,
    grid: Sequence[float] = GRID,
    folds: int = FOLDS,
    seed: int = 0,
) -> float:
    """The C that classifies the most held-out points correctly.

    Parameters
    ----------
    make : callable
        Makes a classifier with a given C.
    X : array (n, d)
    y : array (n,)
    grid : sequence of floats, > 0 and finite
    folds : int ≥ 2
        See `stratified_folds`.
    seed : int

    Returns
    -------
    float
        Of equally good values the middle one in ascending order, or the smaller of the two middle
        ones. The middle of a range in which C does not matter is furthest from values that are
        worse.

    Raises
    ------
    ValueError
        If the grid is empty, a value is not > 0 and finite, or folds < 2; also as `fit`.
    """
    costs = sorted(float(cost) for cost in grid)
    if not costs or not (costs[0] > 0 and math.isfinite(costs[-1])):
        raise ValueError("a grid of C must have values, > 0 and finite")
    points = np.asarray(X)
    labels = np.asarray(y)
    training_masks = stratified_folds(labels, folds, seed)
    right = np.zeros(len(costs), int)
    for fold in training_masks:
        if not fold.all():
            shown = points[fold]
            hidden = points[~fold]
            hidden_labels = labels[~fold]
            models = make(costs[0]).fit_each(shown, labels[fold], costs)
            right += [np.count_nonzero(model.predict(hidden) == hidden_labels) for model in models]
    best = np.flatnonzero(right == right.max())
    return costs[int(best[(best.size - 1) // 2])]


def stratified_folds(y: ArrayLike, folds: int, seed: int) -> Booleans:
    """Masks of the training points of each fold; each fold holds out an equal share of each class.

    Parameters
    ----------
    y : array (n,)
    folds : int ≥ 2
    seed : int

    Returns
    -------
    array (folds, n), bool
        Every point is held out of one fold. The numbers of held-out points, in total and of each
        class, differ by at most one between folds. The only member of a class is never held out, so
        that every fold has all classes.

    Raises
    ------
    ValueError
        If folds < 2.
    """
    if folds < 2:
        raise ValueError(f"{folds} folds; there must be at least 2")
    labels = np.asarray(y)
    rng = np.random.default_rng(seed)
    training = np.ones((folds, labels.size), bool)
    num_assigned = 0
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        if members.size > 1:
            training[(num_assigned + np.arange(members.size)) % folds, members] = False
            num_assigned += members.size
    return training
