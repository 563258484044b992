"""The Poincaré ball model of hyperbolic space.

At curvature c, a point is x with |c|‖x‖² < 1, and the metric is λ² times the Euclidean metric, λ =
2/(1 − |c|‖x‖²). HyperFed and the literature on hulls write k or c for |c|. HyperFed's Möbius
addition has a misprint: its (1 − ‖x₁‖)x₂² must read (1 − ‖x₁‖²)x₂.

Throughout

- shapes: points and tangent vectors (..., d);
- dtypes, `curvature`, errors and derivatives: as in `curvfed.geometry.lorentz`; in `cdist` the
  batch consists of sets of points;
- curvature 0, as a number or an entry of a tensor, is the limit: λ = 2, so that exp0(v) = v, x ⊕ y
  = x + y and the distance is 2‖x − y‖. The derivative of a distance by a curvature of 0 is set to
  0;
- r is √|c| times the distance from the origin, √|c|‖x‖ = tanh(r/2). A tangent vector v at the
  origin, where λ = 2, has length 2‖v‖;
- limit: the coordinates cannot tell points near the boundary apart. `project` brings results back
  to r ≤ 13.9 in float32 and 34.0 in float64, where rounding the coordinates changes r by 0.03.
  Arguments may be any vectors of a norm up to 1e30; beyond the limit they are read as if 1 −
  |c|‖x‖² were 16·eps, by `cdist` with coordinates of at most 1e15.
  `curvfed.geometry.normal_coordinates` has distances without a limit;
- error bounds: against the exact function of the given coordinates, for d ≤ 1000 and points within
  the limit; eps is that of the dtype. 1 − |c|‖x‖² is computed in float64, which leaves a factor κ =
  max(1, 2e-16·cosh²(r/2)/eps), r that of the farthest point: 1 in float32, cosh²(r/2) in float64,
  the effect of rounding the coordinates of a far point. Everything else is a sum of positive terms.
  Tested against mpmath; the constants leave a factor of 1.5 or more.
"""

import torch
from torch import Tensor

from curvfed.geometry.arguments import Curvature, Size, check_points, magnitude, per_set
from curvfed.geometry.safe_math import (
    arc_factors,
    asinh,
    asinh_root,
    asinhc,
    max_radius,
    norms_apart,
    root,
    sinhc_cosh,
    squared64,
)

# |c| at which distances equal those at 0 to rounding, for vectors of a norm from 1e-18 to 1e12
_FLATTEST = 1e-40
# largest coordinate with a square that float32 can hold; points of the ball stay far below
_FARTHEST = 1e15


def project(x: Tensor, curvature: Curvature) -> Tensor:
    """Bring points beyond the limit back to it.

    Parameters
    ----------
    x : Tensor (..., d), finite
    curvature : float or Tensor

    Returns
    -------
    Tensor (..., d)
        `x` to the last bit if √|c|‖x‖ ≤ 1 − 12·eps, else the point on its ray with √|c|‖x‖ = 1 −
        16·eps. The gap is wider than rounding, so `project` is idempotent to the last bit. Relative
        error of every coordinate ≤ 4·eps.

    Examples
    --------
    >>> project(torch.tensor([3.0, 4.0]), curvature=-1.0)
    tensor([0.6000, 0.8000])
    """
    size = _checked(curvature, x=x)
    eps = torch.finfo(x.dtype).eps
    square = size * squared64(x)
    border = (1 - 12 * eps) ** 2
    shrink = (1 - 16 * eps) * square.clamp(min=border).rsqrt()
    factor = torch.where(square > border, shrink, 1.0)
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
        Relative error of every coordinate ≤ 8·eps. Near the boundary this is a large distance:
        eps·sinh(r)/√|c|, 1e-3 at r = 10 in float32. For distances of features use
        `curvfed.geometry.normal_coordinates`.

    Notes
    -----
    HyperFed, Eq. 6.

    Examples
    --------
    >>> exp0(torch.tensor([1.0, 0.0]), curvature=-1.0)
    tensor([0.7616, 0.0000])
    """
    length = root(_checked(curvature, v=v) * squared64(v))
    ratio = (length.tanh() / length).to(v.dtype)
    return project(ratio * v, curvature)


def log0(x: Tensor, curvature: Curvature) -> Tensor:
    """Logarithm at the origin, the inverse of `exp0`; relative error of every coordinate ≤ 8κ·eps.

    Examples
    --------
    >>> log0(torch.tensor([0.5, 0.0]), curvature=-1.0)
    tensor([0.5493, 0.0000])
    """
    # By asinh of sinh(r/2): artanh of tanh(r/2) would lose the digits that float64 has kept.
    square = _checked(curvature, x=x) * squared64(x)
    stretch = _defect_of(square, x.dtype).rsqrt()
    ratio = asinhc(root(square) * stretch) * stretch
    return ratio.to(x.dtype) * x


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

    Examples
    --------
    >>> mobius_add(torch.tensor([0.5, 0.0]), torch.tensor([0.5, 0.0]), curvature=-1.0)
    tensor([0.8000, 0.0000])
    """
    size = _checked(curvature, x=x, y=y)
    total = _add(x, y, _defect(x, size), _defect(y, size), size)
    return project(total, curvature)


def exp(x: Tensor, v: Tensor, curvature: Curvature) -> Tensor:
    """Exponential map at `x`.

    Parameters
    ----------
    x : Tensor (..., d)
    v : Tensor (..., d)
        Tangent at `x`, of length λ‖v‖. The length is limited to `safe_math.max_radius`/√|c|, which
        is farther than any two points are apart.
    curvature : float or Tensor

    Returns
    -------
    Tensor (..., d)
        Its distance from the exact point is ≤ 8κ·(cosh(n) + cosh(r))·eps/√|c|, n = √|c|λ‖v‖, r the
        radius of the result.

    Notes
    -----
    HyperFed, Eq. 2.

    Examples
    --------
    >>> exp(torch.tensor([0.0, 0.5]), torch.tensor([0.0, 0.1]), curvature=-1.0)
    tensor([0.0000, 0.5932])
    """
    size = _checked(curvature, x=x, v=v)
    defect = _defect(x, size)
    square = squared64(v) * size / defect.square()
    ratio, cosh = sinhc_cosh(square, max_radius(x.dtype) / 2)
    step = (ratio / cosh / defect).to(x.dtype) * v
    # 1 − tanh² is 1/cosh², also where tanh rounds to 1.
    total = _add(x, step, defect, cosh**-2, size)
    return project(total, curvature)


def log(x: Tensor, y: Tensor, curvature: Curvature) -> Tensor:
    """Logarithm at `x`, the inverse of `exp`: the tangent vector at `x` that reaches `y`.

    Parameters
    ----------
    x, y : Tensor (..., d)
    curvature : float or Tensor

    Returns
    -------
    Tensor (..., d)
        The error has norm ≤ 8κ·eps times that of the vector. Equal points give 0 and finite
        gradients.

    Examples
    --------
    >>> log(torch.tensor([0.0, 0.0]), torch.tensor([0.5, 0.0]), curvature=-1.0)
    tensor([0.5493, 0.0000])
    """
    size = _checked(curvature, x=x, y=y)
    apart = y - x
    x_defect = _defect(x, size)
    y_defect = _defect(y, size)
    square = size * squared64(apart)
    forward, _ = arc_factors(square / (x_defect * y_defect))
    forward = forward / y_defect
    towards = (forward * x_defect).to(x.dtype) * apart
    inwards = (forward * square).to(x.dtype)
    return torch.addcmul(towards, inwards, x, value=-1)


def dist(x: Tensor, y: Tensor, curvature: Curvature) -> Tensor:
    """Geodesic distance.

    Parameters
    ----------
    x, y : Tensor (..., d)
        ``dist(x[:, None], y, curvature)`` is the matrix of all distances; `cdist` computes it
        without storing x − y for all pairs.
    curvature : float or Tensor

    Returns
    -------
    Tensor (...)
        Relative error ≤ 8κ·eps for distances above √(smallest normal number), 1e-19 in float32;
        shorter distances may become 0. Symmetric to the last bit. The gradient at equal points,
        where none exists, is 0.

    Notes
    -----
    HyperFed, Eq. 1; its arcosh loses half of the digits near 1 and the rest near the boundary. Here
    sinh²(√|c|·dist/2) = |c|‖x − y‖²/((1 − |c|‖x‖²)(1 − |c|‖y‖²)).

    Examples
    --------
    >>> dist(torch.tensor([0.0, 0.0]), torch.tensor([0.5, 0.0]), curvature=-1.0)
    tensor(1.0986)
    """
    size = _above_0(_checked(curvature, x=x, y=y))
    square = size * squared64(x - y) / (_defect(x, size) * _defect(y, size))
    distance = asinh_root(square) * (2 / size**0.5)
    return distance.squeeze(-1).to(x.dtype)


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
        Error and gradient as in `dist`. Second derivatives take memory O(n·m·d).

    Examples
    --------
    >>> cdist(torch.tensor([[0.0, 0.0], [0.5, 0.0]]), torch.tensor([[0.5, 0.0]]), curvature=-1.0)
    tensor([[1.0986],
            [0.0000]])
    """
    curvature = per_set(curvature)
    size = _above_0(_checked(curvature, x=x, y=y))
    x = x.clamp(-_FARTHEST, _FARTHEST)
    y = y.clamp(-_FARTHEST, _FARTHEST)
    weight = size**0.5 * _defect(x, size).rsqrt() * _defect(y, size).rsqrt().mT
    sinh = norms_apart(x, y) * weight.to(x.dtype)
    return (asinh(sinh) * (2 / size**0.5)).to(x.dtype)


def _checked(curvature: Curvature, **points: Tensor) -> Size:
    """|c| in float64, so that 1 − |c|‖x‖² is computed in float64."""
    check_points(**points)
    return magnitude(curvature, flat=True)


def _above_0(size: Size) -> Size:
    """|c|, so small in the place of 0 that only rounding tells their distances apart."""
    if isinstance(size, Tensor):
        return size.masked_fill(size == 0, _FLATTEST)
    return size or _FLATTEST


def _defect(x: Tensor, size: Size) -> Tensor:
    """1 − |c|‖x‖², (..., d) -> (..., 1), at least 16·eps, in float64, because float32 would lose
    all digits in the difference."""
    return _defect_of(size * squared64(x), x.dtype)


def _defect_of(square: Tensor, dtype: torch.dtype) -> Tensor:
    return (1 - square).clamp(min=16 * torch.finfo(dtype).eps)


def _add(x: Tensor, y: Tensor, x_defect: Tensor, y_defect: Tensor, size: Size) -> Tensor:
    """x ⊕ y from its arguments and their defects 1 − |c|‖·‖².

    With w = x + y the numerator is (1 − |c|‖x‖²)w + |c|‖w‖²x and the denominator (1 − |c|‖x‖²)(1 −
    |c|‖y‖²) + |c|‖w‖². Unlike in the usual form, nothing cancels where ⟨x, y⟩ < 0.
    """
    total = x + y
    square = size * squared64(total)
    divided = 1 / (x_defect * y_defect + square)
    of_total = (x_defect * divided).to(x.dtype)
    of_x = (square * divided).to(x.dtype)
    return torch.addcmul(of_total * total, of_x, x)
