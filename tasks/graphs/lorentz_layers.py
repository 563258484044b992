"""The operations of Lorentz networks on single nodes, each with its own backward pass.

Composed of single tensor operations, a Lorentz step takes more than twice as long as a flat step:
on a client's few hundred nodes the number of operations determines the time. The formulas are those
of `curvfed.geometry.lorentz`, with which the tests compare them, with times in units of the radius,
so that all of them have a limit in flat space. There, at the number 0, other operations are used,
which know no curvature.

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

Space = float | Tensor
"""A sectional curvature: a tensor () below 0, or a number, at most 0."""


def magnitude(curvature: Space, like: Tensor) -> Tensor | None:
    """|c| as a tensor; None for the number 0, at which the layers are flat.

    Raises
    ------
    ValueError
        If a number is above 0.

    Examples
    --------
    >>> magnitude(-4.0, torch.ones(1)), magnitude(0.0, torch.ones(1))
    (tensor(4.), None)
    """
    if isinstance(curvature, Tensor):
        return -curvature
    if curvature > 0:
        raise ValueError(f"curvature: got {curvature}; allowed is a number of at most 0")
    return like.new_full((), -curvature) if curvature else None


def exp0_factor(norms: Tensor, size: Tensor) -> Tensor:
    """sinh(x)/x with x = √|c|·norm: the factor by which exp0 multiplies the rows of the features
    (FlatLand, Eq. 1, corrected); 1 in the limit of flat space.

    Parameters
    ----------
    norms : Tensor, (N, 1)
        Euclidean norms of the rows.
    size : Tensor, ()
        |c|.

    Returns
    -------
    Tensor, (N, 1)
    """
    refuse_autocast(norms)
    if is_transformed():
        x = (norms * size.sqrt()).clamp(min=floor(norms.dtype))
        return x.clamp(max=max_radius(norms.dtype)).sinh() / x
    return _Exp0Factor.apply(norms, size)


def lift(product: Tensor, norms: Tensor, curvature: Space) -> tuple[Tensor, Tensor]:
    """exp0 of rows of sparse features, from their product with M, times one factor per row.

    Parameters
    ----------
    product : Tensor, (N, d)
        The features times M.
    norms : Tensor, (N, 1)
        Euclidean norms of the features' rows.
    curvature : float or Tensor

    Returns
    -------
    product : Tensor, (N, d)
        The space coordinates of exp0 of the features, times M.
    square : Tensor, (N, 1)
        The squared norms of these space coordinates.
    """
    size = magnitude(curvature, norms)
    if size is None:
        return product, norms.square()
    factor = exp0_factor(norms, size)
    return factor * product, (factor * norms).square()


def lorentz_linear(
    space: Tensor, weight: Tensor, bias: Tensor, column: Tensor, curvature: Space
) -> Tensor:
    """M space + t mᵀ + b, the space coordinates of a Lorentz linear layer (FlatLand, Eq. 4).

    t = √(1 + |c||space|²) is the time in units of the radius, √|c| times the paper's time. The
    paper's column is √|c| m: the layer then has a limit in flat space, where t is 1.

    Parameters
    ----------
    space : Tensor, (N, d)
        Space coordinates of the input.
    weight : Tensor, (e, d)
        M.
    bias, column : Tensor, (e,)
        b and m.
    curvature : float or Tensor
        c.

    Returns
    -------
    Tensor, (N, e)
    """
    refuse_autocast(space)
    size = magnitude(curvature, space)
    if size is None:
        return torch.nn.functional.linear(space, weight, bias + column)
    if is_transformed():
        time = (size * row_dot(space, space) + 1).sqrt()
        return space @ weight.t() + time * column + bias
    return _LorentzLinear.apply(space, weight, bias, column, size)


def distance_logits(space: Tensor, centres: Tensor, bias: Tensor, curvature: Space) -> Tensor:
    """2/|c| + 2<x, y> + b: minus the squared Lorentz distance between each node x and each class's
    point y, plus b; in flat space minus the squared Euclidean distance.

    Parameters
    ----------
    space : Tensor, (N, d)
        Space coordinates of the nodes.
    centres : Tensor, (C, d)
        Space coordinates of the classes' points.
    bias : Tensor, (C,)
    curvature : float or Tensor

    Returns
    -------
    Tensor, (N, C)
    """
    refuse_autocast(space)
    size = magnitude(curvature, space)
    if size is None:
        node_squares = row_dot(space, space)
        centre_squares = row_dot(centres, centres).t()
        return 2 * space @ centres.t() - node_squares - centre_squares + bias
    if is_transformed():
        _, above = _time_above(row_dot(space, space), size)
        centre_time, centre_above = _time_above(row_dot(centres, centres), size)
        apart = above @ centre_time.t() + centre_above.t()
        return 2 * (space @ centres.t() - apart) + bias
    return _DistanceLogits.apply(space, centres, bias, size)


def _time_above(square: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    """t = √(1 + |c|q) and (t − 1)/|c| of squares q: nothing cancels as c goes to 0."""
    time = (size * square + 1).sqrt()
    return time, square / (time + 1)


def refuse_autocast(x: Tensor) -> None:
    """Raise RuntimeError under automatic mixed precision: its bfloat16 products would not fit the
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
    def forward(ctx: Any, norms: Tensor, size: Tensor) -> Tensor:
        # As in `curvfed.geometry.lorentz.exp0`, the radius is limited so that its square is finite.
        x = (norms * size.sqrt()).clamp_(min=floor(norms.dtype))
        factor = x.clamp(max=max_radius(norms.dtype)).sinh_().div_(x)
        ctx.save_for_backward(x, factor, size)
        return factor

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor]:
        first_order()
        x, factor, size = ctx.saved_tensors
        change = _factor_change(x, factor)
        to_size = (gradients[0] * change).sum() / (2 * size)
        if not ctx.needs_input_grad[0]:
            return None, to_size
        return gradients[0] * (change / x) * size.sqrt(), to_size


def _factor_change(x: Tensor, factor: Tensor) -> Tensor:
    """x·d/dx sinh(x)/x = cosh x - sinh(x)/x, near 0 by its series; beyond the largest radius only
    1/x changes."""
    slope = torch.where(x < max_radius(x.dtype), x.clamp(max=max_radius(x.dtype)).cosh(), 0.0)
    return torch.where(x < 0.5, _series(x) * x, slope.sub_(factor))


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
        ctx: Any, space: Tensor, weight: Tensor, bias: Tensor, column: Tensor, size: Tensor
    ) -> Tensor:
        square = row_dot(space, space)
        time = (size * square).add_(1).sqrt_()
        ctx.save_for_backward(space, weight, column, size, square, time)
        return torch.addmm(bias, space, weight.t()).addcmul_(time, column)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        first_order()
        space, weight, column, size, square, time = ctx.saved_tensors
        (gradient,) = gradients
        along = (gradient @ column).unsqueeze(-1).div_(time)  # d/dtime, over time
        to_space = torch.addcmul(gradient @ weight, size * along, space)
        to_weight = gradient.t() @ space
        to_time = (time.t() @ gradient).squeeze(0)
        return to_space, to_weight, gradient.sum(0), to_time, (along * square).sum() / 2


class _DistanceLogits(torch.autograd.Function):
    """With t = √(1 + |c||x|²) and e = (t − 1)/|c| of nodes, and u and f likewise of centres,
    (tu − 1)/|c| = eu + f."""

    @staticmethod
    def forward(ctx: Any, space: Tensor, centres: Tensor, bias: Tensor, size: Tensor) -> Tensor:
        time, above = _time_above(row_dot(space, space), size)
        centre_time, centre_above = _time_above(row_dot(centres, centres), size)
        ctx.save_for_backward(space, centres, time, above, centre_time, centre_above)
        logits = torch.addmm(bias - 2 * centre_above.t(), space, centres.t(), alpha=2)
        return logits.addmm_(above, centre_time.t(), alpha=-2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        first_order()
        space, centres, time, above, centre_time, centre_above = ctx.saved_tensors
        (gradient,) = gradients
        along = (gradient @ centre_time) / time  # half of -d/dtime, over time
        centre_along = (gradient.t() @ time) / centre_time
        to_bias = gradient.sum(0)
        to_space = 2 * torch.addcmul(gradient @ centres, along, space, value=-1)
        to_centres = 2 * torch.addcmul(gradient.t() @ space, centre_along, centres, value=-1)
        # de/d|c| = −e²/2t, and du/d|c| is half of |y|²/u = (u + 1)f/u.
        by_above = (above.square() * along).sum()
        by_time = (gradient.t() @ above) * (centre_above * (centre_time + 1) / centre_time)
        by_centre_above = to_bias.unsqueeze(-1) * centre_above.square() / centre_time
        to_size = by_above - by_time.sum() + by_centre_above.sum()
        return to_space, to_centres, to_bias, to_size
