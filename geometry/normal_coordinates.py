"""Points of the Poincaré ball by their normal coordinates, the tangent vectors v = log0(x) at the
origin.

Any vector v is the normal coordinates of a point, exp0(v), at distance 2‖v‖ from the origin. In
float32 they tell points apart far beyond the limit of the ball's own coordinates, so features and
prototypes are stored in this form.
"""

from typing import Any

import torch
from torch import Tensor

from curvfed.geometry.arguments import Curvature, check_points, magnitude, per_set
from curvfed.geometry.custom_gradient import Gradients, custom_gradient
from curvfed.geometry.safe_math import (
    asinh_root,
    dot,
    floor,
    max_radius,
    norms_apart,
    root,
    sinhc_cosh,
    squared64,
    through_norms,
)


def cdist(v: Tensor, w: Tensor, curvature: Curvature) -> Tensor:
    """Geodesic distances of all exp0(vᵢ) from all exp0(wⱼ), in memory O(n·m).

    Parameters
    ----------
    v : Tensor (..., n, d)
        For example features; their squared lengths must be finite, √|c|‖v‖ up to 1e18 in float32.
    w : Tensor (..., m, d)
        For example prototypes. Those farther than `safe_math.max_radius`/√|c| from the origin,
        39.9/√|c| in float32, are read as if at this distance.
    curvature : float or Tensor
        A tensor broadcasts with the batch shape (...), without n and m. At 0 the distances are
        their limits 2‖v − w‖, and their derivatives by the curvature are set to 0.

    Returns
    -------
    Tensor (..., n, m)
        Error ≤ 8·eps·(dist + cosh(r)/√|c|), r the radius √|c|·2‖·‖ of the point nearer to the
        origin. The gradient where the points are equal, where none exists, is 0.

    Notes
    -----
    HyperFed's Eq. 7 uses these distances, with its Eq. 6. At curvature −1, with x = tanh(‖v‖)v/‖v‖
    and y likewise from w, sinh(dist/2) = ‖x − y‖·cosh‖v‖·cosh‖w‖. Only x − y can cancel, and v = 0
    does not give 0/0.

    Examples
    --------
    >>> v = torch.tensor([[1.0, 0.0], [100.0, 0.0]])
    >>> cdist(v, torch.tensor([[-1.0, 0.0]]), curvature=-1.0).round(decimals=3)
    tensor([[  4.],
            [202.]])
    """
    check_points(v=v, w=w)
    if isinstance(curvature, float) and curvature == -1.0:
        return _distances(v, w)
    size = magnitude(per_set(curvature), flat=True)
    if not isinstance(size, Tensor):
        return _at(v, w, size**0.5) if size else 2 * norms_apart(v, w)
    curved = _at(v, w, size.masked_fill(size == 0, 1.0) ** 0.5)
    return torch.where(size == 0, 2 * norms_apart(v, w), curved)


def _at(v: Tensor, w: Tensor, scale: float | Tensor) -> Tensor:
    """The distances at the curvature −scale²."""
    unit_v = (scale * v).to(v.dtype)
    unit_w = (scale * w).to(w.dtype)
    return (_distances(unit_v, unit_w) / scale).to(v.dtype)


def _forward(v: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    """The distances at curvature −1. With the gradient in closed form, a batch costs a dozen
    operations each way."""
    x, *v_parts = _ball(v)
    y, *w_parts = _ball(w)
    # By differences: the matrix product ‖x‖² + ‖y‖² − 2⟨x, y⟩ would lose the difference of near
    # points.
    apart = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
    both = v_parts[-1] * w_parts[-1].mT
    sinh = apart * both
    square = sinh * sinh
    cosh = (square + 1).sqrt_()
    # asinh; torch's own kernel is several times slower.
    half = square.div_(cosh + 1).add_(sinh).log1p_()
    # Beyond the overflow of the hyperbolic functions, the distance grows with the length.
    beyond = v_parts[0] - v_parts[0].clamp(max=max_radius(v.dtype) / 2)
    return half.add_(beyond).mul_(2), x, y, *v_parts, *w_parts, apart, both, cosh


def _backward(
    gradient: Tensor, inputs: tuple[Any, ...], output: tuple[Tensor, ...], needs: tuple[bool, ...]
) -> Gradients:
    v, w = inputs
    _, x, y, v_length, v_ratio, v_cosh, w_length, w_ratio, w_cosh, apart, both, cosh = output
    by_sinh = 2 * gradient / cosh
    by_apart = by_sinh * both
    by_both = by_sinh * apart
    gradients: list[Tensor | None] = [None, None]
    if needs[0]:
        by_x = through_norms(by_apart, x, y, apart)
        by_v_cosh = _product(by_both, w_cosh)
        by_v = _through_ball(by_x, by_v_cosh, v, v_length, v_ratio, v_cosh)
        gradients[0] = by_v.sum_to_size(v.shape)
    if needs[1]:
        by_y = through_norms(by_apart.mT, y, x, apart.mT)
        is_within = w_length <= max_radius(w.dtype) / 2
        by_w_cosh = _product(by_both.mT, v_cosh).where(is_within, 0.0)
        by_w = _through_ball(by_y, by_w_cosh, w, w_length, w_ratio, w_cosh)
        gradients[1] = by_w.sum_to_size(w.shape)
    return tuple(gradients)


def _formula(v: Tensor, w: Tensor) -> Tensor:
    """The distances in torch's own operations, in memory O(n·m·d)."""
    limit = max_radius(v.dtype) / 2
    v_square = squared64(v)
    v_sinhc, v_cosh = sinhc_cosh(v_square, limit)
    w_sinhc, w_cosh = sinhc_cosh(squared64(w), limit)
    # x·cosh‖v‖·cosh‖w‖ and y·cosh‖v‖·cosh‖w‖ of all pairs.
    scaled_x = (v * v_sinhc).unsqueeze(-2) * w_cosh.unsqueeze(-3)
    scaled_y = (w * w_sinhc).unsqueeze(-3) * v_cosh.unsqueeze(-2)
    square = squared64(scaled_x - scaled_y)
    half = asinh_root(square).squeeze(-1)
    beyond = root(v_square) - root(v_square).clamp(max=limit)
    return 2 * (half + beyond).to(v.dtype)


def _product(x: Tensor, y: Tensor) -> Tensor:
    if not torch.is_autocast_enabled(x.device.type):
        return x @ y
    with torch.autocast(x.device.type, enabled=False):
        return x @ y


def _ball(v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """exp0(v) (..., d), and (..., 1) each: ‖v‖, tanh(n)/‖v‖ and cosh(n), where n is ‖v‖, limited so
    that cosh does not overflow."""
    length = torch.linalg.vector_norm(v, dim=-1, keepdim=True).clamp(min=floor(v.dtype))
    n = length.clamp(max=max_radius(v.dtype) / 2)
    ratio = n.tanh().div_(length)
    return ratio * v, length, ratio, n.cosh_()


def _through_ball(
    by_x: Tensor, by_cosh: Tensor, v: Tensor, length: Tensor, ratio: Tensor, cosh: Tensor
) -> Tensor:
    """The gradient with respect to v, from those with respect to the results of `_ball`.

    Beyond the limit of n, the gradient by cosh gives the growth of the distance with the length, up
    to rounding: sinh(dist/2) is as large as its cosh.
    """
    along = dot(by_x, v)
    sinh = ratio * length * cosh
    through_ratio = along * (cosh.pow(-2) - ratio) / length
    radial = (through_ratio + by_cosh * sinh) / length
    return torch.addcmul(ratio * by_x, radial, v)


_distances = custom_gradient(_forward, _backward, _formula)
