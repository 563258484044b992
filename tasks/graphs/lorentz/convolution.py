"""The convolution of a Lorentz GCN, from a layer's product to the next layer's input, with its own
backward pass."""

from typing import Any

import torch
from torch import Tensor

from curvfed.tasks.graphs.dropout import dropout_factors
from curvfed.tasks.graphs.lorentz.layers import first_order, refuse_autocast, row_dot
from curvfed.tasks.graphs.sparse import Constant, multiply


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
    """Lorentz linear layer, neighbour centroid, gate, ReLU and dropout, in space coordinates
    (FlatLand, Eq. 4 and E.2).

    s = product + time mᵀ + b is lifted onto the hyperboloid; low is the centroid of the neighbours;
    ReLU is applied to g·low + (1 - g)(s - low), a mixture of the space parts of low-pass and
    high-pass. (Most rows of the high-pass itself are not time-like and have no centroid.)

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
        Symmetric, not negative, without rows of zeros, so every neighbourhood's sum is time-like.
    dropout : float
        The probability that a coordinate of the result becomes 0; the others are divided by 1 -
        dropout.

    Returns
    -------
    space : Tensor, (N, d)
    square : Tensor, (N, 1)
        Its squared norm, which the next layer takes.
    """
    refuse_autocast(product)
    share = gate if gate is not None else torch.ones((), dtype=product.dtype, device=product.device)
    space, norm = _Convolution.apply(
        product, square, bias, column, radius, share, adjacency.matrix, dropout
    )
    return space, norm


class _Convolution(torch.autograd.Function):
    """Points are rows (space, time) of one matrix, so that one sparse product sums both over the
    neighbours."""

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
        k = _number(radius)
        g = _number(gate)
        time = (square + k).sqrt_()
        points = product.new_empty(product.shape[0], product.shape[1] + 1)
        space = points[:, :-1]
        lifted = points[:, -1:]
        torch.addcmul(product + bias, time, column, out=space)
        torch.sqrt(row_dot(space, space).add_(k), out=lifted)
        neighbours = multiply(adjacency, points)
        sums = neighbours[:, :-1]
        sum_times = neighbours[:, -1:]
        # -<S, S> of the sum S, at least eps·S₀², because rounding may leave nothing of it, in
        # float32 at radius 8.
        norm = sum_times.square()
        minimum = norm * torch.finfo(space.dtype).eps
        norm = torch.maximum(norm.sub_(row_dot(sums, sums)), minimum)
        scale = norm.rsqrt().mul_(k**0.5)
        mixed = torch.addcmul(space * (1 - g), scale * (2 * g - 1), sums)
        passed = mixed.sign().clamp_(min=0)  # faster than a comparison
        if dropout:
            passed.mul_(dropout_factors(mixed, dropout))
        hidden = mixed.mul_(passed)
        ctx.adjacency = adjacency
        ctx.k = k
        ctx.g = g
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(time, column, points, neighbours, norm, scale, passed, hidden)
        return hidden, row_dot(hidden, hidden)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        first_order()
        time, column, points, neighbours, norm, scale, passed, hidden = ctx.saved_tensors
        space = points[:, :-1]
        lifted = points[:, -1:]
        sums = neighbours[:, :-1]
        sum_times = neighbours[:, -1:]
        k = ctx.k
        g = ctx.g
        to_hidden, to_norm = gradients
        if to_norm is not None:
            grown = (2 * to_norm) * hidden
            to_hidden = grown if to_hidden is None else grown.add_(to_hidden)
        if to_hidden is None:
            return (None,) * 8
        gradient = passed * to_hidden
        to_low = 2 * g - 1
        along = row_dot(gradient, sums).mul_(scale)  # <gradient, low>
        # low = √(K/n) S with n = S₀² - |S|²: a change of n changes the whole row.
        through_norm = (along / norm).mul_(to_low)
        to_sums = torch.empty_like(points)
        torch.addcmul(gradient * (scale * to_low), through_norm, sums, out=to_sums[:, :-1])
        torch.mul(through_norm, sum_times, out=to_sums[:, -1:])
        to_points = multiply(ctx.adjacency, to_sums)
        to_space = to_points[:, :-1]
        from_lifted = to_points[:, -1:].div(lifted)
        to_space.add_(gradient * (1 - g)).addcmul_(from_lifted, space, value=-1)
        to_square = (to_space @ column).unsqueeze(-1).div_(2 * time)
        along_sum = along.sum()
        to_radius = to_square.sub(from_lifted, alpha=0.5).sum().add_(along_sum * (to_low / (2 * k)))
        to_gate = None
        if ctx.needs_input_grad[5]:
            to_gate = 2 * along_sum - row_dot(gradient, space).sum()
        to_column = (time.t() @ to_space).squeeze(0)
        return to_space, to_square, to_space.sum(0), to_column, to_radius, to_gate, None, None


def _number(scalar: Tensor) -> Any:
    """A 0-d tensor as a Python number on the CPU, where this is free; on a GPU the tensor itself,
    because the number would make the device wait; and in an export, where it is not known."""
    is_free = scalar.device.type == "cpu" and not torch.compiler.is_exporting()
    return scalar.item() if is_free else scalar
