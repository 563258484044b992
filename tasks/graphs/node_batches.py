"""Batches of the nodes of one graph, cut on the device: some of its clusters, with the edges between them."""

import torch
from torch import Tensor

from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.sparse import Constant, bounds, positions, select_rows


class NodeBatches:
    """The clusters of a graph.

    Parameters
    ----------
    graph : ClientGraph
        With clusters.
    device : torch.device
    """

    def __init__(self, graph: ClientGraph, device: torch.device) -> None:
        assert graph.clusters is not None, "the graph has no clusters"
        self._features, self._edges = graph.features.to(device), graph.edge_index.to(device)
        self._weights = None if graph.edge_weights is None else graph.edge_weights.to(device)
        # Edges lie node by node: those of a node are a range. So are the nodes of a cluster in this order.
        self._columns = bounds(graph.edge_index[0].bincount(minlength=len(graph.clusters))).to(device)
        self._nodes = graph.clusters.argsort(stable=True).to(device)
        self._clusters = bounds(graph.clusters.bincount()).to(device)

    def __len__(self) -> int:
        """The number of clusters."""
        return len(self._clusters) - 1

    def of(self, chosen: Tensor, kept: Tensor | None = None) -> tuple[Tensor, GraphInputs]:
        """The nodes of some clusters and the edges between them.

        Parameters
        ----------
        chosen : Tensor, (n,), int64
            The clusters' numbers.
        kept : Tensor, (N,), bool, or None
            The nodes that count; None for all.

        Returns
        -------
        nodes : Tensor, (m,), int64
            Their numbers in the graph, ascending.
        inputs : GraphInputs
        """
        nodes = self._nodes[positions(self._clusters, chosen)[0]].sort().values
        if kept is not None:
            nodes = nodes[kept[nodes]]
        place = torch.full_like(self._nodes, -1)
        place[nodes] = torch.arange(len(nodes), device=nodes.device)
        columns, _ = positions(self._columns, nodes)
        edges = place[self._edges[:, columns]]
        inside = edges[1] >= 0
        weights = None if self._weights is None else self._weights[columns[inside]]
        features = Constant.of(select_rows(self._features, nodes))
        return nodes, GraphInputs(features, edges[:, inside], edge_weights=weights)
