"""The Lorentz (hyperboloid) model of hyperbolic space.

A point of curvature c = −1/K is x = (time, space) with −time² + |space|² = −K and time > 0.
FlatLand writes K for the squared radius. Its Eqs. 1 and 6 leave the manifold unless K = 1; here
they read time = √K cosh(‖v‖/√K), space = √K sinh(‖v‖/√K) v/‖v‖.

Throughout

- shapes: points (..., d+1), time first; tangent vectors at the origin (..., d), elsewhere (...,
  d+1);
- dtype: float32 or float64; the result has the dtype of the points;
- `curvature`: a negative number, or a floating-point tensor of shape () or a shape that broadcasts
  with the batch shape (...), which may require grad; in `centroid` the batch consists of sets of
  points. Its dtype may differ from that of the points. The values of a tensor are not checked,
  because that would make the device wait. Curvature 0 is refused: the time √K of every point has no
  limit there (`curvfed.geometry.poincare` takes 0);
- TypeError: an argument is not a tensor of float32 or float64 (float16, bfloat16, integers, lists,
  arrays), or differs in dtype from the first, or the curvature is neither a number nor a
  floating-point tensor. ValueError: the numbers of coordinates, which do not broadcast, differ, or
  a curvature that is a number is not negative and finite;
- every function is differentiable twice, also with respect to the curvature, and works under
  ``torch.func`` in reverse mode (``jacrev(jacrev(f))``, not ``hessian(f)``), under
  ``torch.compile``, and under autocast, which it ignores. First derivatives keep the dtype's
  digits. Second derivatives have the condition cosh²(r), and close to the origin and for near
  points an absolute error of about √eps; where no first derivative exists they are 0;
- only the space coordinates count. Time coordinates of points and of tangent vectors are computed
  from them and not read (except by `inner`, `normalize` and `centroid`), so rounding of the time
  does not matter, and the gradient with respect to an input lies in its space coordinates;
- error bounds: against the exact function of the given coordinates, for d ≤ 1000 and r ≤
  `safe_math.max_radius`, where r is √|c| times the distance from the origin and eps is that of the
  dtype. A factor cosh(r) is the condition: the effect of rounding the coordinates of a far point.
  Tested against mpmath; the constants leave a factor of 2.5. Coordinates of points must be below
  1e18 in float32 and 1e150 in float64. Tangent vectors may have any norm up to 1e30.
"""

import math

import torch
from torch import Tensor

from curvfed.geometry.arguments import Curvature, Size, check_points, checked
from curvfed.geometry.lorentz_distance import squared_half_sinh
from curvfed.geometry.safe_math import (
    arc_factors,
    asinh_root,
    asinhc,
    dot,
    floor,
    max_radius,
    root,
    sinhc_cosh,
    squared,
    squared64,
    wide_squared,
)


def inner(x: Tensor, y: Tensor, keepdim: bool = False) -> Tensor:
    """Minkowski product −x₀y₀ + x₁y₁ + … of any two vectors.

    Parameters
    ----------
    x, y : Tensor (..., d+1)
    keepdim : bool

    Returns
    -------
    Tensor (...) or (..., 1)
        Absolute error ≤ (d+2)·eps·Σ|xᵢyᵢ|: −⟨x, y⟩ − K loses almost all digits for near points and
        for points far out; use `dist` for them.

    Examples
    --------
    >>> inner(torch.tensor([2.0, 1.0, 1.0]), torch.tensor([2.0, 1.0, 1.0]))
    tensor(-2.)
    """
    check_points(x=x, y=y)
    product = x * y
    space = product[..., 1:].sum(-1, keepdim=True)
    value = space - product[..., :1]
    return value if keepdim else value.squeeze(-1)


def time_from_space(space: Tensor, curvature: Curvature) -> Tensor:
    """Time coordinate √(K + |space|²), (..., d) -> (..., 1); relative error ≤ 8·eps.

    Examples
    --------
    >>> time_from_space(torch.tensor([2.0, 2.0]), curvature=-1.0)
    tensor([3.])
    """
    return _time(space, checked(curvature, space=space))


def lift(space: Tensor, curvature: Curvature) -> Tensor:
    """Point over given space coordinates, (..., d) -> (..., d+1); error as `time_from_space`.

    Examples
    --------
    >>> lift(torch.tensor([2.0, 2.0]), curvature=-1.0)
    tensor([3., 2., 2.])
    """
    return _lift(space, checked(curvature, space=space))


def project(x: Tensor, curvature: Curvature) -> Tensor:
    """Point with the space coordinates of `x`, (..., d+1) -> (..., d+1); idempotent to the last
    bit.

    Examples
    --------
    >>> project(torch.tensor([0.0, 2.0, 2.0]), curvature=-1.0)
    tensor([3., 2., 2.])
    """
    size = checked(curvature, x=x)
    return _lift(x[..., 1:], size)


def exp0(v: Tensor, curvature: Curvature) -> Tensor:
    """Exponential map at the origin.

    Parameters
    ----------
    v : Tensor (..., d)
        A longer vector gives the point in its direction at radius `safe_math.max_radius`, 39.9 in
        float32, minus ½ln(1/|c|) if |c| < 1. All coordinates are thus at most 1.2e17, 1e138 in
        float64, and valid for every function.
    curvature : float or Tensor

    Returns
    -------
    Tensor (..., d+1)
        Relative error of every coordinate ≤ 8(1+r)·eps.

    Notes
    -----
    FlatLand, Eq. 1, corrected for K ≠ 1.

    Examples
    --------
    >>> exp0(torch.tensor([1.0, 0.0]), curvature=-1.0)
    tensor([1.5431, 1.1752, 0.0000])
    """
    size = checked(curvature, v=v)
    ratio, cosh = sinhc_cosh(wide_squared(v) * size, _reach(size, v.dtype))
    time = (cosh / size**0.5).to(v.dtype)
    space = ratio.to(v.dtype) * v
    return torch.cat([time, space], dim=-1)


def log0(x: Tensor, curvature: Curvature) -> Tensor:
    """Logarithm at the origin, the inverse of `exp0`.

    Parameters
    ----------
    x : Tensor (..., d+1)
    curvature : float or Tensor

    Returns
    -------
    Tensor (..., d)
        Relative error of every coordinate ≤ 8·eps, by asinh of the space part: acosh of the time
        would lose half of the digits near the origin.

    Examples
    --------
    >>> log0(exp0(torch.tensor([1.0, 0.0]), curvature=-1.0), curvature=-1.0).round(decimals=4)
    tensor([1., 0.])
    """
    size = checked(curvature, x=x)
    space = x[..., 1:]
    sinh = root(squared(space) * size)
    return asinhc(sinh) * space


def exp(x: Tensor, v: Tensor, curvature: Curvature) -> Tensor:
    """Exponential map at `x`.

    Parameters
    ----------
    x : Tensor (..., d+1)
    v : Tensor (..., d+1)
        Tangent at `x`. The step ends where ln(2cosh(r)) + n, r and n as below, reaches the largest
        radius of `exp0`: 39.2 from the origin in float32, and no step leads farther out. In float32
        gradients are finite if the largest coordinate of `v` times cosh(r) is below 1e36: for
        norms up to 1e30 at r < 13, and for norms up to 1e18 everywhere.
    curvature : float or Tensor

    Returns
    -------
    Tensor (..., d+1)
        Its distance from the exact point is ≤ 8(1+n)·cosh(r)cosh(n)·eps/√|c|, r the radius of `x`,
        n = √|c|‖v‖.

    Examples
    --------
    >>> x, y = lift(torch.eye(2), curvature=-1.0)
    >>> exp(x, log(x, y, curvature=-1.0), curvature=-1.0).abs().round(decimals=4)
    tensor([1.4142, 0.0000, 1.0000])
    """
    size = checked(curvature, x=x, v=v)
    base = x[..., 1:]
    step = v[..., 1:]
    time = (squared(base) * size + 1).sqrt()
    above = time + 1
    # The step is taken at the origin and moved back to x. A tangent vector at the origin has only
    # space coordinates, so its norm is a sum of squares. The usual form, cosh(n)x + sinh(n)v/n,
    # loses another factor cosh(r) on the way inwards.
    # Two quotients, because one by time·(time + 1) has gradients that overflow far out.
    half_way = base / above
    along = dot(step, half_way) / (time / size)
    at_origin = torch.addcmul(step, along, base, value=-1)
    room = (_reach(size, x.dtype) - (2 * time).log()).clamp(min=0)  # r ≤ ln(2 cosh r)
    wide_ratio, wide_cosh = sinhc_cosh(wide_squared(at_origin) * size, room)
    ratio = wide_ratio.to(x.dtype)
    cosh = wide_cosh.to(x.dtype)
    moved = ratio * at_origin
    back = cosh + dot(moved, half_way) * size
    return _lift(torch.addcmul(moved, back, base), size)


def log(x: Tensor, y: Tensor, curvature: Curvature) -> Tensor:
    """Logarithm at `x`, the inverse of `exp`: the tangent vector at `x` that reaches `y`.

    Parameters
    ----------
    x, y : Tensor (..., d+1)
    curvature : float or Tensor

    Returns
    -------
    Tensor (..., d+1)
        The error, itself a tangent vector, has Minkowski norm ≤ 8·cosh(r)·eps·dist(x, y), r the
        radius of `x`. Equal points give 0 and finite gradients.

    Examples
    --------
    >>> x = lift(torch.tensor([0.0, 0.0]), curvature=-1.0)
    >>> log(x, exp0(torch.tensor([0.5, 0.0]), curvature=-1.0), curvature=-1.0)
    tensor([0.0000, 0.5000, 0.0000])
    """
    size = checked(curvature, x=x, y=y)
    base = x[..., 1:]
    # y − cosh(δ)x = (y − x) − 2 sinh²(δ/2)x: nothing cancels for near points.
    forward, back = arc_factors(squared_half_sinh(x, y, size**0.5))
    apart = y[..., 1:] - base
    space = torch.addcmul(forward * apart, back, base, value=-1)
    time = dot(space, base) / _time(base, size)
    return torch.cat([time, space], dim=-1)


def dist(x: Tensor, y: Tensor, curvature: Curvature) -> Tensor:
    """Geodesic distance.

    Parameters
    ----------
    x, y : Tensor (..., d+1)
    curvature : float or Tensor

    Returns
    -------
    Tensor (...)
        Relative error ≤ 8·cosh(r)·eps, r the radius of the point nearer to the origin, for
        distances above √(smallest normal number), 1e-19 in float32; shorter distances may become 0.
        Symmetric up to this error. The gradient at equal points, where none exists, is 0.

    Examples
    --------
    >>> x, y = exp0(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), curvature=-1.0)
    >>> dist(x, y, curvature=-1.0).round(decimals=4)
    tensor(2.)
    """
    scale = checked(curvature, x=x, y=y) ** 0.5
    half = asinh_root(squared_half_sinh(x, y, scale))
    return (half * (2 / scale)).squeeze(-1)


def normalize(x: Tensor, curvature: Curvature) -> Tensor:
    """The point on the ray of a time-like vector, such as a weighted sum of points.

    Parameters
    ----------
    x : Tensor (..., d+1)
        Its scale does not matter. A vector that is not time-like to working precision (|time| ≤
        |space| or nearly) gives the point in the direction of its space part at r = −½ ln eps, 8.0
        in float32 and 18.0 in float64: the two coordinates can tell points apart up to there. The
        zero vector gives the origin. Only the absolute value of the time is used.
    curvature : float or Tensor

    Returns
    -------
    Tensor (..., d+1)
        Relative error of every coordinate ≤ 8·cosh(2r)·eps, r the radius of the result: the
        condition of −⟨x, x⟩.

    Examples
    --------
    >>> normalize(torch.tensor([6.0, 4.0, 4.0]), curvature=-1.0).round(decimals=4)
    tensor([3., 2., 2.])
    """
    scale = checked(curvature, x=x) ** 0.5
    # The unit is a power of 2 near the vector's length: squares neither overflow nor vanish, and
    # the division is exact.
    unit = (squared64(x.detach()).log2() / 2).round().exp2().to(x.dtype)
    x = x / torch.where(unit > 0, unit, 1.0)
    time = x[..., :1].abs()
    space = x[..., 1:]
    square = squared(space)
    length = (square + torch.finfo(x.dtype).tiny).sqrt()
    # (time − length)/(time + length) = exp(−2r).
    total = torch.maximum(time, length) + length
    minimum = floor(x.dtype) * total.square()
    squared_shrink = torch.maximum(time.square() - square, minimum)
    shrink = squared_shrink.clamp(min=torch.finfo(x.dtype).tiny).sqrt()
    unit_time = (1 + (square / shrink / shrink)).sqrt()
    return torch.cat([unit_time / scale, space / (shrink * scale)], dim=-1)


def centroid(x: Tensor, weights: Tensor, curvature: Curvature) -> Tensor:
    """Weighted Lorentz centroid √K s/√−⟨s, s⟩ with s = Σ wᵢxᵢ.

    Parameters
    ----------
    x : Tensor (..., n, d+1)
    weights : Tensor (..., n) for one centroid or (..., m, n) for m of them
        A matrix if it has at least as many dimensions as `x`. Non-negative weights that are not all
        0 make a time-like sum; any other sum is treated as in `normalize`.
    curvature : float or Tensor
        Broadcasts with the batch shape of the result.

    Returns
    -------
    Tensor (..., d+1) or (..., m, d+1)
        With non-negative weights and at most 1000 points, the error of every coordinate is ≤
        8·cosh(2r)·eps times the time coordinate, r the radius of the result.

    Raises
    ------
    ValueError
        If the number of weights differs from the number of points.

    Notes
    -----
    Law et al., Lorentzian distance learning for hyperbolic representations (2019).

    Examples
    --------
    >>> x = exp0(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), curvature=-1.0)
    >>> centroid(x, torch.tensor([0.5, 0.5]), curvature=-1.0)
    tensor([1., 0., 0.])
    """
    check_points(x=x)
    if not isinstance(weights, Tensor) or weights.dtype != x.dtype:
        raise TypeError(
            f"weights: got {getattr(weights, 'dtype', type(weights).__name__)}; allowed is"
            f" {x.dtype}, as x"
        )
    if x.ndim < 2 or weights.ndim == 0 or weights.shape[-1] != x.shape[-2]:
        raise ValueError(
            f"weights: got shape {tuple(weights.shape)} for points of shape {tuple(x.shape)}; the"
            " points must be (..., n, d+1), and the last dimension of the weights must be their"
            " number n"
        )
    with torch.autocast(x.device.type, enabled=False):
        if weights.ndim >= x.ndim:
            sums = weights @ x
        else:
            sums = (weights.unsqueeze(-2) @ x).squeeze(-2)
    return normalize(sums, curvature)


def _reach(size: Size, dtype: torch.dtype) -> Size:
    """The largest radius of a point: `max_radius`, or less if the coordinates are larger than those
    at curvature −1."""
    if isinstance(size, Tensor):
        return max_radius(dtype) + (size.log() / 2).clamp(max=0)
    return max_radius(dtype) + min(math.log(size) / 2, 0)


def _time(space: Tensor, size: Size) -> Tensor:
    return (squared(space) + 1 / size).sqrt()


def _lift(space: Tensor, size: Size) -> Tensor:
    return torch.cat([_time(space, size), space], dim=-1)
