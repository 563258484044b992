"""Batches of the nodes of one graph, cut on the device: some clusters with the edges between
them."""

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
        self._features = graph.features.to(device)
        self._edges = graph.edge_index.to(device)
        self._weights = None if graph.edge_weights is None else graph.edge_weights.to(device)
        # Edges are sorted by node, so the edges of a node are a range; so are the nodes of a
        # cluster in the order of `_nodes`.
        degrees = graph.edge_index[0].bincount(minlength=len(graph.clusters))
        self._columns = bounds(degrees).to(device)
        self._nodes = graph.clusters.argsort(stable=True).to(device)
        self._clusters = bounds(graph.clusters.bincount()).to(device)

    def __len__(self) -> int:
        """The number of clusters."""
        return len(self._clusters) - 1

    def of(self, chosen: Tensor, selection: Tensor | None = None) -> tuple[Tensor, GraphInputs]:
        """The nodes of some clusters and the edges between them.

        Parameters
        ----------
        chosen : Tensor, (n,), int64
            The clusters' numbers.
        selection : Tensor, (N,), bool, or None
            The nodes that count; None for all.

        Returns
        -------
        nodes : Tensor, (m,), int64
            Their numbers in the graph, ascending.
        inputs : GraphInputs
        """
        nodes = self._members(chosen)
        if selection is not None:
            nodes = nodes[selection[nodes]]
        return nodes, self._cut(nodes)

    def around(self, chosen: Tensor, room: int) -> tuple[Tensor, Tensor, GraphInputs]:
        """The nodes of some clusters and at most `room` neighbours: those with the most edges to
        the clusters.

        Returns
        -------
        nodes : Tensor, (m,), int64
            The numbers of the clusters' nodes.
        rows : Tensor, (m,), int64
            Their rows in the inputs.
        inputs : GraphInputs
            With all edges between nodes and neighbours.
        """
        nodes = self._members(chosen)
        ends = self._edges[1, positions(self._columns, nodes)[0]]
        near, edges = torch.unique(ends, return_counts=True)
        outside = ~torch.isin(near, nodes)
        nearest = edges[outside].argsort(descending=True, stable=True)[:room]
        visible = torch.cat([nodes, near[outside][nearest]]).sort().values
        return nodes, torch.searchsorted(visible, nodes), self._cut(visible)

    def _members(self, chosen: Tensor) -> Tensor:
        return self._nodes[positions(self._clusters, chosen)[0]].sort().values

    @torch.inference_mode(False)  # scoring may be the first use, and training uses the result
    def _cut(self, nodes: Tensor) -> GraphInputs:
        """Nodes, ascending, and the edges between them."""
        place = torch.full_like(self._nodes, -1)
        place[nodes] = torch.arange(len(nodes), device=nodes.device)
        columns, _ = positions(self._columns, nodes)
        edges = place[self._edges[:, columns]]
        inside = edges[1] >= 0
        weights = None if self._weights is None else self._weights[columns[inside]]
        features = Constant.of(select_rows(self._features, nodes))
        return GraphInputs(features, edges[:, inside], edge_weights=weights)
