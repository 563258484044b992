"""Lorentz layers as ordinary modules, for users' own networks; import them from `curvfed.nn`.

A node is a point of the hyperboloid <x, x> = 1/c of curvature c, given by its space coordinates,
(N, d): its time is √(1 + |c||space|²)/√|c|. Layers use the time in units of the radius, 1/√|c|,
which is 1 everywhere in flat space: at c = 0 the layers are their own limit, with sums in which no
curvature occurs. Parameters called `time`, `gate` and `k` are personal in FlatLand (`flatland`
keeps `*.time`, `*.gate` and `k` at each client); all others are shared.
"""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from curvfed.tasks.graphs.data import checked_parts
from curvfed.tasks.graphs.lorentz_layers import (
    Space,
    distance_logits,
    first_order,
    lorentz_linear,
    magnitude,
    refuse_autocast,
    row_dot,
)
from curvfed.tasks.graphs.model_spec import (
    TimedLinear,
    dropout_factors,
    is_transformed,
    start,
)
from curvfed.tasks.graphs.sparse import (
    Constant,
    multiply,
    normalized_adjacency,
    row_means,
)


def convolve(
    product: Tensor,
    square: Tensor,
    bias: Tensor,
    column: Tensor,
    curvature: Space,
    gate: Tensor | None,
    adjacency: Constant | Tensor,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Lorentz linear layer, neighbour centroid, gate, ReLU and dropout, in space coordinates
    (FlatLand, Eq. 4 and E.2).

    s = product + t mᵀ + b is lifted onto the hyperboloid; low is the centroid of the neighbours, in
    flat space their weighted mean; ReLU is applied to g·low + (1 - g)(s - low), a mixture of the
    space parts of low-pass and high-pass. (Most rows of the high-pass itself are not time-like and
    lack a centroid.)

    Parameters
    ----------
    product : Tensor, (N, d)
        Space coordinates of the input times M.
    square : Tensor, (N, 1)
        Squared norm of the input's space coordinates; its time t is √(1 + |c|square).
    bias, column : Tensor, (d,)
        b and m.
    curvature : float or Tensor
        c.
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
    size = magnitude(curvature, product)
    if size is not None and not is_transformed():
        share = product.new_ones(()) if gate is None else gate
        matrix = cast(Constant, adjacency).matrix
        space, norm = _Convolution.apply(
            product, square, bias, column, size, share, matrix, dropout
        )
        return space, norm
    times: Tensor | float = 1.0 if size is None else (size * square + 1).sqrt()
    points = product + bias + times * column
    low = centroids(points, adjacency, curvature)
    if gate is None:
        mixed = low
    else:
        mixed = gate * low + (1 - gate) * (points - low)
    hidden = F.relu(mixed)
    hidden = hidden * dropout_factors(hidden, dropout) if dropout else hidden
    return hidden, row_dot(hidden, hidden)


def centroids(space: Tensor, weights: Constant | Tensor, curvature: Space) -> Tensor:
    """Space coordinates (M, d) of the centroids of points with space coordinates (N, d), each of
    M with its row of non-negative weights (M, N); in flat space the weighted means."""
    size = magnitude(curvature, space)
    if size is None:
        return row_means(weights, space)
    time = (size * row_dot(space, space) + 1).sqrt()
    sums = weights @ torch.cat([space, time], dim=-1)
    square = sums[..., -1:].square()
    # As in `_Convolution`, rounding may leave nothing of -<S, S>.
    minimum = square * torch.finfo(space.dtype).eps
    norm = torch.maximum(square - size * row_dot(sums[..., :-1], sums[..., :-1]), minimum)
    return sums[..., :-1] * norm.rsqrt()


class _Convolution(torch.autograd.Function):
    """Points are rows (space, time in units of the radius) of one matrix, so that one sparse
    product sums both over the neighbours."""

    @staticmethod
    def forward(
        ctx: Any,
        product: Tensor,
        square: Tensor,
        bias: Tensor,
        column: Tensor,
        size: Tensor,
        gate: Tensor,
        adjacency: Tensor,
        dropout: float,
    ) -> tuple[Tensor, Tensor]:
        c = _number(size)
        g = _number(gate)
        time = (square * c).add_(1).sqrt_()
        points = product.new_empty(product.shape[0], product.shape[1] + 1)
        space = points[:, :-1]
        lifted = points[:, -1:]
        torch.addcmul(product + bias, time, column, out=space)
        space_square = row_dot(space, space)
        torch.sqrt((space_square * c).add_(1), out=lifted)
        neighbours = multiply(adjacency, points)
        sums = neighbours[:, :-1]
        sum_times = neighbours[:, -1:]
        sum_square = row_dot(sums, sums)
        # -<S, S> of the sum S, at least eps·S₀², because rounding may leave nothing of it, in
        # float32 at radius 8.
        norm = sum_times.square()
        minimum = norm * torch.finfo(space.dtype).eps
        norm = torch.maximum(norm.sub_(sum_square * c), minimum)
        scale = norm.rsqrt()
        mixed = torch.addcmul(space * (1 - g), scale * (2 * g - 1), sums)
        passed = mixed.sign().clamp_(min=0)  # faster than a comparison
        if dropout:
            passed.mul_(dropout_factors(mixed, dropout))
        hidden = mixed.mul_(passed)
        ctx.adjacency = adjacency
        ctx.c = c
        ctx.g = g
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(
            square,
            time,
            column,
            points,
            space_square,
            neighbours,
            sum_square,
            norm,
            scale,
            passed,
            hidden,
        )
        return hidden, row_dot(hidden, hidden)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        first_order()
        (
            square,
            time,
            column,
            points,
            space_square,
            neighbours,
            sum_square,
            norm,
            scale,
            passed,
            hidden,
        ) = ctx.saved_tensors
        space = points[:, :-1]
        lifted = points[:, -1:]
        sums = neighbours[:, :-1]
        sum_times = neighbours[:, -1:]
        c = ctx.c
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
        # low = S/√n with n = S₀² - |c||S|²: a change of n changes the whole row.
        through_norm = (along / norm).mul_(to_low)
        to_sums = torch.empty_like(points)
        torch.addcmul(gradient * (scale * to_low), through_norm * c, sums, out=to_sums[:, :-1])
        torch.mul(through_norm, sum_times, out=to_sums[:, -1:])
        to_points = multiply(ctx.adjacency, to_sums)
        to_space = to_points[:, :-1]
        from_lifted = to_points[:, -1:].div(lifted)
        to_space.add_(gradient * (1 - g)).addcmul_(from_lifted * c, space, value=-1)
        from_time = (to_space @ column).unsqueeze(-1).div_(2 * time)
        to_size = None
        if ctx.needs_input_grad[4]:
            to_size = (from_time * square).sum()
            to_size.sub_((from_lifted * space_square).sum(), alpha=0.5)
            to_size.add_((through_norm * sum_square).sum(), alpha=0.5)
        to_gate = None
        if ctx.needs_input_grad[5]:
            to_gate = 2 * along.sum() - row_dot(gradient, space).sum()
        to_column = (time.t() @ to_space).squeeze(0)
        to_square = from_time * c
        return to_space, to_square, to_space.sum(0), to_column, to_size, to_gate, None, None


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
    """Lorentz linear layer in space coordinates (FlatLand, Eq. 4): space' = M space + m t + b, t
    being the time in units of the radius.

    M (`weight`) and b (`bias`) are shared, m (`time`) is personal and starts at 0. The time of the
    result follows from its space.

    Parameters
    ----------
    num_in, num_out : int

    Examples
    --------
    >>> layer = LorentzLinear(16, 4)
    >>> layer(torch.randn(5, 16), curvature=-1.0).shape
    torch.Size([5, 4])
    >>> [name for name, _ in layer.named_parameters()]
    ['weight', 'bias', 'time']
    """

    def forward(self, space: Tensor, curvature: Space) -> Tensor:  # type: ignore[override]
        """(N, num_in) -> (N, num_out); `curvature` at most 0."""
        return lorentz_linear(space, self.weight, self.bias, self.time, curvature)


class LorentzConv(nn.Module):
    """Lorentz linear layer, centroid of the neighbours, ReLU and dropout (FlatLand, Eq. 4 and E.2),
    as one step.

    s = M space + m t + b is lifted onto the hyperboloid; low is the centroid of a node and its
    neighbours, weighted as a GCN weighs them, in flat space their weighted mean; the result is the
    ReLU of g·low + (1 - g)(s - low).

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
    >>> layer(torch.randn(3, 16), edge_index, curvature=-1.0).shape
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

    def forward(self, space: Tensor, edge_index: Tensor, curvature: Space) -> Tensor:
        """Space coordinates after the layer.

        Parameters
        ----------
        space : Tensor, (N, num_in)
        edge_index : Tensor, (2, E), of integers
            Undirected: a pair of nodes counts once, in whichever directions it occurs.
        curvature : float or Tensor, ()
            At most 0.

        Returns
        -------
        Tensor, (N, num_out)

        Raises
        ------
        DataError
            If `edge_index` is not such a tensor, or an edge has a node outside 0..N-1.
        """
        adjacency = _adjacency(edge_index, len(space), space.dtype)
        product = space @ self.weight.t()
        return self.convolved(product, row_dot(space, space), adjacency, curvature)[0]

    def convolved(
        self, product: Tensor, square: Tensor, adjacency: Constant | Tensor, curvature: Space
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
        return convolve(product, square, self.bias, self.time, curvature, gate, adjacency, dropout)


class LorentzReadout(nn.Linear):
    """Logits from distances to one point y per class, 2/|c| + 2<x, y> + b: minus the squared
    Lorentz distance, plus b; in flat space minus the squared Euclidean distance.

    The weights are the space coordinates of the points y, which are lifted onto each client's own
    hyperboloid. All parameters are shared.

    Parameters
    ----------
    num_in, num_classes : int

    Examples
    --------
    >>> LorentzReadout(16, 3)(torch.randn(5, 16), curvature=-1.0).shape
    torch.Size([5, 3])
    """

    def __init__(self, num_in: int, num_classes: int) -> None:
        super().__init__(num_in, num_classes)
        start(self.weight, self.bias)

    def forward(self, space: Tensor, curvature: Space) -> Tensor:  # type: ignore[override]
        """(N, num_in) -> (N, num_classes); `curvature` at most 0."""
        return distance_logits(space, self.weight, self.bias, curvature)


@torch.inference_mode(False)  # scoring may be the first to ask, and training uses the result
def _adjacency(edge_index: Tensor, num_nodes: int, dtype: torch.dtype) -> Constant:
    """The normalised adjacency of a graph, stored as long as its `edge_index` exists and is
    unchanged.
    """
    # A tensor of inference mode does not count writes, so its matrix is always recomputed: no other
    # object equals a new one.
    stamp = (object() if edge_index.is_inference() else edge_index._version, num_nodes, dtype)
    if edge_index not in _adjacencies or _adjacencies[edge_index][0] != stamp:
        # Of 64 bits, because the pairs' numbers exceed 32.
        edges = checked_parts.edges("LorentzConv", edge_index, num_nodes)
        rows, columns = edges[:, edges[0] != edges[1]]
        pairs = torch.unique(torch.cat([rows * num_nodes + columns, columns * num_nodes + rows]))
        both = torch.stack([pairs // num_nodes, pairs % num_nodes])
        _adjacencies[edge_index] = stamp, normalized_adjacency(both, num_nodes, dtype)
    return _adjacencies[edge_index][1]
