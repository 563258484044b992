"""Points of the Poincaré ball by their normal coordinates, the tangent vectors v = log0(x) at the
origin.

Any vector is the normal coordinates of a point exp0(v), at distance 2‖v‖ from the origin, and
float32 tells points apart here that lie far beyond what the ball's own coordinates can hold. So
features are read, and prototypes kept, as these.
"""

from typing import Any

import torch
from torch import Tensor

from curvfed.geometry.arguments import Curvature, check_points, magnitude, per_set
from curvfed.geometry.custom_gradient import Gradients, custom_gradient
from curvfed.geometry.norms_apart import through_norms
from curvfed.geometry.safe_math import asinh_root, floor, max_radius, root, sinhc_cosh, squared64


def cdist(v: Tensor, w: Tensor, curvature: Curvature) -> Tensor:
    """Geodesic distances of all exp0(vᵢ) from all exp0(wⱼ), in memory O(n·m).

    Parameters
    ----------
    v : Tensor (..., n, d)
        Such as features, of any length whose square is finite: √|c|‖v‖ up to 1e18 in float32.
    w : Tensor (..., m, d)
        Such as prototypes. Beyond a distance of `safe_math.max_radius`/√|c| from the origin, 39.9
        in float32, they are read as if they were there.
    curvature : float or Tensor
        A tensor broadcasts with the batch shape (...), without n and m.

    Returns
    -------
    Tensor (..., n, m)
        Error ≤ 8·eps·(dist + cosh(r)/√|c|), r the radius √|c|·2‖·‖ of the point nearer to the
        origin. The gradient where the points are equal, where none exists, is 0.

    Notes
    -----
    HyperFed, Eq. 7, wants these of its Eq. 6. With x = tanh(‖v‖)v/‖v‖, and y likewise of w, at
    curvature −1: sinh(dist/2) = ‖x − y‖·cosh‖v‖·cosh‖w‖. Nothing cancels but in x − y, and there is
    no 0/0 at v = 0.

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
    scale = magnitude(per_set(curvature)) ** 0.5
    return (_distances((scale * v).to(v.dtype), (scale * w).to(w.dtype)) / scale).to(v.dtype)


def _forward(v: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    """The distances at curvature −1. By the gradient in closed form a batch costs a dozen
    operations each way."""
    (x, *v_parts) = _ball(v)
    (y, *w_parts) = _ball(w)
    # By differences: the matrix product ‖x‖² + ‖y‖² − 2⟨x, y⟩ would lose what near points differ
    # by.
    apart = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
    both = v_parts[-1] * w_parts[-1].mT
    sinh = apart * both
    square = sinh * sinh
    cosh = (square + 1).sqrt_()
    # asinh, whose own kernel is several times slower.
    half = square.div_(cosh + 1).add_(sinh).log1p_()
    # From where the hyperbolic functions would overflow on, the distance grows as the length does.
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
        gradients[0] = _through_ball(
            by_x, _product(by_both, w_cosh), v, v_length, v_ratio, v_cosh
        ).sum_to_size(v.shape)
    if needs[1]:
        by_y = through_norms(by_apart.mT, y, x, apart.mT)
        by_cosh = _product(by_both.mT, v_cosh).where(w_length <= max_radius(w.dtype) / 2, 0.0)
        gradients[1] = _through_ball(by_y, by_cosh, w, w_length, w_ratio, w_cosh).sum_to_size(
            w.shape
        )
    return tuple(gradients)


def _formula(v: Tensor, w: Tensor) -> Tensor:
    """The distances in torch's own operations, in memory O(n·m·d)."""
    limit = max_radius(v.dtype) / 2
    v_square = squared64(v)
    (v_sinhc, v_cosh), (w_sinhc, w_cosh) = (
        sinhc_cosh(square, limit) for square in (v_square, squared64(w))
    )
    # x·cosh‖v‖·cosh‖w‖ and y likewise, for pairs.
    apart = (v * v_sinhc).unsqueeze(-2) * w_cosh.unsqueeze(-3) - (w * w_sinhc).unsqueeze(
        -3
    ) * v_cosh.unsqueeze(-2)
    beyond = root(v_square) - root(v_square).clamp(max=limit)
    return 2 * (asinh_root(squared64(apart)).squeeze(-1) + beyond).to(v.dtype)


def _product(x: Tensor, y: Tensor) -> Tensor:
    if not torch.is_autocast_enabled(x.device.type):
        return x @ y
    with torch.autocast(x.device.type, enabled=False):
        return x @ y


def _ball(v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """exp0(v) (..., d), and of each (..., 1): ‖v‖, tanh(n)/‖v‖ and cosh(n), n = ‖v‖ up to where
    cosh would overflow."""
    length = torch.linalg.vector_norm(v, dim=-1, keepdim=True).clamp(min=floor(v.dtype))
    n = length.clamp(max=max_radius(v.dtype) / 2)
    ratio = n.tanh().div_(length)
    return ratio * v, length, ratio, n.cosh_()


def _through_ball(
    by_x: Tensor, by_cosh: Tensor, v: Tensor, length: Tensor, ratio: Tensor, cosh: Tensor
) -> Tensor:
    """The gradient with respect to v, from those with respect to what `_ball` makes of it.

    Where n stops growing, that by cosh is the distance's own growth, to rounding: sinh(dist/2) is
    as large as its cosh.
    """
    along = (by_x * v).sum(-1, keepdim=True)
    sinh = ratio * length * cosh
    radial = (along * (cosh.pow(-2) - ratio) / length + by_cosh * sinh) / length
    return torch.addcmul(ratio * by_x, radial, v)


_distances = custom_gradient(_forward, _backward, _formula)
