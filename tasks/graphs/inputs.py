"""The inputs of the models: features and adjacency of one graph, or of several joined graphs."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import torch
from torch import Tensor

from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.sparse import (
    Constant,
    bounds,
    memberships,
    neighbour_sums,
    normalized_adjacency,
    positions,
    row_norms,
)


@dataclass(frozen=True, eq=False)
class GraphInputs:
    """One graph, or several graphs joined into one; each matrix is computed at its first use.

    Attributes
    ----------
    features : Constant, (N, F)
        Dense if graphs are classified.
    edge_index : Tensor, (2, E), int64
        Both directions, no self-loops, no duplicates, sorted lexicographically.
    graph_of_node : Tensor, (N,), int64, or None
        Ascending from 0; None if nodes are classified.
    num_graphs : int
    edge_weights : Tensor, (E,), or None
        The edge weights in `adjacency`; None: 1.
    """

    features: Constant
    edge_index: Tensor
    graph_of_node: Tensor | None = None
    num_graphs: int = 1
    edge_weights: Tensor | None = None

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.features.matrix.shape[0]

    @cached_property
    @torch.inference_mode(False)  # scoring may be the first use, and training uses the result
    def adjacency(self) -> Constant:
        """(N, N), symmetrically normalised, with self-loops."""
        return normalized_adjacency(
            self.edge_index, self.num_nodes, self.features.matrix.dtype, self.edge_weights
        )

    @cached_property
    @torch.inference_mode(False)
    def sums(self) -> Constant:
        """(N, N), 0 and 1; its product with the nodes' rows is the sum over the neighbours."""
        return neighbour_sums(self.edge_index, self.num_nodes, self.features.matrix.dtype)

    @cached_property
    @torch.inference_mode(False)
    def members(self) -> Constant:
        """(G, N), 0 and 1, for whole graphs; its product with the nodes' rows is the sum over each
        graph."""
        return memberships(
            cast(Tensor, self.graph_of_node), self.num_graphs, self.features.matrix.dtype
        )

    @cached_property
    @torch.inference_mode(False)
    def dense(self) -> Tensor:
        """(N, F), the feature rows, for models without support for sparse features."""
        return _dense(self.features.matrix)

    @cached_property
    @torch.inference_mode(False)
    def norms(self) -> Tensor:
        """(N, 1), Euclidean norms of the feature rows, for `exp0`."""
        return row_norms(self.features.matrix)

    @classmethod
    def of(cls, graph: ClientGraph, device: torch.device) -> "GraphInputs":
        """All data of a client."""
        edges = graph.edge_index.to(device)
        owner = graph.graph_of_node
        if owner is not None:
            features = Constant.of(graph.features.to_dense()).to(device)
            return cls(features, edges, owner.to(device), len(graph.labels))
        weights = None if graph.edge_weights is None else graph.edge_weights.to(device)
        return cls(Constant.of(graph.features).to(device), edges, edge_weights=weights)


class DenseGraphs(NamedTuple):
    """Graphs as dense matrices of one size, with rows of zeros behind a smaller graph's; without
    the first dimension, one graph. The networks for whole graphs take one as they take
    `GraphInputs`, and `torch.func` maps them over several.

    Attributes
    ----------
    features : Tensor, (G, N, F)
    adjacency, sums : Tensor, (G, N, N)
    members : Tensor, (G, 1, N)
        1 for a node, 0 for a row behind.
    norms : Tensor, (G, N, 1)
    """

    features: Tensor
    adjacency: Tensor
    sums: Tensor
    members: Tensor
    norms: Tensor

    @property
    def dense(self) -> Tensor:
        """The features."""
        return self.features

    @classmethod
    def of(cls, inputs: GraphInputs, size: int) -> "DenseGraphs":
        """The graphs of a batch as matrices of `size`, at least the largest number of nodes."""
        owner = cast(Tensor, inputs.graph_of_node)
        sizes = owner.bincount(minlength=inputs.num_graphs)
        places = torch.arange(len(owner), device=owner.device) - bounds(sizes)[owner]
        count = inputs.num_graphs
        features = inputs.dense.new_zeros(count, size, inputs.dense.shape[1])
        features[owner, places] = inputs.dense
        members = features.new_zeros(count, 1, size)
        members[owner, 0, places] = 1
        sums = features.new_zeros(count, size, size)
        rows, columns = inputs.edge_index
        sums[owner[rows], places[rows], places[columns]] = 1
        loops = sums + torch.eye(size, dtype=sums.dtype, device=sums.device)
        scale = loops.sum(dim=2).rsqrt()
        adjacency = scale[:, :, None] * loops * scale[:, None]
        norms = torch.linalg.vector_norm(features, dim=2, keepdim=True)
        return cls(features, adjacency, sums, members, norms)


class GraphBatches:
    """Batches of a client's graphs, cut on the device.

    Parameters
    ----------
    graph : ClientGraph
        Of task "graphs".
    device : torch.device

    Attributes
    ----------
    num_nodes : Tensor, (G,)
        Of each graph.
    """

    def __init__(self, graph: ClientGraph, device: torch.device) -> None:
        owner = cast(Tensor, graph.graph_of_node)
        num_graphs = len(graph.labels)
        self._features = graph.features.to(device)
        self._edges = graph.edge_index.to(device)
        # Nodes and edges are sorted by graph: a graph is a range of both.
        self.num_nodes = owner.bincount(minlength=num_graphs).to(device)
        self._nodes = bounds(self.num_nodes)
        num_columns = owner[graph.edge_index[0]].bincount(minlength=num_graphs)
        self._columns = bounds(num_columns).to(device)

    def of(self, graphs: Tensor) -> GraphInputs:
        """The graphs with these numbers, (n,) int64, ascending, as one batch."""
        nodes, sizes = positions(self._nodes, graphs)
        columns, degrees = positions(self._columns, graphs)
        shift = sizes.cumsum(0) - sizes - self._nodes[graphs]
        edges = self._edges[:, columns] + shift.repeat_interleave(degrees)
        owner = torch.arange(len(graphs), device=nodes.device).repeat_interleave(sizes)
        return GraphInputs(
            Constant.of(_dense_rows(self._features, nodes)), edges, owner, len(graphs)
        )

    def each(self, chosen: Tensor, size: int) -> Iterator[tuple[Tensor, GraphInputs]]:
        """Batches of `size` graphs (0: all) with the chosen numbers: the numbers, ascending, and
        the inputs."""
        for numbers in torch.split(chosen, size or max(len(chosen), 1)):
            if len(numbers):
                ascending = numbers.sort().values
                yield ascending, self.of(ascending)


def _dense(matrix: Tensor) -> Tensor:
    return matrix.to_dense() if matrix.layout == torch.sparse_csr else matrix


def _dense_rows(matrix: Tensor, rows: Tensor) -> Tensor:
    """Dense rows of a dense or CSR matrix, twice as fast as through a CSR matrix of the rows."""
    if matrix.layout != torch.sparse_csr:
        return matrix[rows]
    entries, lengths = positions(matrix.crow_indices().long(), rows)
    dense = torch.zeros(len(rows), matrix.shape[1], dtype=matrix.dtype, device=matrix.device)
    places = torch.arange(len(rows), device=rows.device).repeat_interleave(lengths)
    dense[places, matrix.col_indices()[entries].long()] = matrix.values()[entries]
    return dense
