"""The Poincaré ball model of hyperbolic space.

A point of curvature c is x with |c|‖x‖² < 1; the metric is λ² times the Euclidean one, λ = 2/(1 − |c|‖x‖²). HyperFed
and the literature on hulls write k or c for |c|. HyperFed's Möbius addition is misprinted; its (1 − ‖x₁‖)x₂² must read
(1 − ‖x₁‖²)x₂.

Throughout

- shapes: points and tangent vectors (..., d);
- dtype: float32 or float64, that of the points;
- `curvature`: a negative float, or a tensor of shape () or one that broadcasts with the batch shape (...), which may
  require grad. A float that is not negative and finite raises ValueError; a tensor is not looked at, which would make
  the device wait;
- r is √|c| times the distance from the origin, √|c|‖x‖ = tanh(r/2). A tangent vector v at the origin, where λ = 2, has
  length 2‖v‖;
- limit: the coordinates cannot tell points apart that are near the boundary. What a function returns is brought back by
  `project` to r ≤ 13.9 in float32 and 34.0 in float64, where rounding the coordinates changes r by 0.03; what it is
  given may be any vector, and beyond the limit is read as if 1 − |c|‖x‖² were 16·eps.
  `curvfed.geometry.normal_coordinates` has distances without a limit;
- error bounds: against the exact function of the given coordinates, for d ≤ 1000, points within the limit; eps is that
  of the dtype. 1 − |c|‖x‖² is computed in float64, which leaves a factor κ = max(1, 2e-16·cosh²(r/2)/eps), r that of the
  farthest point involved: 1 in float32, cosh²(r/2) in float64, what rounding the coordinates of a far point costs by
  itself. Everything else is a sum of positive terms. Tested against mpmath; the constants leave a factor of 1.5 or more.
"""

from typing import Any

import torch
from torch import Tensor

from curvfed.geometry.safe_math import Curvature, arc_factors, asinh, asinhc, magnitude, squared, tanhc_cosh


def project(x: Tensor, curvature: Curvature) -> Tensor:
    """Bring what lies beyond the limit back to it.

    Parameters
    ----------
    x : Tensor (..., d), finite
    curvature : float or Tensor

    Returns
    -------
    Tensor (..., d)
        `x` to the last bit where √|c|‖x‖ ≤ 1 − 12·eps, else the point on its ray with 1 − 16·eps. The gap is wider than
        rounding, so that `project` is idempotent to the last bit. Relative error of every coordinate ≤ 4·eps.
    """
    eps = torch.finfo(x.dtype).eps
    square, border = magnitude(curvature) * _square64(x), (1 - 12 * eps) ** 2
    factor = torch.where(square > border, (1 - 16 * eps) * square.clamp(min=border).rsqrt(), 1.0)
    return x * factor.to(x.dtype)


def exp0(v: Tensor, curvature: Curvature) -> Tensor:
    """Exponential map at the origin, tanh(√|c|‖v‖) v/(√|c|‖v‖).

    Parameters
    ----------
    v : Tensor (..., d)
    curvature : float or Tensor

    Returns
    -------
    Tensor (..., d)
        Relative error of every coordinate ≤ 8·eps. Near the boundary that is much: eps·sinh(r)/√|c| of distance, 1e-3 at
        r = 10 in float32. For distances of features take `curvfed.geometry.normal_coordinates`.

    Notes
    -----
    HyperFed, Eq. 6.
    """
    return project(tanhc_cosh(_norm(v) * magnitude(curvature) ** 0.5)[0] * v, curvature)


def log0(x: Tensor, curvature: Curvature) -> Tensor:
    """Logarithm at the origin, the inverse of `exp0`; relative error of every coordinate ≤ 8κ·eps."""
    # By asinh of sinh(r/2): artanh of tanh(r/2) would lose what `_defect` has gained.
    square = magnitude(curvature) * _square64(x)
    stretch = _defect_of(square, x.dtype).rsqrt()
    length = square.to(x.dtype).clamp(min=torch.finfo(x.dtype).tiny).sqrt()  # clamped for the gradient at 0
    return asinhc(length * stretch) * stretch * x


def mobius_add(x: Tensor, y: Tensor, curvature: Curvature) -> Tensor:
    """Möbius addition x ⊕ y: `y` moved by the translation that takes the origin to `x`.

    Parameters
    ----------
    x, y : Tensor (..., d)
    curvature : float or Tensor

    Returns
    -------
    Tensor (..., d)
        The error has norm ≤ 8κ·eps·‖x ⊕ y‖.

    Notes
    -----
    Ungar, A gyrovector space approach to hyperbolic geometry (2009).
    """
    return _add(x, y, _defect(x, curvature), _defect(y, curvature), curvature)


def exp(x: Tensor, v: Tensor, curvature: Curvature) -> Tensor:
    """Exponential map at `x`.

    Parameters
    ----------
    x : Tensor (..., d)
    v : Tensor (..., d)
        Tangent at `x`, of length λ‖v‖. Beyond `safe_math.max_radius`/√|c|, farther than any two points are apart, the
        length is cut off.
    curvature : float or Tensor

    Returns
    -------
    Tensor (..., d)
        Its distance from the exact point is ≤ 8κ·(cosh(n) + cosh(r))·eps/√|c|, n = √|c|λ‖v‖, r the radius of the result.

    Notes
    -----
    HyperFed, Eq. 2.
    """
    defect = _defect(x, curvature)
    ratio, cosh = tanhc_cosh(_norm(v) / defect * magnitude(curvature) ** 0.5)
    # 1 − tanh² is 1/cosh², also where tanh rounds to 1.
    return _add(x, ratio / defect * v, defect, cosh**-2, curvature)


def log(x: Tensor, y: Tensor, curvature: Curvature) -> Tensor:
    """Logarithm at `x`, the inverse of `exp`: the tangent vector at `x` that reaches `y`.

    Parameters
    ----------
    x, y : Tensor (..., d)
    curvature : float or Tensor

    Returns
    -------
    Tensor (..., d)
        The error has norm ≤ 8κ·eps times that of the vector. Equal points give 0 and finite gradients.
    """
    apart, x_defect, y_defect = y - x, _defect(x, curvature), _defect(y, curvature)
    square = magnitude(curvature) * squared(apart)
    forward, _ = arc_factors(square / (x_defect * y_defect))
    forward = forward / y_defect
    return torch.addcmul(forward * x_defect * apart, forward * square, x, value=-1)


def dist(x: Tensor, y: Tensor, curvature: Curvature) -> Tensor:
    """Geodesic distance.

    Parameters
    ----------
    x, y : Tensor (..., d)
        ``dist(x[:, None], y, curvature)`` is the matrix of all distances; `cdist` makes it without x − y for all pairs.
    curvature : float or Tensor

    Returns
    -------
    Tensor (...)
        Relative error ≤ 8κ·eps for distances above √(smallest normal number), 1e-19 in float32; below they may become 0.
        Symmetric to the last bit. The gradient at equal points, where none exists, is 0.

    Notes
    -----
    HyperFed, Eq. 1, whose arcosh loses half of the digits near 1 and the rest near the boundary:
    sinh²(√|c|·dist/2) = |c|‖x − y‖²/((1 − |c|‖x‖²)(1 − |c|‖y‖²)).
    """
    scale = magnitude(curvature) ** 0.5
    root = scale * _norm(x - y) * (_defect(x, curvature) * _defect(y, curvature)).rsqrt()
    return (asinh(root) * (2 / scale)).squeeze(-1)


def cdist(x: Tensor, y: Tensor, curvature: Curvature) -> Tensor:
    """Geodesic distances of all pairs, in memory O(n·m).

    Parameters
    ----------
    x : Tensor (..., n, d)
    y : Tensor (..., m, d)
    curvature : float or Tensor
        A tensor broadcasts with the batch shape (...), without n and m.

    Returns
    -------
    Tensor (..., n, m)
        Error and gradient as in `dist`; differentiable once.
    """
    curvature = _per_set(curvature)
    scale = magnitude(curvature) ** 0.5
    weight = _defect(x, curvature).rsqrt() * _defect(y, curvature).rsqrt().mT
    return asinh(scale * _norms_apart(x, y) * weight) * (2 / scale)


def _defect(x: Tensor, curvature: Curvature) -> Tensor:
    """1 − |c|‖x‖², (..., d) -> (..., 1), at least 16·eps: where float32 would lose all digits in the difference."""
    return _defect_of(magnitude(curvature) * _square64(x), x.dtype)


def _defect_of(square: Tensor, dtype: torch.dtype) -> Tensor:
    return (1 - square).clamp(min=16 * torch.finfo(dtype).eps).to(dtype)


def _add(x: Tensor, y: Tensor, x_defect: Tensor, y_defect: Tensor, curvature: Curvature) -> Tensor:
    """x ⊕ y from its arguments and their defects 1 − |c|‖·‖².

    With w = x + y the usual numerator is (1 − |c|‖x‖²)w + |c|‖w‖²x, the denominator
    (1 − |c|‖x‖²)(1 − |c|‖y‖²) + |c|‖w‖²: nothing cancels where ⟨x, y⟩ < 0, as it does in the usual form.
    """
    total = x + y
    square = magnitude(curvature) * squared(total)
    divided = 1 / (x_defect * y_defect + square)
    return project(torch.addcmul(x_defect * divided * total, square * divided, x), curvature)


def _per_set(curvature: Curvature) -> Curvature:
    """A curvature per set of points, to be broadcast with the points."""
    return curvature.unsqueeze(-1) if isinstance(curvature, Tensor) and curvature.ndim else curvature


def _norms_apart(x: Tensor, y: Tensor) -> Tensor:
    """‖xᵢ − yⱼ‖, (..., n, d), (..., m, d) -> (..., n, m), from differences.

    The matrix product ‖x‖² + ‖y‖² − 2⟨x, y⟩ would be faster, but has an error of eps where the distance wants one of
    eps·‖x − y‖², and near the boundary all distances are short.
    """
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")


class _Square64(torch.autograd.Function):
    """‖x‖² in float64, whose gradient needs no more than the dtype of x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return squared(x, torch.float64)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        x: Tensor = ctx.saved_tensors[0]
        return (2 * gradient).to(x.dtype) * x


def _square64(x: Tensor) -> Tensor:
    square: Tensor = _Square64.apply(x)
    return square


def _norm(x: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return norm  # its gradient at 0 is 0, where that of √ would be NaN
