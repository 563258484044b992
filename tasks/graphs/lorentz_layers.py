"""The operations of Lorentz networks on single nodes, each with its own backward pass.

Composed of single tensor operations, a Lorentz step takes more than twice as long as a flat step:
on a client's few hundred nodes the number of operations determines the time. The formulas are those
of `curvfed.geometry.lorentz`, with which the tests compare them; K is the squared radius, the
curvature is -1/K.

They have only first derivatives, and refuse automatic mixed precision and a graph of their
gradients. Under torch.func those of whole graphs are composed of single tensor operations; the
others refuse it.
"""

import math
from typing import Any

import torch
from torch import Tensor

from curvfed.geometry.safe_math import floor, max_radius
from curvfed.tasks.graphs.model_spec import is_transformed


def exp0_factor(norms: Tensor, radius: Tensor) -> Tensor:
    """sinh(x)/x with x = norm/√K: the factor by which exp0 multiplies the rows of the features
    (FlatLand, Eq. 1, corrected).

    Parameters
    ----------
    norms : Tensor, (N, 1)
        Euclidean norms of the rows.
    radius : Tensor, ()
        K.

    Returns
    -------
    Tensor, (N, 1)
    """
    refuse_autocast(norms)
    if is_transformed():
        x = (norms * radius.rsqrt()).clamp(min=floor(norms.dtype))
        return x.clamp(max=max_radius(norms.dtype)).sinh() / x
    return _Exp0Factor.apply(norms, radius)


def lift(product: Tensor, norms: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
    """exp0 of rows of sparse features, from their product with M, times one factor per row.

    Parameters
    ----------
    product : Tensor, (N, d)
        The features times M.
    norms : Tensor, (N, 1)
        Euclidean norms of the features' rows.
    radius : Tensor, ()
        K.

    Returns
    -------
    product : Tensor, (N, d)
        The space coordinates of exp0 of the features, times M.
    square : Tensor, (N, 1)
        The squared norms of these space coordinates.
    """
    factor = exp0_factor(norms, radius)
    return factor * product, (factor * norms).square()


def lorentz_linear(
    space: Tensor, weight: Tensor, bias: Tensor, column: Tensor, radius: Tensor
) -> Tensor:
    """M space + time mᵀ + b, the space coordinates of a Lorentz linear layer (FlatLand, Eq. 4).

    Parameters
    ----------
    space : Tensor, (N, d)
        Space coordinates of the input; its time is √(K + |space|²).
    weight : Tensor, (e, d)
        M.
    bias, column : Tensor, (e,)
        b and m.
    radius : Tensor, ()
        K.

    Returns
    -------
    Tensor, (N, e)
    """
    refuse_autocast(space)
    if is_transformed():
        time = (row_dot(space, space) + radius).sqrt()
        return space @ weight.t() + time * column + bias
    return _LorentzLinear.apply(space, weight, bias, column, radius)


def distance_logits(space: Tensor, centres: Tensor, bias: Tensor, radius: Tensor) -> Tensor:
    """2K + 2<x, c> + b: minus the squared Lorentz distance between each node and each class's
    point, plus b.

    Parameters
    ----------
    space : Tensor, (N, d)
        Space coordinates of the nodes.
    centres : Tensor, (C, d)
        Space coordinates of the classes' points.
    bias : Tensor, (C,)
    radius : Tensor, ()
        K.

    Returns
    -------
    Tensor, (N, C)
    """
    refuse_autocast(space)
    if is_transformed():
        times = (row_dot(space, space) + radius).sqrt()
        centre_times = (row_dot(centres, centres) + radius).sqrt()
        return 2 * (radius + space @ centres.t() - times @ centre_times.t()) + bias
    return _DistanceLogits.apply(space, centres, bias, radius)


def refuse_autocast(x: Tensor) -> None:
    """Raise RuntimeError under automatic mixed precision, whose bfloat16 products would not fit the
    float32 rest."""
    if torch.is_autocast_enabled(x.device.type):
        raise RuntimeError(
            "torch.autocast: the Lorentz networks' operations do not run under it; disable it"
            " around them"
        )


def first_order() -> None:
    """Refuse second derivatives, which these operations do not compute.

    Raises
    ------
    RuntimeError
        If a graph of the gradients is requested: the tensors saved by the forward pass would count
        as constants.
    """
    if torch.is_grad_enabled():
        raise RuntimeError(
            "create_graph=True: the Lorentz networks' operations have first derivatives alone; "
            "for second ones build the network of curvfed.geometry.lorentz"
        )


def row_dot(x: Tensor, y: Tensor) -> Tensor:
    """(N, d), (N, d) -> (N, 1)."""
    dots: Tensor = torch.linalg.vecdot(x, y)
    return dots.unsqueeze(-1)


class _Exp0Factor(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, norms: Tensor, radius: Tensor) -> Tensor:
        x, factor = _factor(norms, radius)
        ctx.save_for_backward(x, factor, radius)
        return factor

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor]:
        first_order()
        x, factor, radius = ctx.saved_tensors
        change = _factor_change(x, factor)
        to_radius = (gradients[0] * change).sum() / (-2 * radius)
        if not ctx.needs_input_grad[0]:
            return None, to_radius
        by_norm = torch.where(x < 0.5, _series(x), change / x)  # near 0 the difference is rounding
        return gradients[0] * by_norm * radius.rsqrt(), to_radius


def _factor(norms: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
    """x = norm/√K and sinh(x)/x."""
    x = (norms * radius.rsqrt()).clamp_(min=floor(norms.dtype))
    # As in `curvfed.geometry.lorentz.exp0`, the radius is limited so that its square is finite.
    return x, x.clamp(max=max_radius(norms.dtype)).sinh_().div_(x)


def _factor_change(x: Tensor, factor: Tensor) -> Tensor:
    """x·d/dx sinh(x)/x = cosh x - sinh(x)/x, and x·dx/dK = -x²/2K; beyond the largest radius only
    1/x changes."""
    slope = torch.where(x < max_radius(x.dtype), x.clamp(max=max_radius(x.dtype)).cosh(), 0.0)
    return slope.sub_(factor)


def _series(x: Tensor) -> Tensor:
    """d/dx sinh(x)/x = Σ 2k x^(2k-1)/(2k+1)!, to 1e-14 for x ≤ 1/2."""
    square = x * x
    total = torch.zeros_like(x)
    for k in range(6, 0, -1):
        total = total * square + 2 * k / math.factorial(2 * k + 1)
    return total * x


class _LorentzLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, space: Tensor, weight: Tensor, bias: Tensor, column: Tensor, radius: Tensor
    ) -> Tensor:
        time = (row_dot(space, space) + radius).sqrt_()
        ctx.save_for_backward(space, weight, column, time)
        return torch.addmm(bias, space, weight.t()).addcmul_(time, column)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        first_order()
        space, weight, column, time = ctx.saved_tensors
        (gradient,) = gradients
        along = (gradient @ column).unsqueeze(-1).div_(time)  # d/dtime, over time
        to_space = torch.addcmul(gradient @ weight, along, space)
        to_weight = gradient.t() @ space
        to_time = (time.t() @ gradient).squeeze(0)
        return to_space, to_weight, gradient.sum(0), to_time, along.sum() / 2


class _DistanceLogits(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, space: Tensor, centres: Tensor, bias: Tensor, radius: Tensor) -> Tensor:
        time = (row_dot(space, space) + radius).sqrt_()
        centre_time = (row_dot(centres, centres) + radius).sqrt_()
        ctx.save_for_backward(space, centres, time, centre_time)
        logits = torch.addmm(bias + 2 * radius, space, centres.t(), alpha=2)
        return logits.addmm_(time, centre_time.t(), alpha=-2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        first_order()
        space, centres, time, centre_time = ctx.saved_tensors
        (gradient,) = gradients
        along = (gradient @ centre_time) / time  # half of -d/dtime, over time
        centre_along = (gradient.t() @ time) / centre_time
        to_bias = gradient.sum(0)
        to_space = 2 * torch.addcmul(gradient @ centres, along, space, value=-1)
        to_centres = 2 * torch.addcmul(gradient.t() @ space, centre_along, centres, value=-1)
        to_radius = 2 * to_bias.sum() - along.sum() - centre_along.sum()
        return to_space, to_centres, to_bias, to_radius
