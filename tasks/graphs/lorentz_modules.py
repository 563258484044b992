"""Lorentz layers as ordinary modules, for users' own networks; import them from `curvfed.nn`.

A node is a point of the hyperboloid <x, x> = -K of curvature -1/K, given by its space coordinates,
(N, d): its time is √(K + |space|²). Parameters called `time`, `gate` and `k` are personal in
FlatLand (`flatland` keeps `*.time`, `*.gate` and `k` at each client); all others are shared.
"""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from curvfed.tasks.graphs.lorentz_layers import (
    distance_logits,
    first_order,
    lorentz_linear,
    refuse_autocast,
    row_dot,
)
from curvfed.tasks.graphs.model_spec import (
    TimedLinear,
    dropout_factors,
    is_transformed,
    start,
)
from curvfed.tasks.graphs.sparse import Constant, multiply, normalized_adjacency


def convolve(
    product: Tensor,
    square: Tensor,
    bias: Tensor,
    column: Tensor,
    radius: Tensor,
    gate: Tensor | None,
    adjacency: Constant | Tensor,
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
        Symmetric, not negative, without rows of zeros, so every neighbourhood's sum is time-like;
        in `torch.func` a dense tensor.
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
    if is_transformed():
        points = product + bias + (square + radius).sqrt() * column
        low = centroids(points, adjacency, radius)
        hidden = F.relu(share * low + (1 - share) * (points - low))
        hidden = hidden * dropout_factors(hidden, dropout) if dropout else hidden
        return hidden, row_dot(hidden, hidden)
    space, norm = _Convolution.apply(
        product, square, bias, column, radius, share, cast(Constant, adjacency).matrix, dropout
    )
    return space, norm


def centroids(space: Tensor, weights: Constant | Tensor, radius: Tensor) -> Tensor:
    """Space coordinates (M, d) of the centroids of points with space coordinates (N, d), each of
    M with its row of non-negative weights (M, N)."""
    time = (row_dot(space, space) + radius).sqrt()
    sums = weights @ torch.cat([space, time], dim=-1)
    square = sums[..., -1:].square()
    # As in `_Convolution`, rounding may leave nothing of -<S, S>.
    minimum = square * torch.finfo(space.dtype).eps
    norm = torch.maximum(square - row_dot(sums[..., :-1], sums[..., :-1]), minimum)
    return sums[..., :-1] * (radius / norm).sqrt()


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


GATE_START = 3.0
"""A gate starts at sigmoid(3) = 0.95: nearly all low-pass, which suits homophilic graphs, and its
gradient is not 0."""

_adjacencies = WeakTensorKeyDictionary()
"""The matrices of the graphs in use, by their `edge_index`: computing one takes longer than a
layer's step."""


class LorentzLinear(TimedLinear):
    """Lorentz linear layer in space coordinates (FlatLand, Eq. 4): space' = M space + m time + b.

    M (`weight`) and b (`bias`) are shared, m (`time`) is personal and starts at 0. The time of the
    result follows from its space.

    Parameters
    ----------
    num_in, num_out : int

    Examples
    --------
    >>> layer = LorentzLinear(16, 4)
    >>> layer(torch.randn(5, 16), torch.tensor(1.0)).shape
    torch.Size([5, 4])
    >>> [name for name, _ in layer.named_parameters()]
    ['weight', 'bias', 'time']
    """

    def forward(self, space: Tensor, radius: Tensor) -> Tensor:  # type: ignore[override]
        """(N, num_in) -> (N, num_out), `radius` () being K."""
        return lorentz_linear(space, self.weight, self.bias, self.time, radius)


class LorentzConv(nn.Module):
    """Lorentz linear layer, centroid of the neighbours, ReLU and dropout (FlatLand, Eq. 4 and E.2),
    as one step.

    s = M space + m time + b is lifted onto the hyperboloid; low is the centroid of a node and its
    neighbours, weighted as a GCN weighs them; the result is the ReLU of g·low + (1 - g)(s - low).

    Parameters
    ----------
    num_in, num_out : int
    gate : bool
        Whether g = sigmoid(`gate`) is learned; else it is 1, no high-pass.
    dropout : float
        In [0, 1): the share of coordinates that becomes 0 in training, after the ReLU.

    Examples
    --------
    >>> layer = LorentzConv(16, 4)
    >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> layer(torch.randn(3, 16), edge_index, torch.tensor(1.0)).shape
    torch.Size([3, 4])
    >>> [name for name, _ in layer.named_parameters()]
    ['weight', 'bias', 'time', 'gate']
    """

    def __init__(self, num_in: int, num_out: int, gate: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.weight = nn.Parameter(torch.empty(num_out, num_in))
        self.bias = nn.Parameter(torch.empty(num_out))
        self.time = nn.Parameter(torch.zeros(num_out))
        self.gate = nn.Parameter(torch.tensor(GATE_START)) if gate else None
        start(self.weight, self.bias)

    def forward(self, space: Tensor, edge_index: Tensor, radius: Tensor) -> Tensor:
        """Space coordinates after the layer.

        Parameters
        ----------
        space : Tensor, (N, num_in)
        edge_index : Tensor, (2, E), of integers
            Undirected: a pair of nodes counts once, in whichever directions it occurs.
        radius : Tensor, ()
            K.

        Returns
        -------
        Tensor, (N, num_out)
        """
        adjacency = _adjacency(edge_index, len(space), space.dtype)
        return self.convolved(space @ self.weight.t(), row_dot(space, space), adjacency, radius)[0]

    def convolved(
        self, product: Tensor, square: Tensor, adjacency: Constant | Tensor, radius: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The same from precomputed space Mᵀ (N, num_out), squared norms of the rows (N, 1), and
        adjacency matrix.

        Returns
        -------
        space : Tensor, (N, num_out)
        square : Tensor, (N, 1)
            The squared norms of its rows.
        """
        gate = None if self.gate is None else torch.sigmoid(self.gate)
        dropout = self.dropout if self.training else 0.0
        return convolve(product, square, self.bias, self.time, radius, gate, adjacency, dropout)


class LorentzReadout(nn.Linear):
    """Logits from distances to one point per class, 2K + 2<x, c> + b: minus the squared Lorentz
    distance, plus b.

    The weights are the space coordinates of the points c, which are lifted onto each client's own
    hyperboloid. All parameters are shared.

    Parameters
    ----------
    num_in, num_classes : int

    Examples
    --------
    >>> LorentzReadout(16, 3)(torch.randn(5, 16), torch.tensor(1.0)).shape
    torch.Size([5, 3])
    """

    def __init__(self, num_in: int, num_classes: int) -> None:
        super().__init__(num_in, num_classes)
        start(self.weight, self.bias)

    def forward(self, space: Tensor, radius: Tensor) -> Tensor:  # type: ignore[override]
        """(N, num_in) -> (N, num_classes), `radius` () being K."""
        return distance_logits(space, self.weight, self.bias, radius)


@torch.inference_mode(False)  # scoring may be the first to ask, and training uses the result
def _adjacency(edge_index: Tensor, num_nodes: int, dtype: torch.dtype) -> Constant:
    """The normalised adjacency of a graph, stored as long as its `edge_index` exists and is
    unchanged.
    """
    # A tensor of inference mode does not count writes, so its matrix is always recomputed: no other
    # object equals a new one.
    about = (object() if edge_index.is_inference() else edge_index._version, num_nodes, dtype)
    if edge_index not in _adjacencies or _adjacencies[edge_index][0] != about:
        # the pairs' numbers exceed 32 bits
        rows, columns = edge_index[:, edge_index[0] != edge_index[1]].long()
        pairs = torch.unique(torch.cat([rows * num_nodes + columns, columns * num_nodes + rows]))
        both = torch.stack([pairs // num_nodes, pairs % num_nodes])
        _adjacencies[edge_index] = about, normalized_adjacency(both, num_nodes, dtype)
    return _adjacencies[edge_index][1]
