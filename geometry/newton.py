"""Newton's method for many small convex problems at once."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

Function = Callable[[Array], tuple[Array, Array, Array]]
"""x (b, d) to values (b,), gradients (b, d) and Hessians (b, d, d), positive semi-definite and not 0."""

_STEPS = 200  # usual are 3 to 20
_ARMIJO = 1e-4
_NOISE = 1e-14  # of a value: smaller rises are rounding
_SLOPE = 0.5  # of the first, as a rise at the end of a step
_SHORTEST = 1e-12
_RIDGE = 1e-13  # of the trace: keeps a Hessian regular that is singular to rounding


def minimise(function: Function, start: Array, tolerance: Array) -> Array:
    """Minimisers of b convex functions of d variables.

    Parameters
    ----------
    function : callable
        Of all b rows, which do not depend on each other.
    start : array (b, d), float64
    tolerance : array (b,)
        A row ends where its gradient's norm is at most this, or where rounding leaves nothing to gain.

    Returns
    -------
    array (b, d), float64

    Notes
    -----
    A step is taken if it lowers the value and does not end on a steep rise. Otherwise a shorter one leads to where
    Newton's method finds slope 0 from its end. That matters where the Hessian jumps, as it does between the parts of a
    function that is quadratic in parts: the minimum lies beyond the jump, and steps that are only halved stop before it.
    """
    ridge = _RIDGE * np.eye(start.shape[1])
    point, length = start, np.ones(len(start))
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
        lower = ahead[0] <= value + _ARMIJO * length * slope + _NOISE * np.abs(value)
        better = going & lower & (rise <= -_SLOPE * slope)
        root = length - np.divide(rise, bend, out=np.full_like(rise, np.inf), where=bend > 0)
        shorter = np.where((root > 0) & (root < length), root, length / 2)
        length = np.where(better, 1, np.where(going, shorter, length))

        point = np.where(better[:, None], trial, point)
        value = np.where(better, ahead[0], value)
        gradient = np.where(better[:, None], ahead[1], gradient)
        hessian = np.where(better[:, None, None], ahead[2], hessian)
    return point
