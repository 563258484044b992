"""Half a distance of the Lorentz model, the basis of `lorentz.dist` and `lorentz.log`.

The square of sinh(δ/2), δ = √|c|·dist, of points (..., d+1) -> (..., 1), is computed as a sum of
positive terms, and its gradient in closed form.

This takes few passes over the coordinates. All else uses the lengths X, Y (space parts, unit
hyperboloid) of x and y, the part A of y − x along x and the part P of y across x. With t = x₀ + y₀
and p = x·y, Lagrange's identity turns 4 sinh²(δ/2) = |y − x|² − (x₀ − y₀)² into

    sinh²(δ/2) = (A² + P² + W)/D,  W = (XP)²,
    D = 2(1 + x₀y₀ + p) = 4(t² + W)/D′,  D′ = 2(1 + x₀y₀ − p);

The one of D and D′ without cancellation is used. W is stored divided by t², because it would
overflow in float32 at r = 22.
"""

from typing import Any

import torch
from torch import Tensor

from curvfed.geometry.arguments import Size
from curvfed.geometry.custom_gradient import Gradients, custom_gradient, under_torch_func
from curvfed.geometry.safe_math import dot, floor, norm, squared


def squared_half_sinh(x: Tensor, y: Tensor, scale: Size) -> Tensor:
    """sinh²(δ/2), δ = √|c|·dist.

    Parameters
    ----------
    x, y : Tensor (..., d+1)
        Points; their shapes broadcast.
    scale : float or Tensor
        √|c|; a tensor has shape (..., 1) or (), and the dtype of the points.

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
    # P, the part across x, is the same for y − x and y, but has the rounding of its source: y − x,
    # or, if y is much nearer to the origin than x, y minus a part of x of about the length of y.
    share = (2 * y_time / x_time).clamp(max=1)
    across = torch.addcmul(target, base, share, value=-1)
    # 1/length, or 0 near the origin.
    is_apart = x_length > floor(x.dtype)
    inverse = is_apart / length.clamp(min=torch.finfo(x.dtype).tiny)
    along = dot(across, base) * inverse
    # The vmap of torch.func lacks a rule for addcmul_.
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
    # 2t²/D from D, or from D′ where D cancels.
    total_square = total * total
    factor = torch.where(product < 0, larger / (wedge + 1), total_square / larger)
    squares = torch.addcmul(apart * apart, wide, wide)
    squares.div_(total_square).add_(wedge)
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
    growth = factor / total * (1 + wedge)
    turn = x_length / total * wide * wide - apart * growth
    half = gradient * scale / 2
    along = half * turn * inverse
    across_factor = half * scale
    gradients: list[Tensor | None] = [None, None, None]
    if needs[0]:
        by_x = _combined(x, along / x_time, across, -across_factor)
        gradients[0] = by_x.sum_to_size(x.shape)
    if needs[1]:
        by_y = _combined(x, -along / y_time, across, across_factor * x_time / y_time)
        gradients[1] = by_y.sum_to_size(y.shape)
    if needs[2]:
        slope = x_length / x_time - y_along / y_time
        rate = turn * slope + x_time / y_time * wide.square()
        by_scale = gradient * rate / (2 * scale)
        gradients[2] = by_scale.sum_to_size(scale.shape)
    return tuple(gradients)


def _formula(x: Tensor, y: Tensor, scale: Size) -> Tensor:
    """(|y − x|² − (y₀ − x₀)²)/4, which is smooth everywhere, but loses digits far from the
    origin.
    """
    base = x[..., 1:].double() * scale
    target = y[..., 1:].double() * scale
    apart = target - base
    x_time = (1 + squared(base)).sqrt()
    y_time = (1 + squared(target)).sqrt()
    rise = dot(apart, base + target) / (x_time + y_time)
    return ((squared(apart) - rise.square()) / 4).to(x.dtype)


def _combined(x: Tensor, of_x: Tensor, across: Tensor, of_across: Tensor) -> Tensor:
    """A gradient with respect to points; that of the time is 0."""
    if under_torch_func():  # its vmap lacks a rule for addcmul_
        space = torch.addcmul(x[..., 1:] * of_x, across, of_across)
        return torch.nn.functional.pad(space, (1, 0))
    gradient = x * of_x
    gradient[..., 1:].addcmul_(across, of_across)
    gradient[..., 0].zero_()
    return gradient


_squared_half_sinh = custom_gradient(_forward, _backward, _formula)
