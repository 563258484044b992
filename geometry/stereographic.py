"""The κ-stereographic model: a space of constant curvature κ of either sign, smooth through 0.

Bachmann et al., Constant curvature graph convolutional networks (ICML 2020); Skopek et al.,
Mixed-curvature variational autoencoders (ICLR 2020). For κ < 0 it is the Poincaré ball of
`curvfed.geometry.poincare`, for κ = 0 flat space with coordinates of half the length, for κ > 0 the
sphere of radius 1/√κ without the antipode of the origin, which is the point at infinity. The metric
is λ² times the Euclidean metric, λ = 2/(1 + κ‖x‖²).

Throughout

- shapes: points and tangent vectors (..., d); dtypes: float32 or float64; `curvature` is κ, a
  finite number, or a floating tensor of shape () or one that broadcasts with the batch shape;
- derivatives: the first and second are finite and right, also with respect to κ and at κ = 0. At
  equal points, where the distance has none, its gradient is 0;
- limits: for κ < 0 those of `poincare`; for κ > 0 points with √κ‖x‖ ≤ 1/(16·eps), and `exp0`
  brings results nearer to infinity back to there;
- error bounds: against the exact function of the given coordinates, for d ≤ 1000, eps of the dtype.
  For κ ≤ 0 they are those of `poincare`. For κ > 0 the angle is that between the position vectors
  in space. Functions of rows, such as 1 + κ‖x‖², are computed in float64.

Near κ‖x‖² = 0 tan_κ, its inverse, sine and cosine are series in κ‖x‖², which no root of κ enters.
"""

import math

import torch
from torch import Tensor

from curvfed.geometry.arguments import Curvature, Size, check_points, per_set, sectional
from curvfed.geometry.safe_math import (
    asinh,
    defect,
    defect_of,
    floor,
    gyro_sum,
    inside,
    max_radius,
    sinhc_cosh,
    squared64,
)

_NEAR = 0.01
"""Where the series serve; closed forms lose 1/q² of the digits of a second derivative."""

_SINE = [(-1) ** n / math.factorial(2 * n + 1) for n in range(6)]
_COSINE = [(-1) ** n / math.factorial(2 * n) for n in range(6)]
_ARC = [(-1) ** n / (2 * n + 1) for n in range(9)]
"""Coefficients of sin(√q)/√q, cos(√q) and arctan(√q)/√q, to rounding and with two derivatives."""

_LEAST = 2.0**-200


def project(x: Tensor, curvature: Curvature) -> Tensor:
    """Bring points beyond the limit of a ball back to it, as `poincare.project`; for κ ≥ 0 the
    points themselves.

    Examples
    --------
    >>> project(torch.tensor([3.0, 4.0]), curvature=-1.0)
    tensor([0.6000, 0.8000])
    >>> project(torch.tensor([3.0, 4.0]), curvature=1.0)
    tensor([3., 4.])
    """
    return inside(x, -_checked(curvature, x=x))


def exp0(v: Tensor, curvature: Curvature) -> Tensor:
    """Exponential map at the origin, tan_κ(‖v‖) v/‖v‖, with tan_κ(r) = tan(√κ r)/√κ.

    Parameters
    ----------
    v : Tensor (..., d)
        Its length is 2‖v‖; on a sphere it may go around.
    curvature : float or Tensor

    Returns
    -------
    Tensor (..., d)
        Relative error of every coordinate ≤ 8·eps for κ ≤ 0, and ≤ 8·eps + 8·eps64·(1 + t²)√κ‖v‖/t
        for κ > 0, with t = |tan(√κ‖v‖)| and the eps64 of float64.

    Examples
    --------
    >>> [exp0(torch.tensor([1.0, 0.0]), curvature)[0].item() for curvature in (0.0, 1.0)]
    [1.0, 1.5574077367782593]
    """
    kappa = _checked(curvature, v=v)
    sine, cosine = _sine_cosine(kappa * squared64(v), max_radius(torch.float64) / 2)
    least = 16 * floor(v.dtype)
    bounded = torch.where(cosine < 0, cosine.clamp(max=-least), cosine.clamp(min=least))
    ratio = (sine / bounded).to(v.dtype)
    return inside(ratio * v, -kappa)


def log0(x: Tensor, curvature: Curvature) -> Tensor:
    """Logarithm at the origin, the inverse of `exp0`; relative error of every coordinate ≤ 8·eps
    for κ ≥ 0.

    Examples
    --------
    >>> log0(torch.tensor([1.0, 0.0]), curvature=1.0)
    tensor([0.7854, 0.0000])
    """
    square = _checked(curvature, x=x) * squared64(x)
    ratio = _arc(square, torch.ones_like(square), defect_of(-square, x.dtype))
    return ratio.to(x.dtype) * x


def mobius_add(x: Tensor, y: Tensor, curvature: Curvature) -> Tensor:
    """Möbius addition x ⊕ y: `y` moved by the isometry that takes the origin to `x`; x + y for
    κ = 0.

    Parameters
    ----------
    x, y : Tensor (..., d)
    curvature : float or Tensor

    Returns
    -------
    Tensor (..., d)
        For κ ≥ 0 the error has norm ≤ 8·eps·‖x ⊕ y‖/c, with c the cosine of half the angle between
        −x and y: the sum is near infinity where c is near 0.

    Examples
    --------
    >>> mobius_add(torch.tensor([0.5, 0.0]), torch.tensor([0.5, 0.0]), curvature=1.0)
    tensor([1.3333, 0.0000])
    """
    size = -_checked(curvature, x=x, y=y)
    least = (16 * floor(x.dtype)) ** 2
    return inside(gyro_sum(x, y, defect(x, size), defect(y, size), size, least), size)


def dist(x: Tensor, y: Tensor, curvature: Curvature) -> Tensor:
    """Geodesic distance; twice the Euclidean distance for κ = 0.

    Parameters
    ----------
    x, y : Tensor (..., d)
    curvature : float or Tensor

    Returns
    -------
    Tensor (...)
        For κ ≥ 0 the relative error is ≤ 8·eps + 8·eps64·tan(a/2), a the angle between the points,
        and at most 2e-7 near an antipode.

    Notes
    -----
    tan²(√κ·dist/2) = κ‖x − y‖²/(1 + 2κ⟨x, y⟩ + κ²‖x‖²‖y‖²).

    Examples
    --------
    >>> dist(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 0.0]), curvature=1.0)
    tensor(1.5708)
    """
    kappa = _checked(curvature, x=x, y=y)
    square = squared64(x.double() - y.double())  # or the cosine near an antipode would be rounding
    length = torch.where(square > 0, square.clamp(min=_LEAST).sqrt(), 0.0)
    whole = defect(x, -kappa) * defect(y, -kappa)
    sine = kappa * square
    cosine = torch.maximum(whole - sine, 16 * floor(torch.float64) * whole).sqrt()
    distance = 2 * length * _arc(sine, cosine, whole)
    return distance.squeeze(-1).to(x.dtype)


def midpoint(x: Tensor, weights: Tensor, curvature: Curvature) -> Tensor:
    """The gyromidpoint of weighted points; their mean for κ = 0.

    It is the point below the sum of the points' position vectors in space, as the Lorentz centroid,
    also on a sphere where the sum lies in the hemisphere opposite to the origin.

    Parameters
    ----------
    x : Tensor (..., n, d)
    weights : Tensor (..., n)
        At least 0, not all 0.
    curvature : float or Tensor
        Broadcasts with the batch shape of the result.

    Returns
    -------
    Tensor (..., d)
        The sum is one of float64, where it leaves the error cosh(r)²·eps64, r the radius of the
        farthest point.

    Notes
    -----
    Bachmann et al., definition 2, whose formula divides by 0 where the sum's time is 0.

    Examples
    --------
    >>> midpoint(torch.tensor([[0.2, 0.0], [0.4, 0.0]]), torch.tensor([0.5, 0.5]), curvature=0.0)
    tensor([0.3000, 0.0000])
    """
    stretch = 1 / defect(x, -_checked(per_set(curvature), x=x))
    points = torch.cat([2 * stretch * x, 2 * stretch - 1], dim=-1)
    total = (weights.unsqueeze(-1) * points).sum(-2)
    return exp0(log0_of_sum(total, curvature).to(x.dtype), curvature)


def position0(v: Tensor, curvature: Curvature) -> Tensor:
    """Position vectors in space of the points exp0(v): λx and λ − 1, which has no pole on a sphere.

    Parameters
    ----------
    v : Tensor (..., d)
    curvature : float or Tensor

    Returns
    -------
    Tensor (..., d + 1)
        The last coordinate is the time, 1 at the origin and for κ = 0, where the others are 2v.

    Examples
    --------
    >>> position0(torch.tensor([0.5, 0.0]), curvature=-1.0)
    tensor([1.1752, 0.0000, 1.5431])
    """
    square = 4 * _checked(curvature, v=v) * squared64(v)
    sine, time = _sine_cosine(square, max_radius(v.dtype))
    return torch.cat([(2 * sine).to(v.dtype) * v, time.to(v.dtype)], dim=-1)


def log0_of_sum(position: Tensor, curvature: Curvature) -> Tensor:
    """Logarithm at the origin of the point below a position vector of any length, such as a sum of
    those of `position0`.

    Parameters
    ----------
    position : Tensor (..., d + 1)
    curvature : float or Tensor

    Returns
    -------
    Tensor (..., d)

    Examples
    --------
    >>> points = position0(torch.tensor([[0.1, 0.0], [0.3, 0.0]]), curvature=0.0)
    >>> log0_of_sum(points.sum(0), curvature=0.0)
    tensor([0.2000, 0.0000])
    """
    space = position[..., :-1]
    time = position[..., -1:].double()
    sine = _checked(curvature, position=position) * squared64(space)
    whole = time.square()
    norm = torch.maximum(whole + sine, floor(position.dtype) * whole)
    return (_arc(sine, time, norm) / 2).to(position.dtype) * space


def _checked(curvature: Curvature, **points: Tensor) -> Size:
    check_points(**points)
    return sectional(curvature)


def _series(q: Tensor, coefficients: list[float]) -> Tensor:
    total = torch.full_like(q, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * q + coefficient
    return total


def _sine_cosine(q: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    """sin(√q)/√q and cos(√q), for q < 0 with sinh, cosh and √−q up to `limit`."""
    near = q.abs() < _NEAR
    small = torch.where(near, q, 0.0)
    root = torch.where(q >= _NEAR, q, 1.0).sqrt()
    sinh, cosh = sinhc_cosh(torch.where(q <= -_NEAR, -q, 1.0), limit)
    sine = torch.where(q > 0, root.sin() / root, sinh)
    cosine = torch.where(q > 0, root.cos(), cosh)
    return (
        torch.where(near, _series(small, _SINE), sine),
        torch.where(near, _series(small, _COSINE), cosine),
    )


def _arc(q: Tensor, cosine: Tensor, whole: Tensor) -> Tensor:
    """The angle with a sine of √q and this cosine, over √q; `whole` is q + cosine². For q < 0 it is
    the hyperbolic angle."""
    ratio = q / cosine.square().clamp(min=_LEAST)
    near = (ratio.abs() < _NEAR) & (cosine > 0)
    small = _series(torch.where(near, ratio, 0.0), _ARC) / torch.where(near, cosine, 1.0)
    root = torch.where((q >= 0) & ~near, q, 1.0).clamp(min=_LEAST).sqrt()
    opposite = torch.where((q < 0) & ~near, -q, 1.0).sqrt()
    hyperbolic = asinh(opposite / torch.where(q < 0, whole, 1.0).sqrt()) / opposite
    angle = torch.where(q < 0, hyperbolic, torch.atan2(root, cosine) / root)
    return torch.where(near, small, angle)
