"""Soft margins with the squared hinge, many at once, by Newton's method in the primal."""

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.newton import minimise

Array = NDArray[np.float64]

_TOLERANCE = 1e-12


def soft_margin(products: Array, cost: Array) -> Array:
    """argmin ½‖w‖² + Σ cᵢ max(0, 1 − w·zᵢ)² for b sets of vectors zᵢ = yᵢxᵢ.

    Parameters
    ----------
    products : array (b, d, n), float64
        The vectors zᵢ in columns; d is small.
    cost : array (b, n), float64, ≥ 0
        0 leaves a vector out.

    Returns
    -------
    array (b, d), float64
        The gradient's norm is ≤ 1e-12·2Σ cᵢ‖zᵢ‖ or what rounding leaves, (1 + 2Σ cᵢ‖zᵢ‖²)‖w‖·eps. The function is
        strongly convex, so that w is at most as far from the minimiser as this norm; much less, as a rule, for the
        function is quadratic in parts and Newton's last step is exact.

    Notes
    -----
    Keerthi & DeCoste, A modified finite Newton method for fast solution of large scale linear SVMs (2005).
    """
    gradient_bound = 2 * (cost * np.linalg.norm(products, axis=1)).sum(axis=1)
    start = np.zeros(products.shape[:2])
    return minimise(_squared_hinge, start, (products, cost), _TOLERANCE * gradient_bound)


def _squared_hinge(normal: Array, products: Array, cost: Array) -> tuple[Array, Array, Array]:
    slack = np.maximum(1 - (normal[:, None] @ products)[:, 0], 0)
    pull = cost * slack
    value = 0.5 * np.square(normal).sum(axis=1) + (pull * slack).sum(axis=1)
    gradient = normal - 2 * (products @ pull[..., None])[..., 0]
    # The Hessian jumps where a slack becomes 0; any value between serves.
    weighted = products * (2 * cost * (slack > 0))[:, None]
    return value, gradient, np.eye(normal.shape[1]) + weighted @ products.mT
