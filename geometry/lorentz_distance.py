"""Half a distance of the Lorentz model, on which `lorentz.dist` and `lorentz.log` rest.

The square of sinh(δ/2), δ = √|c|·dist, of points (..., d+1) -> (..., 1), is found by sums of
positive terms, its gradient in closed form.

Few passes over coordinates: the rest is done with the lengths X, Y (space parts, unit hyperboloid)
of x and y, the part A of y − x along x and the part P of y across x. With t = x₀ + y₀ and p = x·y,
Lagrange's identity turns 4 sinh²(δ/2) = |y − x|² − (x₀ − y₀)² into

    sinh²(δ/2) = (A² + P² + W)/D,  W = (XP)²,
    D = 2(1 + x₀y₀ + p) = 4(t² + W)/D′,  D′ = 2(1 + x₀y₀ − p);

of D and D′ the one without cancellation is used. W is held divided by t², else it overflows in
float32 at r = 22.
"""

from typing import Any

import torch
from torch import Tensor

from curvfed.geometry.arguments import Size
from curvfed.geometry.custom_gradient import Gradients, custom_gradient, under_torch_func
from curvfed.geometry.safe_math import floor, norm, squared


def squared_half_sinh(x: Tensor, y: Tensor, scale: Size) -> Tensor:
    """sinh²(δ/2), δ = √|c|·dist.

    Parameters
    ----------
    x, y : Tensor (..., d+1)
        Points, which broadcast.
    scale : float or Tensor
        √|c|; a tensor is of shape (..., 1) or (), and of the dtype of the points.

    Returns
    -------
    Tensor (..., 1)
        The condition of its second derivatives is cosh²(r), r the larger radius.
    """
    return _squared_half_sinh(x, y, scale)


def _forward(x: Tensor, y: Tensor, scale: Size) -> tuple[Tensor, ...]:
    base = x[..., 1:]
    target = y[..., 1:]
    length = norm(base)
    x_length = length * scale
    x_time = (x_length * x_length).add_(1).sqrt_()
    y_length = norm(target) * scale
    y_time = (y_length * y_length).add_(1).sqrt_()
    # P, the part across x, is the same for y − x and y, with the rounding of its source: y − x, or,
    # if y is much nearer to the origin than x, y minus a part of x of about its length.
    share = (2 * y_time / x_time).clamp(max=1)
    across = torch.addcmul(target, base, share, value=-1)
    # Near the origin it is 0.
    inverse = (x_length > floor(x.dtype)) / length.clamp(min=torch.finfo(x.dtype).tiny)
    along = _dot(across, base) * inverse
    # The vmap of torch.func has no rule for addcmul_.
    subtract = torch.addcmul if under_torch_func() else Tensor.addcmul_
    across = subtract(across, base, along * inverse, value=-1)
    along = along * scale
    wide = norm(across) * scale
    y_along = torch.addcmul(along, x_length, share)
    apart = torch.addcmul(along, x_length, share.sub_(1))
    total = x_time + y_time
    product = x_length * y_along
    larger = torch.addcmul(product.abs().add_(1), x_time, y_time)
    wedge = (x_length / total).mul_(wide)
    wedge = wedge * wedge
    # 2t²/D by D, or, where that cancels, by D′.
    total_square = total * total
    factor = torch.where(product < 0, larger / (wedge + 1), total_square / larger)
    squares = torch.addcmul(apart * apart, wide, wide).div_(total_square).add_(wedge)
    square = squares.mul_(factor).mul_(0.5)
    return (
        square,
        across,
        inverse,
        x_length,
        x_time,
        y_time,
        y_along,
        apart,
        wide,
        total,
        wedge,
        factor,
    )


def _backward(
    gradient: Tensor, inputs: tuple[Any, ...], output: tuple[Tensor, ...], needs: tuple[bool, ...]
) -> Gradients:
    x, y, scale = inputs
    _, across, inverse, x_length, x_time, y_time, y_along, apart, wide, total, wedge, factor = (
        output
    )
    # The gradient with respect to x is (y₀/x₀·x − y)/2; turn = y₀X − x₀(y along x), without
    # cancellation.
    turn = x_length / total * wide * wide - apart * (factor / total * (1 + wedge))
    half = gradient * scale / 2
    along = half * turn * inverse
    across_factor = half * scale
    gradients: list[Tensor | None] = [None, None, None]
    if needs[0]:
        gradients[0] = _combined(x, along / x_time, across, -across_factor).sum_to_size(x.shape)
    if needs[1]:
        gradients[1] = _combined(
            x, -along / y_time, across, across_factor * x_time / y_time
        ).sum_to_size(y.shape)
    if needs[2]:
        by_scale = turn * (x_length / x_time - y_along / y_time) + x_time / y_time * wide.square()
        gradients[2] = (gradient * by_scale / (2 * scale)).sum_to_size(scale.shape)
    return tuple(gradients)


def _formula(x: Tensor, y: Tensor, scale: Size) -> Tensor:
    """(|y − x|² − (y₀ − x₀)²)/4, which is smooth everywhere, but loses digits far from the
    origin.
    """
    base, target = (point[..., 1:].double() * scale for point in (x, y))
    apart = target - base
    total = (1 + squared(base)).sqrt() + (1 + squared(target)).sqrt()
    rise = _dot(apart, base + target) / total
    return ((squared(apart) - rise.square()) / 4).to(x.dtype)


def _combined(x: Tensor, of_x: Tensor, across: Tensor, of_across: Tensor) -> Tensor:
    """A gradient with respect to points; that of the time is 0."""
    if under_torch_func():  # its vmap has no rule for addcmul_
        return torch.nn.functional.pad(torch.addcmul(x[..., 1:] * of_x, across, of_across), (1, 0))
    gradient = x * of_x
    gradient[..., 1:].addcmul_(across, of_across)
    gradient[..., 0].zero_()
    return gradient


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1, keepdim=True)


_squared_half_sinh = custom_gradient(_forward, _backward, _formula)
