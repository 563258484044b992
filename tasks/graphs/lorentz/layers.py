"""The operations of a Lorentz GCN, each with a backward pass of its own.

Composed of single tensor operations a Lorentz step takes more than twice as long as a flat one: on a client's few hundred
nodes it is the number of operations that counts. The formulas are those of `curvfed.geometry.lorentz`, which the tests hold
these to; K is the squared radius, the curvature is -1/K.

They have first derivatives alone, and refuse automatic mixed precision, torch.func and a graph of their gradients.
"""

import math
from typing import Any

import torch
from torch import Tensor

from curvfed.geometry.safe_math import floor, max_radius
from curvfed.tasks.graphs.dropout import kept
from curvfed.tasks.graphs.sparse import Constant, multiply


def exp0_factor(norms: Tensor, radius: Tensor) -> Tensor:
    """sinh(x)/x with x = norm/√K: what exp0 multiplies the rows of the features by (FlatLand, Eq. 1, put right).

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
    _refuse_autocast(norms)
    factor: Tensor = _Exp0Factor.apply(norms, radius)
    return factor


def lift(product: Tensor, norms: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
    """exp0 of rows of features, without making them dense: their product with M, times one factor per row.

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
    _refuse_autocast(product)
    if norms.requires_grad:  # features are constant but where they are generated, by FedSage+
        factor = exp0_factor(norms, radius)
        return factor * product, (factor * norms).square()
    lifted, square = _Lift.apply(product, norms, radius)
    return lifted, square


def lorentz_linear(space: Tensor, weight: Tensor, bias: Tensor, column: Tensor, radius: Tensor) -> Tensor:
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
    _refuse_autocast(space)
    out: Tensor = _LorentzLinear.apply(space, weight, bias, column, radius)
    return out


def distance_logits(space: Tensor, centres: Tensor, bias: Tensor, radius: Tensor) -> Tensor:
    """2K + 2<x, c> + b: minus the squared Lorentz distance of every node to every class's point, plus b.

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
    _refuse_autocast(space)
    logits: Tensor = _DistanceLogits.apply(space, centres, bias, radius)
    return logits


def convolve(
    product: Tensor,
    square: Tensor,
    bias: Tensor,
    column: Tensor,
    radius: Tensor,
    gate: Tensor | None,
    adjacency: Constant,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Lorentz linear layer, neighbour centroid, gate, ReLU and dropout, in space coordinates (FlatLand, Eq. 4 and E.2).

    s = product + time mᵀ + b is lifted onto the hyperboloid; low is the centroid of the neighbours; ReLU is applied to
    g·low + (1 - g)(s - low), the space parts of low-pass and high-pass mixed. (The rows of the high-pass itself are
    mostly not time-like and have no centroid.)

    Parameters
    ----------
    product : Tensor, (N, d)
        Space coordinates of the input times M.
    square : Tensor, (N, 1)
        Squared norm of the input's space coordinates; its time is √(K + square).
    bias, column : Tensor, (d,)
        b and m.
    radius : Tensor, ()
        K.
    gate : Tensor, (), or None
        g in (0, 1); None is 1, no high-pass.
    adjacency : Constant, (N, N)
        Symmetric, not negative, no row of zeros: then every neighbourhood's sum is time-like.
    dropout : float
        The probability with which a coordinate of the result becomes 0; the others are divided by 1 - dropout.

    Returns
    -------
    space : Tensor, (N, d)
    square : Tensor, (N, 1)
        Its squared norm, which the next layer takes.
    """
    _refuse_autocast(product)
    share = gate if gate is not None else torch.ones((), dtype=product.dtype, device=product.device)
    space, norm = _Convolution.apply(product, square, bias, column, radius, share, adjacency.matrix, dropout)
    return space, norm


def _refuse_autocast(x: Tensor) -> None:
    """Raise RuntimeError under automatic mixed precision, whose bfloat16 products would not fit the float32 rest."""
    if torch.is_autocast_enabled(x.device.type):
        raise RuntimeError(
            "torch.autocast: the Lorentz networks' operations do not run under it; disable it around them"
        )


def _first_order() -> None:
    """Refuse what a backward pass of these operations does not compute.

    Raises
    ------
    RuntimeError
        If the gradients are to have a graph of their own: what the forward pass saved would count as constant.
    """
    if torch.is_grad_enabled():
        raise RuntimeError(
            "create_graph=True: the Lorentz networks' operations have first derivatives alone; "
            "for second ones build the network of curvfed.geometry.lorentz"
        )


def _row_dot(x: Tensor, y: Tensor) -> Tensor:
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
        _first_order()
        x, factor, radius = ctx.saved_tensors
        change = _factor_change(x, factor)
        to_radius = (gradients[0] * change).sum() / (-2 * radius)
        if not ctx.needs_input_grad[0]:
            return None, to_radius
        by_norm = torch.where(x < 0.5, _series(x), change / x)  # near 0 the difference is rounding
        return gradients[0] * by_norm * radius.rsqrt(), to_radius


class _Lift(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, product: Tensor, norms: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
        x, factor = _factor(norms, radius)
        ctx.save_for_backward(product, norms, radius, x, factor)
        return product * factor, (factor * norms).square_()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, Tensor]:
        _first_order()
        product, norms, radius, x, factor = ctx.saved_tensors
        to_product, to_square = gradients
        to_factor = _row_dot(to_product, product).addcmul_(to_square * factor, norms.square(), value=2)
        to_radius = torch.dot(to_factor.view(-1), _factor_change(x, factor).view(-1)) / (-2 * radius)
        return to_product * factor, None, to_radius


def _factor(norms: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
    """x = norm/√K and sinh(x)/x."""
    x = (norms * radius.rsqrt()).clamp_(min=floor(norms.dtype))
    # As in `curvfed.geometry.lorentz.exp0` a point stops at the largest radius whose square is a number.
    return x, x.clamp(max=max_radius(norms.dtype)).sinh_().div_(x)


def _factor_change(x: Tensor, factor: Tensor) -> Tensor:
    """x·d/dx sinh(x)/x = cosh x - sinh(x)/x, and x·dx/dK = -x²/2K; where the point has stopped only 1/x moves."""
    slope = torch.where(x < max_radius(x.dtype), x.clamp(max=max_radius(x.dtype)).cosh(), 0.0)
    return slope.sub_(factor)


def _series(x: Tensor) -> Tensor:
    """d/dx sinh(x)/x = Σ 2k x^(2k-1)/(2k+1)!, to 1e-14 for x ≤ 1/2."""
    square = x * x
    found = torch.zeros_like(x)
    for k in range(6, 0, -1):
        found = found * square + 2 * k / math.factorial(2 * k + 1)
    return found * x


class _LorentzLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, space: Tensor, weight: Tensor, bias: Tensor, column: Tensor, radius: Tensor) -> Tensor:
        time = (_row_dot(space, space) + radius).sqrt_()
        ctx.save_for_backward(space, weight, column, time)
        return torch.addmm(bias, space, weight.t()).addcmul_(time, column)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        _first_order()
        space, weight, column, time = ctx.saved_tensors
        (gradient,) = gradients
        along = (gradient @ column).unsqueeze(-1).div_(time)  # d/dtime, over time
        to_space = torch.addcmul(gradient @ weight, along, space)
        return to_space, gradient.t() @ space, gradient.sum(0), (time.t() @ gradient).squeeze(0), along.sum() / 2


class _DistanceLogits(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, space: Tensor, centres: Tensor, bias: Tensor, radius: Tensor) -> Tensor:
        time = (_row_dot(space, space) + radius).sqrt_()
        centre_time = (_row_dot(centres, centres) + radius).sqrt_()
        ctx.save_for_backward(space, centres, time, centre_time)
        logits = torch.addmm(bias + 2 * radius, space, centres.t(), alpha=2)
        return logits.addmm_(time, centre_time.t(), alpha=-2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        _first_order()
        space, centres, time, centre_time = ctx.saved_tensors
        (gradient,) = gradients
        along = (gradient @ centre_time) / time  # half of -d/dtime, over time
        centre_along = (gradient.t() @ time) / centre_time
        to_bias = gradient.sum(0)
        return (
            2 * torch.addcmul(gradient @ centres, along, space, value=-1),
            2 * torch.addcmul(gradient.t() @ space, centre_along, centres, value=-1),
            to_bias,
            2 * to_bias.sum() - along.sum() - centre_along.sum(),
        )


class _Convolution(torch.autograd.Function):
    """Points are rows (space, time) of one matrix, so that one sparse product sums both over the neighbours."""

    @staticmethod
    def forward(
        ctx: Any,
        product: Tensor,
        square: Tensor,
        bias: Tensor,
        column: Tensor,
        radius: Tensor,
        gate: Tensor,
        adjacency: Tensor,
        dropout: float,
    ) -> tuple[Tensor, Tensor]:
        k, g = _number(radius), _number(gate)
        time = (square + k).sqrt_()
        points = product.new_empty(len(product), product.shape[1] + 1)
        space, lifted = points[:, :-1], points[:, -1:]
        torch.addcmul(product + bias, time, column, out=space)
        torch.sqrt(_row_dot(space, space).add_(k), out=lifted)
        neighbours = multiply(adjacency, points)
        sums, sum_times = neighbours[:, :-1], neighbours[:, -1:]
        # -<S, S> of the sum S; where rounding leaves nothing of it, at radius 8 in float32, it is held at eps·S₀².
        norm = sum_times.square()
        least = norm * torch.finfo(space.dtype).eps
        norm = torch.maximum(norm.sub_(_row_dot(sums, sums)), least)
        scale = norm.rsqrt().mul_(k**0.5)
        mixed = torch.addcmul(space * (1 - g), scale * (2 * g - 1), sums)
        passed = mixed.sign().clamp_(min=0)  # faster than a comparison
        if dropout:
            passed.mul_(kept(mixed, dropout))
        hidden = mixed.mul_(passed)
        ctx.adjacency, ctx.k, ctx.g = adjacency, k, g
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(time, column, points, neighbours, norm, scale, passed, hidden)
        return hidden, _row_dot(hidden, hidden)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        _first_order()
        time, column, points, neighbours, norm, scale, passed, hidden = ctx.saved_tensors
        space, lifted, sums, sum_times = points[:, :-1], points[:, -1:], neighbours[:, :-1], neighbours[:, -1:]
        k, g = ctx.k, ctx.g
        to_hidden, to_norm = gradients
        if to_norm is not None:
            grown = (2 * to_norm) * hidden
            to_hidden = grown if to_hidden is None else grown.add_(to_hidden)
        if to_hidden is None:
            return (None,) * 8
        gradient = passed * to_hidden
        to_low = 2 * g - 1
        along = _row_dot(gradient, sums).mul_(scale)  # <gradient, low>
        # low = √(K/n) S with n = S₀² - |S|²: what moves n moves all of a row.
        through_norm = (along / norm).mul_(to_low)
        to_sums = torch.empty_like(points)
        torch.addcmul(gradient * (scale * to_low), through_norm, sums, out=to_sums[:, :-1])
        torch.mul(through_norm, sum_times, out=to_sums[:, -1:])
        to_points = multiply(ctx.adjacency, to_sums)
        to_space, from_lifted = to_points[:, :-1], to_points[:, -1:].div(lifted)
        to_space.add_(gradient * (1 - g)).addcmul_(from_lifted, space, value=-1)
        to_square = (to_space @ column).unsqueeze(-1).div_(2 * time)
        along_sum = along.sum()
        to_radius = to_square.sub(from_lifted, alpha=0.5).sum().add_(along_sum * (to_low / (2 * k)))
        to_gate = None
        if ctx.needs_input_grad[5]:
            to_gate = 2 * along_sum - _row_dot(gradient, space).sum()
        to_column = (time.t() @ to_space).squeeze(0)
        return to_space, to_square, to_space.sum(0), to_column, to_radius, to_gate, None, None


def _number(scalar: Tensor) -> Any:
    """A 0-d tensor as a Python number on the CPU, where that is free; left alone on a GPU, which it would hold up."""
    return scalar.item() if scalar.device.type == "cpu" else scalar
