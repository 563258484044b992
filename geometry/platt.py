"""Platt scaling: probabilities from a classifier's scores, for many classifiers at once."""

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.newton import minimise

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_TOLERANCE = 1e-12  # of the gradient, for each score


def fit_platt(scores: Array, positive: Mask, kept: Mask) -> Array:
    """A and B of P(positive | score) = 1/(1 + exp(A·score + B)), by maximum likelihood.

    The targets are (N₊ + 1)/(N₊ + 2) and 1/(N₋ + 2) instead of 1 and 0, so that A and B are finite for scores that
    separate the sides.

    Parameters
    ----------
    scores : array (b, n), float64
    positive : array (b, n), bool
    kept : array (b, n), bool
        What to fit to.

    Returns
    -------
    array (b, 2), float64
        A and B. A is negative where higher scores speak for the positive side, and 0 where all scores are 0.

    Notes
    -----
    Platt, Probabilistic outputs for support vector machines (1999), by the Newton method of Lin, Lin & Weng, A note on
    Platt's probabilistic outputs for support vector machines (2007).
    """
    above = (positive & kept).sum(axis=1, keepdims=True)
    below = (~positive & kept).sum(axis=1, keepdims=True)
    targets = np.where(positive, (above + 1) / (above + 2), 1 / (below + 2))
    # In units of the largest score the problem is well-conditioned, whatever C made of the scores.
    unit = np.abs(np.where(kept, scores, 0)).max(axis=1, keepdims=True, initial=0)
    unit[unit == 0] = 1
    start = np.concatenate([np.zeros(above.shape), np.log((below + 1) / (above + 1))], axis=1)
    weight = kept.astype(np.float64)
    found = minimise(_cross_entropy, start, (scores / unit, targets, weight), _TOLERANCE * weight.sum(axis=1))
    found[:, :1] /= unit
    return found


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
        Finite also where the probability is 0 in float64.
    """
    logs: Array = -np.logaddexp(0, platt[..., :1] * scores + platt[..., 1:])
    return logs


def _cross_entropy(platt: Array, scores: Array, targets: Array, weight: Array) -> tuple[Array, Array, Array]:
    exponent = platt[:, :1] * scores + platt[:, 1:]
    small = np.exp(-np.abs(exponent))
    # −t log p − (1 − t) log(1 − p) with p = 1/(1 + eˢ) is t·s + log(1 + e⁻ˢ).
    entropy = targets * exponent + np.log1p(small) + np.maximum(-exponent, 0)
    probability = np.where(exponent > 0, small, 1) / (1 + small)
    residual = weight * (targets - probability)
    curvature = weight * small / (1 + small) ** 2
    gradient = np.stack([(residual * scores).sum(axis=1), residual.sum(axis=1)], axis=1)
    mixed = (curvature * scores).sum(axis=1)
    hessian = np.stack([(curvature * scores**2).sum(axis=1), mixed, mixed, curvature.sum(axis=1)], axis=1)
    return (weight * entropy).sum(axis=1), gradient, hessian.reshape(-1, 2, 2)
