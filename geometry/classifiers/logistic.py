"""Multinomial logistic regression on coordinates of the disc: on x and y, on log0, and on Lorentz
coordinates."""

import warnings
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from curvfed.geometry import poincare
from curvfed.geometry.classifiers.linear_classifier import (
    Indices,
    LinearClassifier,
    checked_curvature,
)

Array = NDArray[np.float64]

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

    intercepts_: Array

    def __init__(self, curvature: float, C: float) -> None:
        super().__init__(C, checked_curvature(curvature))
        if np.isinf(C):
            raise ValueError("logistic regression has no hard margin; give a finite C")

    def _prepared(self, points: Array, labels: Indices) -> Callable[[], None]:
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

    def _scores(self, points: Array) -> Array:
        return self.normals_ @ self._features(points).T + self.intercepts_[:, None]

    def _logs(self, scores: Array) -> Array:
        return np.concatenate([np.zeros_like(scores), scores]) if len(scores) == 1 else scores

    def _features(self, points: Array) -> Array:
        return poincare.log0(torch.from_numpy(points), self.curvature).numpy()


class PlaneLogistic(Log0Logistic):
    """As `Log0Logistic`, on the points' own coordinates x and y."""

    def _features(self, points: Array) -> Array:
        return points


class LorentzLogistic(Log0Logistic):
    """As `Log0Logistic`, on Lorentz coordinates, time first, in units of the disc's radius;
    `normals_` is (m, 3).

    A point at Poincaré norm r, in the same units, has time (1 + r²)/(1 - r²) and space 2x/(1 - r²).
    """

    def _features(self, points: Array) -> Array:
        unit = points * np.sqrt(-self.curvature)
        squares = np.square(unit).sum(axis=1, keepdims=True)
        return np.asarray(np.concatenate([1 + squares, 2 * unit], axis=1) / (1 - squares))


class QuadraticLogistic(Log0Logistic):
    """As `Log0Logistic`, on log0 = (u, v) and u², uv, v²; `normals_` is (m, 5). Quadratic
    discriminants have this form."""

    def _features(self, points: Array) -> Array:
        tangents = super()._features(points)
        u, v = tangents.T
        return np.concatenate([tangents, np.stack([u * u, u * v, v * v], axis=1)], axis=1)
