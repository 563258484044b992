"""Newton's method for many small convex problems at once."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

Function = Callable[[Array], tuple[Array, Array, Array]]
"""Maps x (b, d) to values (b,), gradients (b, d) and Hessians (b, d, d), positive semi-definite and
not 0."""

_STEPS = 200  # 3 to 20 are usual
_ARMIJO = 1e-4
_NOISE = 1e-14  # relative to a value; smaller increases are rounding
# largest increasing slope at the end of a step, relative to the decreasing slope at its start
_SLOPE = 0.5
_SHORTEST = 1e-12
_RIDGE = 1e-13  # relative to the trace; keeps Hessians regular that are singular up to rounding


def minimise(function: Function, start: Array, tolerance: Array) -> Array:
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
