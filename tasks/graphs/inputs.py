"""What the models read: features and adjacency of one graph, or of a batch of graphs side by side."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.sparse import Constant, memberships, neighbour_sums, normalized_adjacency


@dataclass(frozen=True, eq=False)
class GraphInputs:
    """One graph, or several as one that falls apart into them; what a model does not ask for is not made.

    Attributes
    ----------
    features : Constant, (N, F)
        Dense where graphs are classified.
    edge_index : Tensor, (2, E), int64
        Both directions, no self-loops, no duplicates, sorted lexicographically.
    graph_of_node : Tensor, (N,), int64, or None
        Ascending from 0; None where nodes are classified.
    num_graphs : int
    """

    features: Constant
    edge_index: Tensor
    graph_of_node: Tensor | None = None
    num_graphs: int = 1

    @property
    def num_nodes(self) -> int:
        """N."""
        return len(self.features.matrix)

    @cached_property
    def adjacency(self) -> Constant:
        """(N, N), symmetrically normalised, with self-loops."""
        with torch.inference_mode(False):  # scoring may be the first to ask, training goes on with it
            return normalized_adjacency(self.edge_index, self.num_nodes, self.features.matrix.dtype)

    @cached_property
    def sums(self) -> Constant:
        """(N, N), 0 and 1: times the nodes' rows, the sum over the neighbours."""
        with torch.inference_mode(False):
            return neighbour_sums(self.edge_index, self.num_nodes, self.features.matrix.dtype)

    @cached_property
    def members(self) -> Constant:
        """(G, N), 1 where a node belongs to a graph: times the nodes' rows, the sum over each graph."""
        if self.graph_of_node is None:
            raise ValueError("one graph whose nodes are classified has no members to sum over")
        with torch.inference_mode(False):
            return memberships(self.graph_of_node, self.num_graphs, self.features.matrix.dtype)

    @cached_property
    def dense(self) -> Tensor:
        """(N, F), the feature rows, for models that know no sparse ones."""
        with torch.inference_mode(False):
            return _dense(self.features.matrix)

    @cached_property
    def norms(self) -> Tensor:
        """(N, 1), Euclidean norms of the feature rows, which `exp0` needs."""
        with torch.inference_mode(False):
            norms: Tensor = _dense(self.features.matrix).norm(dim=1, keepdim=True)
            return norms

    @classmethod
    def of(cls, graph: ClientGraph, device: torch.device) -> "GraphInputs":
        """All of a client's data as one."""
        owner = graph.graph_of_node
        return cls(
            Constant.of(graph.features if owner is None else graph.features.to_dense()).to(device),
            graph.edge_index.to(device),
            None if owner is None else owner.to(device),
            1 if owner is None else len(graph.labels),
        )


class GraphBatches:
    """Batches of a client's graphs, cut from tensors that are on the device already.

    Parameters
    ----------
    graph : ClientGraph
        Of task "graphs".
    device : torch.device
    """

    def __init__(self, graph: ClientGraph, device: torch.device) -> None:
        if graph.graph_of_node is None:
            raise ValueError("one graph whose nodes are classified has no batches")
        num_graphs = len(graph.labels)
        self._features = graph.features.to(device)
        self._edges = graph.edge_index.to(device)
        # Nodes and edges lie graph by graph: a graph is a range of either.
        self._nodes = _bounds(graph.graph_of_node, num_graphs).to(device)
        self._columns = _bounds(graph.graph_of_node[graph.edge_index[0]], num_graphs).to(device)

    def of(self, chosen: Tensor) -> GraphInputs:
        """The graphs of these numbers, (n,) int64 and ascending, as one batch."""
        nodes, sizes = _ranges(self._nodes, chosen)
        columns, degrees = _ranges(self._columns, chosen)
        moved = sizes.cumsum(0) - sizes - self._nodes[chosen]
        edges = self._edges[:, columns] + moved.repeat_interleave(degrees)
        owner = torch.arange(len(chosen), device=nodes.device).repeat_interleave(sizes)
        return GraphInputs(Constant.of(_rows(self._features, nodes)), edges, owner, len(chosen))

    def each(self, chosen: Tensor, size: int) -> Iterator[tuple[Tensor, GraphInputs]]:
        """The graphs of these numbers, `size` at a time (0: all at once): their numbers, ascending, and the batch."""
        for part in torch.split(chosen, size or max(len(chosen), 1)):
            if len(part):
                ascending = part.sort().values
                yield ascending, self.of(ascending)


def _dense(matrix: Tensor) -> Tensor:
    return matrix.to_dense() if matrix.layout == torch.sparse_csr else matrix


def _bounds(owner: Tensor, count: int) -> Tensor:
    """Ends of the ranges of an ascending numbering, (count + 1,), from 0."""
    return torch.nn.functional.pad(torch.bincount(owner, minlength=count).cumsum(0), (1, 0))


def _ranges(bounds: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """The positions in the chosen ranges, one after the other, and the ranges' lengths."""
    start, lengths = bounds[chosen], bounds[chosen + 1] - bounds[chosen]
    position = torch.arange(int(lengths.sum()), device=bounds.device)
    return position + (start - (lengths.cumsum(0) - lengths)).repeat_interleave(lengths), lengths


def _rows(matrix: Tensor, rows: Tensor) -> Tensor:
    """Rows of a dense or CSR matrix, dense: a batch is small."""
    if matrix.layout != torch.sparse_csr:
        return matrix[rows]
    entries, lengths = _ranges(matrix.crow_indices().long(), rows)
    dense = torch.zeros(len(rows), matrix.shape[1], dtype=matrix.dtype, device=matrix.device)
    places = torch.arange(len(rows), device=rows.device).repeat_interleave(lengths)
    dense[places, matrix.col_indices()[entries].long()] = matrix.values()[entries]
    return dense
