"""Lorentz layers as ordinary modules, for users' own networks; import them from `curvfed.nn`.

A node is a point of the hyperboloid <x, x> = -K of curvature -1/K, given by its space coordinates,
(N, d): its time is √(K + |space|²). Parameters called `time`, `gate` and `k` are personal in
FlatLand (`flatland` keeps `*.time`, `*.gate` and `k` at each client); all others are shared.
"""

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from curvfed.tasks.graphs.lorentz.convolution import convolve
from curvfed.tasks.graphs.lorentz.layers import distance_logits, lorentz_linear, row_dot
from curvfed.tasks.graphs.model_spec import TimedLinear, start
from curvfed.tasks.graphs.sparse import Constant, normalized_adjacency

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
        self, product: Tensor, square: Tensor, adjacency: Constant, radius: Tensor
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
    adjacency: Constant = _adjacencies[edge_index][1]
    return adjacency
