"""Margins of linear classifiers, soft and hard; their calibration by Platt; and Newton's method for
many convex functions of few variables at once, which both use."""

import contextlib
from collections.abc import Callable

import numpy as np

from curvfed.geometry.arrays import Booleans, Floats

Function = Callable[[Floats], tuple[Floats, Floats, Floats]]
"""Maps x (b, d) to values (b,), gradients (b, d) and Hessians (b, d, d), positive semi-definite and
not 0."""

_STEPS = 200  # 3 to 20 are usual
_ARMIJO = 1e-4
_NOISE = 1e-14  # relative to a value; smaller increases are rounding
# largest increasing slope at the end of a step, relative to the decreasing slope at its start
_SLOPE = 0.5
_SHORTEST = 1e-12
_RIDGE = 1e-13  # relative to the trace; keeps Hessians regular that are singular up to rounding


def minimise(function: Function, start: Floats, tolerance: Floats) -> Floats:
    """Minimisers of b convex functions of d variables.

    Parameters
    ----------
    function : callable
        Evaluates all b rows, which do not depend on each other.
    start : array (b, d), float64
    tolerance : array (b,)
        A row ends when its gradient's norm is at most this, or rounding prevents further progress.

    Returns
    -------
    array (b, d), float64

    Notes
    -----
    A step is taken if it decreases the value and does not end on a steep increase. Otherwise it is
    shortened to the point where, by Newton's method from its end, the slope along it is 0. This
    matters where the Hessian is discontinuous, as in a piecewise quadratic function: the minimum
    may lie beyond the discontinuity, and halved steps would stop before it.
    """
    ridge = _RIDGE * np.eye(start.shape[1])
    point = start
    length = np.ones(len(start))
    value, gradient, hessian = function(point)
    for _ in range(_STEPS):
        going = (np.linalg.norm(gradient, axis=1) > tolerance) & (length > _SHORTEST)
        if not going.any():
            break
        regular = hessian + hessian.trace(axis1=1, axis2=2)[:, None, None] * ridge
        direction = -np.linalg.solve(regular, gradient[..., None])[..., 0]
        slope = np.einsum("bd,bd->b", gradient, direction)
        trial = point + length[:, None] * direction
        ahead = function(trial)

        rise = np.einsum("bd,bd->b", ahead[1], direction)
        bend = np.einsum("bd,bde,be->b", direction, ahead[2], direction)
        bound = value + _ARMIJO * length * slope + _NOISE * np.abs(value)
        lower = ahead[0] <= bound
        better = going & lower & (rise <= -_SLOPE * slope)
        root = length - np.divide(rise, bend, out=np.full_like(rise, np.inf), where=bend > 0)
        shorter = np.where((root > 0) & (root < length), root, length / 2)
        length = np.where(better, 1, np.where(going, shorter, length))

        point = np.where(better[:, None], trial, point)
        value = np.where(better, ahead[0], value)
        gradient = np.where(better[:, None], ahead[1], gradient)
        hessian = np.where(better[:, None, None], ahead[2], hessian)
    return point


_TOLERANCE = 1e-12  # for the gradient: per score, or relative to the steepest one of a margin


def fit_platt(scores: Floats, positive: Booleans) -> Floats:
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

    def cross_entropy(platt: Floats) -> tuple[Floats, Floats, Floats]:
        exponent = platt[:, :1] * scaled + platt[:, 1:]
        # −t log p − (1 − t) log(1 − p) with p = 1/(1 + eˢ) is t·s + log(1 + e⁻ˢ).
        log, chance, curvature = _softplus(-exponent)
        entropy = targets * exponent + log
        residual = targets - chance
        rows = np.stack([scaled, np.ones_like(scaled)], axis=1)
        gradient = (rows @ residual[..., None])[..., 0]
        return entropy.sum(axis=1), gradient, (rows * curvature[:, None]) @ rows.mT

    log_odds = np.log((below + 1) / (above + 1))
    start = np.concatenate([np.zeros(above.shape), log_odds], axis=1)
    tolerances = np.full(len(scores), _TOLERANCE * scores.shape[1])
    minimum = minimise(cross_entropy, start, tolerances)
    return minimum / np.concatenate([unit, np.ones_like(unit)], axis=1)


def log_platt(scores: Floats, platt: Floats) -> Floats:
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


def _softplus(x: Floats) -> tuple[Floats, Floats, Floats]:
    """log(1 + eˣ) and its first and second derivatives."""
    small = np.exp(-np.abs(x))
    first = np.where(x < 0, small, 1) / (1 + small)
    return np.logaddexp(0, x), first, small / (1 + small) ** 2


_LEAST = 1e-12  # smallest margin, relative to the longest vector
_ROUNDING = 4 * float(np.finfo(np.float64).eps)


class NotSeparableError(ValueError):
    """No hyperplane through the reference point separates the classes."""


def margins(products: Floats, cost: float, soft: Callable[[Floats, float], Floats]) -> Floats:
    """Normals (b, d) for b sets of vectors zᵢ = yᵢxᵢ, (b, d, n), by this soft margin. A cost of inf
    means hard margins.

    The normal of a set without a hard margin is zero.
    """
    if np.isfinite(cost):
        return soft(products, cost)
    normals = np.zeros(products.shape[:2])
    for row, vectors in enumerate(products):
        with contextlib.suppress(NotSeparableError):
            normals[row] = hard_margin(vectors.T)
    return normals


def soft_margin(products: Floats, cost: float) -> Floats:
    """argmin ½‖w‖² + C Σ max(0, 1 − w·zᵢ)² for b sets of vectors zᵢ = yᵢxᵢ.

    Parameters
    ----------
    products : array (b, d, n), float64
        The vectors zᵢ in columns, for small d.
    cost : float ≥ 0
        C.

    Returns
    -------
    array (b, d), float64
        The gradient's norm is at most 1e-12·2C Σ‖zᵢ‖, or the rounding error (1 + 2C Σ‖zᵢ‖²)‖w‖·eps.
        The function is strongly convex, so that the distance of w from the minimiser is at most
        this norm. It is usually much smaller: the function is piecewise quadratic, and Newton's
        last step is exact.

    Notes
    -----
    Keerthi & DeCoste, A modified finite Newton method for fast solution of large scale linear SVMs
    (2005).
    """

    def squared_hinge(slack: Floats) -> tuple[Floats, Floats, Floats]:
        positive = np.maximum(slack, 0)
        # The Hessian is discontinuous where a slack becomes 0; any value between its limits will
        # do.
        return (
            cost * positive * positive,
            2 * cost * positive,
            2 * cost * (slack > 0).astype(np.float64),
        )

    start = np.zeros(products.shape[:2])
    return _least_penalty(products, squared_hinge, start, 2 * cost * _TOLERANCE)


def _least_penalty(products: Floats, penalty: Function, start: Floats, tolerance: float) -> Floats:
    """argmin ½‖w‖² + Σ penalty(1 − w·zᵢ); the tolerance is relative to Σ‖zᵢ‖."""

    def objective(normals: Floats) -> tuple[Floats, Floats, Floats]:
        loss, slope, bend = penalty(1 - (normals[:, None] @ products)[:, 0])
        value = 0.5 * np.square(normals).sum(axis=1) + loss.sum(axis=1)
        gradient = normals - (products @ slope[..., None])[..., 0]
        weighted = products * bend[:, None]
        return value, gradient, np.eye(normals.shape[1]) + weighted @ products.mT

    lengths = np.linalg.norm(products, axis=1).sum(axis=1)
    return minimise(objective, start, tolerance * lengths)


_WIDTHS = 10.0 ** -np.arange(9.0)
"""Widths of the rounded corner of the hinge. Each minimum is the start for the next width."""


def hinge_margin(products: Floats, cost: float) -> Floats:
    """argmin ½‖w‖² + C Σ max(0, 1 − w·zᵢ) for b sets of vectors zᵢ = yᵢxᵢ.

    Parameters
    ----------
    products : array (b, d, n), float64
        The vectors zᵢ in columns, for small d.
    cost : float ≥ 0
        C.

    Returns
    -------
    array (b, d), float64
        The minimiser with δ log(1 + exp(s/δ)) in place of max(0, s), δ = 1e-8: the sum exceeds its
        minimum by at most nCδ log 2. The relative error of w is usually 1e-8 to 1e-7.

    Notes
    -----
    Lee & Mangasarian, SSVM: A smooth support vector machine for classification (2001).
    """
    normals = np.zeros(products.shape[:2])
    for width in _WIDTHS:

        def rounded(slack: Floats, width: float = width) -> tuple[Floats, Floats, Floats]:
            log, slope, bend = _softplus(slack / width)
            return cost * width * log, cost * slope, cost / width * bend

        tolerance = cost * max(1e-3 * width**2, _TOLERANCE)
        normals = _least_penalty(products, rounded, normals, tolerance)
    return normals


def hard_margin(products: Floats) -> Floats:
    """argmin ‖w‖² subject to w·zᵢ ≥ 1 for all zᵢ = yᵢxᵢ.

    Parameters
    ----------
    products : array (n, d), float64, n ≥ 1
        The vectors zᵢ, for small d.

    Returns
    -------
    array (d,), float64
        p/‖p‖², where p is the point of smallest norm in the convex hull of the vectors.

    Raises
    ------
    NotSeparableError
        If no such w exists, or the margin ‖p‖ is below 1e-12 of the longest vector.

    Notes
    -----
    Wolfe, Finding the nearest point in a polytope (1976). The algorithm keeps affinely independent
    vectors for which the nearest point of the affine hull lies inside the convex hull. The norm
    decreases with every set of vectors, so that the algorithm ends.
    """
    longest = float(np.linalg.norm(products, axis=1).max())
    if longest == 0:
        raise NotSeparableError("the classes cannot be separated: a vector of length 0")
    vectors = products / longest
    squared_lengths = np.square(vectors).sum(axis=1)
    chosen = [int(np.argmin(squared_lengths))]
    weights = np.ones(1)
    nearest = vectors[chosen[0]]
    while True:
        heights = vectors @ nearest
        lowest = int(np.argmin(heights))
        if (
            nearest @ nearest - heights[lowest] <= _ROUNDING * np.linalg.norm(nearest)
            or lowest in chosen
        ):
            break
        chosen, weights = _inside(vectors, [*chosen, lowest], np.append(weights, 0))
        closer = weights @ vectors[chosen]
        if not np.linalg.norm(closer) < np.linalg.norm(nearest):
            break
        nearest = closer
    norm = float(np.linalg.norm(nearest))
    if norm <= _LEAST or (vectors @ nearest).min() <= 0:
        raise NotSeparableError(
            "the classes cannot be separated by a hyperplane through the reference point"
        )
    return nearest / norm**2 / longest


def _inside(vectors: Floats, chosen: list[int], weights: Floats) -> tuple[list[int], Floats]:
    """Drop vectors until all weights of the affine hull's nearest point are positive."""
    while True:
        first, *remaining = vectors[chosen]
        # Least squares, because an added vector may be dependent up to rounding.
        if remaining:
            shares = np.linalg.lstsq((np.array(remaining) - first).T, -first, rcond=None)[0]
        else:
            shares = np.empty(0)
        affine = np.append(1 - shares.sum(), shares)
        if (affine > 0).all():
            return chosen, affine
        falling = affine <= 0
        drop = np.maximum(weights[falling] - affine[falling], np.finfo(np.float64).tiny)
        reach = weights[falling] / drop
        weights = weights + reach.min() * (affine - weights)
        weights[np.flatnonzero(falling)[np.argmin(reach)]] = 0
        remain = weights > 0
        chosen = [index for index, stays in zip(chosen, remain) if stays]
        weights = weights[remain]
