"""Normals of linear classifiers with a hard margin, or a soft margin with the squared hinge; many
at once."""

import contextlib

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.classifiers.newton import minimise

Array = NDArray[np.float64]

_LEAST = 1e-12  # smallest margin, relative to the longest vector
_ROUNDING = 4 * float(np.finfo(np.float64).eps)
_TOLERANCE = 1e-12  # for the gradient of a soft margin, relative to its steepest


class NotSeparableError(ValueError):
    """No hyperplane through the reference point separates the classes."""


def margins(products: Array, cost: float) -> Array:
    """Normals (b, d) for b sets of vectors zᵢ = yᵢxᵢ, (b, d, n). A cost of inf means hard margins.

    The normal of a set without a hard margin is zero.
    """
    if np.isfinite(cost):
        return soft_margin(products, cost)
    normals = np.zeros(products.shape[:2])
    for row, vectors in enumerate(products):
        with contextlib.suppress(NotSeparableError):
            normals[row] = hard_margin(vectors.T)
    return normals


def soft_margin(products: Array, cost: float) -> Array:
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

    def squared_hinge(normals: Array) -> tuple[Array, Array, Array]:
        slack = np.maximum(1 - (normals[:, None] @ products)[:, 0], 0)
        value = 0.5 * np.square(normals).sum(axis=1) + (cost * slack * slack).sum(axis=1)
        gradient = normals - 2 * (products @ (cost * slack)[..., None])[..., 0]
        # The Hessian is discontinuous where a slack becomes 0; any value between its limits will
        # do.
        weighted = products * (2 * cost * (slack > 0))[:, None]
        return value, gradient, np.eye(normals.shape[1]) + weighted @ products.mT

    steepest = 2 * (cost * np.linalg.norm(products, axis=1)).sum(axis=1)
    return minimise(squared_hinge, np.zeros(products.shape[:2]), _TOLERANCE * steepest)


def hard_margin(products: Array) -> Array:
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
        If there is no such w, or the margin ‖p‖ is below 1e-12 of the longest vector.

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
    chosen = [int(np.argmin(np.square(vectors).sum(axis=1)))]
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
    return np.asarray(nearest / norm**2 / longest)


def _inside(vectors: Array, chosen: list[int], weights: Array) -> tuple[list[int], Array]:
    """Drop vectors until all weights of the affine hull's nearest point are positive."""
    while True:
        first, *remaining = vectors[chosen]
        # Least squares, because an added vector may be dependent up to rounding.
        shares = (
            np.linalg.lstsq((np.array(remaining) - first).T, -first, rcond=None)[0]
            if remaining
            else np.empty(0)
        )
        affine = np.append(1 - shares.sum(), shares)
        if (affine > 0).all():
            return chosen, affine
        falling = affine <= 0
        reach = weights[falling] / np.maximum(
            weights[falling] - affine[falling], np.finfo(np.float64).tiny
        )
        weights = weights + reach.min() * (affine - weights)
        weights[np.flatnonzero(falling)[np.argmin(reach)]] = 0
        remain = weights > 0
        chosen = [index for index, stays in zip(chosen, remain) if stays]
        weights = weights[remain]
