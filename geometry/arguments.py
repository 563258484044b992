"""Checks of the arguments that all functions of points share."""

import math
from numbers import Real

import torch
from torch import Tensor

Curvature = float | Tensor
"""The sectional curvature: a negative number, or a tensor of shape () or one that broadcasts with
the batch shape (...). Functions of the Poincaré ball and of normal coordinates take 0, too.

A tensor may have any floating dtype and may require grad. The result has the dtype of the points,
whatever the dtype of the curvature. The values of a tensor are not checked, because that would make
the device wait.
"""

Size = float | Tensor
"""|c|: a float, or a float64 tensor of shape () or (..., 1)."""

_DTYPES = (torch.float32, torch.float64)


def checked(curvature: Curvature, **points: Tensor) -> Size:
    """Check the points or vectors of a function, and return the `magnitude` of its curvature in
    their dtype."""
    check_points(**points)
    size = magnitude(curvature)
    if isinstance(size, Tensor):
        first = next(iter(points.values()))
        return size.to(first.dtype)
    return size


def check_points(**points: Tensor) -> None:
    """Refuse arguments that are not points or vectors of one dtype and one dimension.

    Raises
    ------
    TypeError
        If an argument is not a tensor, is neither float32 nor float64, or differs in dtype from
        the first.
    ValueError
        If an argument is a scalar, or differs in the number of coordinates from the first:
        coordinates do not broadcast.
    """
    first, reference = next(iter(points.items()))
    for name, tensor in points.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"{name}: got {type(tensor).__name__}; allowed is a torch.Tensor of float32 or"
                " float64"
            )
        if tensor.dtype not in _DTYPES:
            raise TypeError(
                f"{name}: got a tensor of {tensor.dtype}; allowed are torch.float32 and"
                " torch.float64"
            )
        if tensor.dtype != reference.dtype:
            raise TypeError(
                f"{name}: got {tensor.dtype}, but {first} is {reference.dtype}; allowed is one"
                " dtype for all"
            )
        if tensor.ndim == 0:
            raise ValueError(
                f"{name}: got a tensor of shape (); its last dimension must hold the coordinates"
            )
        if tensor.shape[-1] != reference.shape[-1]:
            raise ValueError(
                f"{name}: got shape {tuple(tensor.shape)}, but {first} has shape"
                f" {tuple(reference.shape)}; the last dimension must be {reference.shape[-1]} for"
                " both, because coordinates do not broadcast"
            )


def magnitude(curvature: Curvature, flat: bool = False) -> Size:
    """|c| of a curvature. √|c| times a length is the length in the space of curvature −1.

    Parameters
    ----------
    curvature : float or Tensor
    flat : bool
        Whether a number may be 0.

    Returns
    -------
    float or Tensor
        A tensor is float64; its shape is (..., 1) for a curvature of shape (...), to broadcast with
        coordinates, and () for shape ().

    Raises
    ------
    TypeError
        If the curvature is neither a number nor a floating-point tensor.
    ValueError
        If a number is not finite, is positive, or is 0 although `flat` is False.
    """
    if isinstance(curvature, Tensor):
        if not curvature.is_floating_point():
            raise TypeError(
                f"curvature: got a tensor of {curvature.dtype}; allowed is a floating dtype"
            )
        size = -curvature.double()
        return size.unsqueeze(-1) if curvature.ndim else size
    if not isinstance(curvature, Real):
        raise TypeError(
            f"curvature: got {type(curvature).__name__}; allowed is a negative number or a"
            " torch.Tensor"
        )
    if curvature == 0 and flat:
        return 0.0
    if not -math.inf < curvature < 0:
        allowed = "0 or a negative" if flat else "a negative"
        raise ValueError(
            f"curvature: got {curvature}; hyperbolic space needs {allowed}, finite number (−1 is"
            " usual)"
        )
    return -float(curvature)


def per_set(curvature: Curvature) -> Curvature:
    """A curvature of shape (...) with one more dimension, to broadcast with sets of points
    (..., n, d)."""
    if isinstance(curvature, Tensor) and curvature.ndim:
        return curvature.unsqueeze(-1)
    return curvature
