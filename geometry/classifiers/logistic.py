"""Logistic regression in the tangent plane at the origin: a baseline without reference points."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from curvfed.geometry import poincare
from curvfed.geometry.classifiers.linear_classifier import Indices, LinearClassifier, checked_curvature

Array = NDArray[np.float64]

_TOLERANCE = 1e-10  # for the gradient, per point
_STEPS = 1000


class Log0Logistic(LinearClassifier):
    """Logistic regression on log0(x) with intercept, by scikit-learn; multinomial for more than two classes.

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

        tangents = self._tangents(points)

        def train() -> None:
            model = LogisticRegression(C=self.C, solver="newton-cholesky", tol=_TOLERANCE, max_iter=_STEPS)
            model.fit(tangents, labels)
            self.normals_, self.intercepts_ = np.ascontiguousarray(model.coef_), model.intercept_

        return train

    def _scores(self, points: Array) -> Array:
        scores: Array = self.normals_ @ self._tangents(points).T + self.intercepts_[:, None]
        return scores

    def _logs(self, scores: Array) -> Array:
        return np.concatenate([np.zeros_like(scores), scores]) if len(scores) == 1 else scores

    def _tangents(self, points: Array) -> Array:
        tangents: Array = poincare.log0(torch.from_numpy(points), self.curvature).numpy()
        return tangents
