"""The hard margin: the shortest normal that keeps all vectors at 1 or more."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LEAST = 1e-12  # margin, against the longest vector
_ROUNDING = 4 * float(np.finfo(np.float64).eps)


class NotSeparableError(ValueError):
    """No hyperplane through the reference point has each class on a side of its own."""


def hard_margin(products: Array) -> Array:
    """argmin ‖w‖² subject to w·zᵢ ≥ 1 for all zᵢ = yᵢxᵢ.

    Parameters
    ----------
    products : array (n, d), float64, n ≥ 1
        The vectors zᵢ; d is small.

    Returns
    -------
    array (d,), float64
        p/‖p‖², where p is the point of least norm in the convex hull of the vectors.

    Raises
    ------
    NotSeparableError
        If there is no such w, or the margin ‖p‖ is below 1e-12 of the longest vector.

    Notes
    -----
    Wolfe, Finding the nearest point in a polytope (1976): a set of affinely independent vectors is kept whose affine
    hull's nearest point lies inside their convex hull; the norm falls with every set, so that their number is finite.
    """
    longest = float(np.linalg.norm(products, axis=1).max())
    if longest == 0:
        raise NotSeparableError("the classes cannot be separated: a vector of length 0")
    vectors = products / longest
    chosen = [int(np.argmin(np.square(vectors).sum(axis=1)))]
    weights, nearest = np.ones(1), vectors[chosen[0]]
    while True:
        heights = vectors @ nearest
        lowest = int(np.argmin(heights))
        if nearest @ nearest - heights[lowest] <= _ROUNDING * np.linalg.norm(nearest) or lowest in chosen:
            break
        chosen, weights = _inside(vectors, [*chosen, lowest], np.append(weights, 0))
        closer = weights @ vectors[chosen]
        if not np.linalg.norm(closer) < np.linalg.norm(nearest):
            break
        nearest = closer
    norm = float(np.linalg.norm(nearest))
    if norm <= _LEAST or (vectors @ nearest).min() <= 0:
        raise NotSeparableError("the classes cannot be separated by a hyperplane through the reference point")
    normal: Array = nearest / norm**2 / longest
    return normal


def _inside(vectors: Array, chosen: list[int], weights: Array) -> tuple[list[int], Array]:
    """Drop vectors until the affine hull's nearest point has positive weights only."""
    while True:
        first, *others = vectors[chosen]
        # Least squares, for an added vector may be dependent up to rounding.
        shares = np.linalg.lstsq((np.array(others) - first).T, -first, rcond=None)[0] if others else np.empty(0)
        affine = np.append(1 - shares.sum(), shares)
        if (affine > 0).all():
            return chosen, affine
        falling = affine <= 0
        reach = weights[falling] / np.maximum(weights[falling] - affine[falling], np.finfo(np.float64).tiny)
        weights = weights + reach.min() * (affine - weights)
        weights[np.flatnonzero(falling)[np.argmin(reach)]] = 0
        remain = weights > 0
        chosen, weights = [index for index, stays in zip(chosen, remain) if stays], weights[remain]
