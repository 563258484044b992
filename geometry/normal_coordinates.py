"""Points of the Poincaré ball by their normal coordinates, the tangent vectors v = log0(x) at the origin.

Any vector is the normal coordinates of a point exp0(v), at distance 2‖v‖ from the origin, and float32 tells points apart
here that lie far beyond what the ball's own coordinates can hold. So features are read, and prototypes kept, as these.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from curvfed.geometry.safe_math import Curvature, floor, magnitude, max_radius


def cdist(v: Tensor, w: Tensor, curvature: Curvature) -> Tensor:
    """Geodesic distances of all exp0(vᵢ) from all exp0(wⱼ), in memory O(n·m).

    Parameters
    ----------
    v : Tensor (..., n, d)
        Such as features, of any length.
    w : Tensor (..., m, d)
        Such as prototypes. Beyond a distance of `safe_math.max_radius`/√|c| from the origin, 39.9 in float32, they are read
        as if they were there.
    curvature : float or Tensor
        A tensor broadcasts with the batch shape (...), without n and m.

    Returns
    -------
    Tensor (..., n, m)
        Error ≤ 8·eps·(dist + cosh(r)/√|c|), r the radius √|c|·2‖·‖ of the point nearer to the origin. The gradient where
        the points are equal, where none exists, is 0. Differentiable once.

    Notes
    -----
    HyperFed, Eq. 7, wants these of its Eq. 6. With x = tanh(‖v‖)v/‖v‖, and y likewise of w, at curvature −1:
    sinh(dist/2) = ‖x − y‖·cosh‖v‖·cosh‖w‖. Nothing cancels but in x − y, and there is no 0/0 at v = 0.
    """
    if isinstance(curvature, float) and curvature == -1.0:
        found: Tensor = _Distances.apply(v, w)
        return found
    scale = magnitude(curvature.unsqueeze(-1) if isinstance(curvature, Tensor) and curvature.ndim else curvature) ** 0.5
    found = _Distances.apply(scale * v, scale * w)
    return found / scale


class _Distances(torch.autograd.Function):
    """`cdist` at curvature −1, its gradient in closed form: a step on a batch costs a dozen operations each way."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, w: Tensor) -> Tensor:
        (x, *v_parts), (y, *w_parts) = _ball(v), _ball(w)
        # By differences: the matrix product ‖x‖² + ‖y‖² − 2⟨x, y⟩ would lose what near points differ by.
        apart = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
        both = v_parts[-1] * w_parts[-1].mT
        sinh = apart * both
        square = sinh * sinh
        cosh = (square + 1).sqrt_()
        ctx.save_for_backward(v, w, x, y, *v_parts, *w_parts, apart, both, cosh)
        # asinh, whose own kernel is several times slower.
        half = square.div_(cosh + 1).add_(sinh).log1p_()
        # From where the hyperbolic functions would overflow on, the distance grows as the length does.
        beyond = v_parts[0] - v_parts[0].clamp(max=max_radius(v.dtype) / 2)
        return half.add_(beyond).mul_(2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        v, w, x, y, v_length, v_ratio, v_cosh, w_length, w_ratio, w_cosh, apart, both, cosh = ctx.saved_tensors
        by_sinh = 2 * gradient / cosh
        by_apart, by_both = by_sinh * both, by_sinh * apart
        found: list[Tensor | None] = [None, None]
        if ctx.needs_input_grad[0]:
            by_x = _through_norms(by_apart, x, y, apart)
            found[0] = _through_ball(by_x, by_both @ w_cosh, v, v_length, v_ratio, v_cosh).sum_to_size(v.shape)
        if ctx.needs_input_grad[1]:
            by_y = _through_norms(by_apart.mT, y, x, apart.mT)
            by_cosh = (by_both.mT @ v_cosh).where(w_length <= max_radius(w.dtype) / 2, 0.0)
            found[1] = _through_ball(by_y, by_cosh, w, w_length, w_ratio, w_cosh).sum_to_size(w.shape)
        return found[0], found[1]


def _ball(v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """exp0(v) (..., d), and of each (..., 1): ‖v‖, tanh(n)/‖v‖ and cosh(n), n = ‖v‖ up to where cosh would overflow."""
    length = torch.linalg.vector_norm(v, dim=-1, keepdim=True).clamp_(min=floor(v.dtype))
    n = length.clamp(max=max_radius(v.dtype) / 2)
    ratio = n.tanh().div_(length)
    return ratio * v, length, ratio, n.cosh_()


def _through_ball(by_x: Tensor, by_cosh: Tensor, v: Tensor, length: Tensor, ratio: Tensor, cosh: Tensor) -> Tensor:
    """The gradient with respect to v, from those with respect to what `_ball` makes of it.

    Where n stops growing, that by cosh is the distance's own growth, to rounding: sinh(dist/2) is as large as its cosh.
    """
    along = (by_x * v).sum(-1, keepdim=True)
    sinh = ratio * length * cosh
    radial = along.mul_(cosh.pow(-2).sub_(ratio)).div_(length).add_(by_cosh * sinh).div_(length)
    return torch.addcmul(ratio * by_x, radial, v)


def _through_norms(gradient: Tensor, x: Tensor, y: Tensor, apart: Tensor) -> Tensor:
    """The gradient with respect to x of the norms ‖xᵢ − yⱼ‖; a norm of 0 adds 0."""
    shape = apart.shape[:-2]
    x, y = x.expand(*shape, *x.shape[-2:]).contiguous(), y.expand(*shape, *y.shape[-2:]).contiguous()
    found: Tensor = torch.ops.aten._cdist_backward(gradient.contiguous(), x, y, 2.0, apart.contiguous())
    return found
