"""The clusters of a client's graph, and the task that trains on some of them at a time
(Cluster-GCN, Chiang et al., KDD 2019)."""

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn

from curvfed.tasks.draws import permutation
from curvfed.tasks.graphs.client_task import GraphTask
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.data.partition import metis_parts
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.sparse import Constant, bounds, positions, select_rows
from curvfed.tasks.task import Batch

CLUSTERS_PER_BATCH = 8
"""Each pass draws several clusters anew, so that in time every edge is in a batch (Section 3.2)."""


def cut(graph: ClientGraph, spec: GraphSpec) -> Tensor:
    """The METIS part of each node, (N,), with `CLUSTERS_PER_BATCH` parts to a batch.

    Equal graphs, seeds and batch sizes give equal clusters.
    """
    num_nodes = len(graph.features)
    num_clusters = min(CLUSTERS_PER_BATCH * -(-num_nodes // spec.batch_size), num_nodes)
    parts = metis_parts(graph.edge_index.numpy(), num_nodes, num_clusters, spec.seed)
    return torch.from_numpy(parts)


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


class ClusteredNodeTask(GraphTask):
    """Classification of the nodes of one graph in batches of clusters, with the edges inside each
    batch.

    Each step normalises its adjacency, as in Cluster-GCN (Chiang et al., 2019, Section 3.1). Scores
    and predictions are also computed in portions, so that memory holds the activations of one batch
    at most: some clusters and their neighbours, without the least linked neighbours if there are
    too many. They differ from those of the whole graph by the influence of nodes further away.

    Parameters
    ----------
    graph, class_names, device
        As `GraphTask`, with clusters.
    batch_size : int
        Approximate number of nodes per step.
    selection : Tensor, (N,), bool, or None
        The nodes used in training, including the training nodes; None for all.
    """

    def __init__(
        self,
        graph: ClientGraph,
        class_names: tuple[str, ...],
        device: torch.device,
        batch_size: int,
        selection: Tensor | None = None,
    ) -> None:
        super().__init__(graph, class_names, device)
        self._batches = NodeBatches(graph, device)
        self._batch_size = batch_size
        self._num_batches = -(-len(self.labels) // batch_size)
        self._selection = None if selection is None else selection.to(device)
        self._is_train = graph.train.to(device)
        clusters = torch.arange(len(self._batches), device=device)
        training_clusters = cast(Tensor, graph.clusters)[graph.train]
        trains = torch.isin(clusters, training_clusters.to(device))
        self._training = clusters[trains]
        self._unlabelled = clusters[~trains]

    @property
    def num_steps(self) -> int:
        """The number of batches with training nodes."""
        return min(self._num_batches, len(self._training))

    def batches(self, model: nn.Module) -> Iterator[Batch]:
        """One pass over the clusters in a new random order; clusters with training nodes are
        distributed over the batches first.

        Each training node is thus in one batch, and batches without training nodes are skipped.
        """
        shuffled = [
            clusters[permutation(len(clusters), clusters.device)]
            for clusters in (self._training, self._unlabelled)
        ]
        order = torch.cat(shuffled)
        for number in range(self.num_steps):
            clusters = order[number :: self._num_batches]
            nodes, inputs = self._batches.of(clusters, self._selection)
            rows = self._is_train[nodes].nonzero().squeeze(1)
            yield Batch(inputs, self.labels[nodes[rows]], rows)

    def logits(self, model: nn.Module) -> Tensor:
        """Logits (N, C) of every node, dropout off, in batches of half nodes, half neighbours."""
        model.eval()
        clusters = torch.arange(len(self._batches), device=self.labels.device)
        outputs = []
        with torch.inference_mode():
            for portion in clusters.tensor_split(min(2 * self._num_batches, len(clusters))):
                nodes, rows, inputs = self._batches.around(portion, self._batch_size // 2)
                outputs.append((nodes, model(inputs)[rows]))
            numbers, logits = map(torch.cat, zip(*outputs, strict=True))
            return logits[numbers.argsort()]
