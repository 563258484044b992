"""Platt scaling: probabilities from the scores of classifiers, for many classifiers at once."""

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.classifiers.newton import minimise

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_TOLERANCE = 1e-12  # for the gradient, per score


def fit_platt(scores: Array, positive: Mask) -> Array:
    """A and B of P(positive | score) = 1/(1 + exp(A·score + B)), by maximum likelihood.

    The targets are (N₊ + 1)/(N₊ + 2) and 1/(N₋ + 2) instead of 1 and 0, so that A and B are finite
    even if the scores separate the sides.

    Parameters
    ----------
    scores : array (b, n), float64
    positive : array (b, n), bool

    Returns
    -------
    array (b, 2), float64
        A and B. A is negative if higher scores indicate the positive side, and 0 if all scores are
        0.

    Notes
    -----
    Platt, Probabilistic outputs for support vector machines (1999), by the Newton method of Lin,
    Lin & Weng, A note on Platt's probabilistic outputs for support vector machines (2007).
    """
    above = positive.sum(axis=1, keepdims=True)
    below = (~positive).sum(axis=1, keepdims=True)
    targets = np.where(positive, (above + 1) / (above + 2), 1 / (below + 2))
    # In units of the largest score the problem is well-conditioned, whatever the scale of the
    # scores.
    unit = np.abs(scores).max(axis=1, keepdims=True, initial=0)
    unit[unit == 0] = 1
    scaled = scores / unit

    def cross_entropy(platt: Array) -> tuple[Array, Array, Array]:
        exponent = platt[:, :1] * scaled + platt[:, 1:]
        # −t log p − (1 − t) log(1 − p) with p = 1/(1 + eˢ) is t·s + log(1 + e⁻ˢ).
        entropy = targets * exponent + np.logaddexp(0, -exponent)
        small = np.exp(-np.abs(exponent))
        residual = targets - np.where(exponent > 0, small, 1) / (1 + small)
        curvature = small / (1 + small) ** 2
        rows = np.stack([scaled, np.ones_like(scaled)], axis=1)
        gradient = (rows @ residual[..., None])[..., 0]
        return entropy.sum(axis=1), gradient, (rows * curvature[:, None]) @ rows.mT

    start = np.concatenate([np.zeros(above.shape), np.log((below + 1) / (above + 1))], axis=1)
    minimum = minimise(cross_entropy, start, np.full(len(scores), _TOLERANCE * scores.shape[1]))
    return np.asarray(minimum / np.concatenate([unit, np.ones_like(unit)], axis=1))


def log_platt(scores: Array, platt: Array) -> Array:
    """log P(positive | score).

    Parameters
    ----------
    scores : array (..., n), float64
    platt : array (..., 2), float64
        As `fit_platt` returns them.

    Returns
    -------
    array (..., n), float64
        Finite even if the probability underflows to 0 in float64.
    """
    return -np.logaddexp(0, platt[..., :1] * scores + platt[..., 1:])
