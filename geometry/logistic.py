"""Logistic regression on the tangent plane at the origin, a baseline without reference points."""

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from curvfed.geometry import poincare
from curvfed.geometry.newton import minimise
from curvfed.geometry.one_vs_rest import checked_cost, checked_curvature, checked_labels, checked_points

Array = NDArray[np.float64]

_TOLERANCE = 1e-12
_PENALISED = np.array([1.0, 1.0, 0.0])  # the intercept is not


class Log0Logistic:
    """Logistic regression on log0(x), with intercept; multinomial for more than two classes.

    Parameters
    ----------
    curvature : float < 0
    C : float > 0
        Cost of the cross-entropy against half the squared norm of the normals.

    Attributes
    ----------
    classes_ : array (J,)
        The labels in ascending order.
    normals_ : array (m, 2), float64
        m = 1 for two classes, then the score is positive for the second; else m = J.
    intercepts_ : array (m,), float64
        For more than two classes their sum is 0.

    Raises
    ------
    ValueError
        If the curvature is not negative, or C not > 0 and finite.
    """

    classes_: NDArray[Any]
    normals_: Array
    intercepts_: Array

    def __init__(self, curvature: float, C: float) -> None:
        self.curvature = checked_curvature(curvature)
        if np.isinf(C):
            raise ValueError("logistic regression has no hard margin; give a finite C")
        self.C = checked_cost(C)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on points (n, 2) with labels (n,).

        Raises
        ------
        ValueError
            If the points are not of shape (n, 2), not finite or not inside the disc; if there are not n labels, or fewer
            than two classes.
        """
        features = self._features(X)
        self.classes_, labels = checked_labels(y, len(features))
        num = len(self.classes_)
        lines = 1 if num == 2 else num
        targets = np.eye(num)[labels]
        rows = np.column_stack([features, np.ones(len(features))])
        tolerance = _TOLERANCE * self.C * np.linalg.norm(rows, axis=1).sum(keepdims=True)
        data = (rows[None], targets[None], np.array([self.C]))
        found = minimise(_cross_entropy, np.zeros((1, 3 * lines)), data, tolerance).reshape(lines, 3)
        if lines > 1:
            found[:, 2] -= found[:, 2].mean()  # which of all that serve equally the ridge of the search decided
        self.normals_, self.intercepts_ = found[:, :2].copy(), found[:, 2].copy()
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """Scores (n,) for two classes, (n, J) for more."""
        scores: Array = self._features(X) @ self.normals_.T + self.intercepts_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Labels (n,): the most probable, the first of equals."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities (n, J)."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities: Array = shares / shares.sum(axis=1, keepdims=True)
        return probabilities

    def _features(self, X: ArrayLike) -> Array:
        features: Array = poincare.log0(torch.from_numpy(checked_points(X, self.curvature)), self.curvature).numpy()
        return features


def _cross_entropy(lines: Array, rows: Array, targets: Array, cost: Array) -> tuple[Array, Array, Array]:
    """Half the squared norm of the normals plus the cost of the cross-entropy, with gradient and Hessian.

    Lines (b, 3m), rows (b, n, 3), targets (b, n, J), cost (b,). A single line is the second class's, the score of the
    first is 0 then.
    """
    b, n, num = targets.shape
    weights = lines.reshape(b, -1, 3)
    m = weights.shape[1]
    scores = np.zeros((b, n, num))
    scores[..., num - m :] = rows @ weights.mT
    scores -= scores.max(axis=-1, keepdims=True)
    logs = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    shares = np.exp(logs)[..., num - m :]
    penalised = _PENALISED * weights
    value = 0.5 * (penalised * weights).sum(axis=(1, 2)) - cost * (targets * logs).sum(axis=(1, 2))
    residual = shares - targets[..., num - m :]
    gradient = penalised + cost[:, None, None] * (residual.mT @ rows)
    spread = (shares[..., None] * rows[..., None, :]).reshape(b, n, 3 * m)
    hessian = (-cost[:, None, None] * (spread.mT @ spread)).reshape(b, m, 3, m, 3)
    own = cost[:, None, None, None] * np.einsum("bnj,bnd,bne->bjde", shares, rows, rows, optimize=True)
    line = np.arange(m)
    hessian[:, line, :, line] += (own + np.diag(_PENALISED)).swapaxes(0, 1)
    return value, gradient.reshape(b, -1), hessian.reshape(b, 3 * m, 3 * m)
