"""Half a distance of the Lorentz model, on which `lorentz.dist` and `lorentz.log` rest."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from curvfed.geometry.safe_math import Curvature, floor, squared


def half_sinh(x: Tensor, y: Tensor, scale: Curvature) -> Tensor:
    """sinh(δ/2), δ = √|c|·dist.

    Parameters
    ----------
    x, y : Tensor (..., d+1)
        Points, which broadcast.
    scale : float or Tensor
        √|c|; a tensor is of shape (..., 1) or ().

    Returns
    -------
    Tensor (..., 1)
        Its gradient where δ = 0 is 0. Differentiable once.
    """
    found: Tensor = _HalfSinh.apply(x, y, scale.to(x.dtype) if isinstance(scale, Tensor) else scale)
    return found


class _HalfSinh(torch.autograd.Function):
    """sinh(δ/2), δ = √|c|·dist, of points (..., d+1) -> (..., 1), by sums of positive terms; its gradient in closed form.

    Few passes over coordinates: the rest is done with the lengths X, Y (space parts, unit hyperboloid) of x and y, the
    part A of y − x along x and the part P of y across x. With t = x₀ + y₀ and p = x·y, Lagrange's identity turns
    4 sinh²(δ/2) = |y − x|² − (x₀ − y₀)² into

        sinh²(δ/2) = (A² + P² + W)/D,  W = (XP)²,  D = 2(1 + x₀y₀ + p) = 4(t² + W)/D′,  D′ = 2(1 + x₀y₀ − p);

    of D and D′ the one without cancellation is used. W is held divided by t², else it overflows in float32 at r = 22.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, scale: Curvature) -> Tensor:
        base, other = x[..., 1:], y[..., 1:]
        length = squared(base).sqrt_()
        x_length = length * scale
        x_time = (x_length * x_length).add_(1).sqrt_()
        y_time = (squared(other) * scale**2).add_(1).sqrt_()
        # P is the part across x of y − x and of y alike, as rounded as what it is taken from: y − x, or, where y is much
        # nearer to the origin than x, y less a part of x that is about as long.
        share = (2 * y_time / x_time).clamp_(max=1)
        across = torch.addcmul(other, base, share, value=-1)
        inverse = (x_length > floor(x.dtype)) / length.clamp(min=torch.finfo(x.dtype).tiny)  # next to the origin: 0
        along = _dot(across, base).mul_(inverse)
        across.addcmul_(base, along * inverse, value=-1)
        along.mul_(scale)
        wide = squared(across).sqrt_().mul_(scale)
        y_along = torch.addcmul(along, x_length, share)
        apart = torch.addcmul(along, x_length, share.sub_(1))
        total = x_time + y_time
        product = x_length * y_along
        larger = torch.addcmul(product.abs().add_(1), x_time, y_time)
        wedge = (x_length / total).mul_(wide).square_()
        # 2t²/D by D, or, where that cancels, by D′.
        total_square = total * total
        factor = torch.lerp(total_square / larger, larger / (1 + wedge), (product < 0).to(larger.dtype))
        squares = torch.addcmul(apart * apart, wide, wide).div_(total_square).add_(wedge)
        sinh = squares.mul_(factor).mul_(0.5).sqrt_()
        ctx.scale, ctx.y_shape = scale, y.shape
        lengths = x_length, x_time, y_time, y_along, apart, wide, total
        ctx.save_for_backward(x, across, inverse, *lengths, wedge, factor, sinh)
        return sinh

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, across, inverse, *lengths, wedge, factor, sinh = ctx.saved_tensors
        x_length, x_time, y_time, y_along, apart, wide, total = lengths
        scale = ctx.scale
        # That of the square with respect to x is (y₀/x₀·x − y)/2; turn = y₀X − x₀(y along x), without cancellation.
        turn = x_length / total * wide * wide - apart * (factor / total * (1 + wedge))
        gradient = gradient / (2 * sinh.clamp(min=torch.finfo(sinh.dtype).tiny ** 0.5))  # of equal points: times 0
        half = gradient * scale / 2
        along, beside = half * turn * inverse, half * scale
        found: list[Tensor | None] = [None, None, None]
        if ctx.needs_input_grad[0]:
            found[0] = _combined(x, along / x_time, across, -beside).sum_to_size(x.shape)
        if ctx.needs_input_grad[1]:
            found[1] = _combined(x, -along / y_time, across, beside * x_time / y_time).sum_to_size(ctx.y_shape)
        if ctx.needs_input_grad[2]:
            by_scale = turn * (x_length / x_time - y_along / y_time) + x_time / y_time * wide.square()
            found[2] = (gradient * by_scale / (2 * scale)).sum_to_size(scale.shape)
        return found[0], found[1], found[2]


def _combined(x: Tensor, of_x: Tensor, across: Tensor, of_across: Tensor) -> Tensor:
    """A gradient with respect to points; that of the time is 0."""
    found = across.new_empty(*across.shape[:-1], across.shape[-1] + 1)
    found[..., :1] = 0
    torch.mul(x[..., 1:], of_x, out=found[..., 1:]).addcmul_(across, of_across)
    return found


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1, keepdim=True)
