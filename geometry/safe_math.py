"""Functions with an edge (0/0, √0, overflow) in the one form that keeps value and gradient finite.

A ratio that tends to 1 at 0 is evaluated at ``max(x, eps)``: what it drops, x²/6 and less, is below rounding, and so
is the gradient that the clamp cuts off. (The usual other way, two `where` around a series, costs three kernels more.)
"""

import math
from typing import Any

import torch
from torch import Tensor

Curvature = float | Tensor


def magnitude(curvature: Curvature) -> Curvature:
    """|c| of a negative curvature; √|c| times a length is the length in the space of curvature −1.

    Parameters
    ----------
    curvature : float or Tensor
        A tensor is not looked at, which would make the device wait.

    Returns
    -------
    float or Tensor
        Of shape (..., 1) for a tensor of shape (...), to be broadcast with coordinates; of shape () for shape (), lest
        a float64 curvature turn float32 points into float64.

    Raises
    ------
    ValueError
        If a float is not negative and finite.
    """
    if isinstance(curvature, Tensor):
        return -curvature.unsqueeze(-1) if curvature.ndim else -curvature
    if not -math.inf < curvature < 0:
        raise ValueError(f"curvature: got {curvature}; hyperbolic space needs a negative, finite number (−1 is usual)")
    return -curvature


def squared(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """‖x‖², (..., d) -> (..., 1), in a given dtype or its own; relative error ≤ 5·eps for d ≤ 1000."""
    if x.shape[-1] <= 64:  # in one pass, which adds in a few long chains: at d = 1000 the error would be 18·eps
        norm: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=dtype)
        return norm.square()
    return x.to(dtype or x.dtype).square().sum(-1, keepdim=True)


def floor(dtype: torch.dtype) -> float:
    """Below this argument a ratio such as sinh(x)/x is 1 to working precision: 1.2e-7 float32, 2.2e-16 float64."""
    return torch.finfo(dtype).eps


def max_radius(dtype: torch.dtype) -> float:
    """Largest r for which sinh(r)² times any usual dimension is finite: 39.9 float32, 319 float64."""
    return 0.45 * math.log(torch.finfo(dtype).max)


def sinhc_cosh(x: Tensor) -> tuple[Tensor, Tensor]:
    """sinh(r)/x and cosh(r) with r = min(x, `max_radius`).

    Parameters
    ----------
    x : Tensor (...), x ≥ 0, finite

    Returns
    -------
    tuple of Tensor (...)
        Relative error of both ≤ (3 + r)·eps; the gradients are finite, 0 at x = 0.
    """
    x = x.clamp(min=floor(x.dtype))
    r = x.clamp(max=max_radius(x.dtype))
    return r.sinh() / x, r.cosh()


def tanhc_cosh(x: Tensor) -> tuple[Tensor, Tensor]:
    """tanh(n)/x and cosh(n) with n = min(x, `max_radius`/2), half a hyperbolic length.

    Parameters
    ----------
    x : Tensor (...), x ≥ 0, finite

    Returns
    -------
    tuple of Tensor (...)
        Relative error ≤ 4·eps and ≤ (3 + n)·eps; the gradients are finite, 0 at x = 0.
    """
    x = x.clamp(min=floor(x.dtype))
    n = x.clamp(max=max_radius(x.dtype) / 2)
    return n.tanh() / x, n.cosh()


def asinh(x: Tensor) -> Tensor:
    """asinh(x) of x ≥ 0, several times faster than torch's kernel.

    Parameters
    ----------
    x : Tensor (...), 0 ≤ x, finite

    Returns
    -------
    Tensor (...)
        Relative error ≤ 3·eps where x² is finite; beyond, ln 2 is missing.
    """
    found: Tensor = _Asinh.apply(x)
    return found


class _Asinh(torch.autograd.Function):
    """log1p(x + x²/(1 + √(1 + x²))), which saves no more for its gradient than x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        below = (x * x).add_(1).sqrt_().add_(1)
        return (x / below).mul_(x).add_(x).log1p_()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        x: Tensor = ctx.saved_tensors[0]
        return gradient * (x * x + 1).rsqrt()


def asinhc(x: Tensor) -> Tensor:
    """asinh(x)/x.

    Parameters
    ----------
    x : Tensor (...), 0 ≤ x ≤ sinh(`max_radius`)

    Returns
    -------
    Tensor (...)
        Relative error ≤ 4·eps; the gradient is finite, 0 at x = 0.
    """
    x = x.clamp(min=floor(x.dtype) / 4)  # where `asinh` is the identity to the last bit
    return asinh(x) / x


def arc_factors(q: Tensor) -> tuple[Tensor, Tensor]:
    """δ/sinh δ and δ·tanh(δ/2), smooth in q = sinh²(δ/2): 1 − 2q/3 + … and 2q − ….

    Parameters
    ----------
    q : Tensor (...), 0 ≤ q ≤ sinh²(`max_radius`)

    Returns
    -------
    tuple of Tensor (...)
        Relative error of both ≤ 6·eps; the gradients are finite (the first one's cut off to 0 where q < eps²/16).
    """
    root = q.clamp(min=(floor(q.dtype) / 4) ** 2).sqrt()
    arc, cosh = asinh(root) / root, (1 + q).sqrt()
    return arc / cosh, 2 * arc * (q / cosh)
