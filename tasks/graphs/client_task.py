"""The tasks of graph data: classify the nodes of one graph, all in a step or some clusters with the
edges between them, or whole graphs."""

from collections.abc import Iterator
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.tasks.draws import permutation
from curvfed.tasks.graphs.data.client_graph import ClientGraph, induced, selected
from curvfed.tasks.graphs.inputs import DenseGraphs, GraphBatches, GraphInputs
from curvfed.tasks.graphs.sparse import Constant, bounds, positions, select_rows
from curvfed.tasks.task import Batch, Task, filled_up

MAX_GRAPHS = 16
"""Number of dense graphs in memory at a time."""

MAX_ENTRIES = 2**20
"""Entries of their adjacency matrices."""


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


class GraphTask(Task):
    """One client's graph data on its device, trained by cross-entropy."""

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Cross-entropy of the logits."""
        return F.cross_entropy(batch.select(model(batch.inputs)), batch.labels)


class NodeTask(GraphTask):
    """Classification of the nodes of one graph, with all nodes in one step."""

    def __init__(
        self, graph: ClientGraph, class_names: tuple[str, ...], device: torch.device
    ) -> None:
        super().__init__(graph, class_names, device)
        self.inputs = GraphInputs.of(graph, device)

    @property
    def num_steps(self) -> int:
        """One, on all nodes."""
        return 1

    def batches(self, model: nn.Module) -> Iterator[Batch]:
        """The single step of a pass."""
        yield Batch(self.inputs, self.train_labels, self.parts["train"])

    def logits(self, model: nn.Module) -> Tensor:
        """Logits (N, C) of every node, dropout off."""
        model.eval()
        with torch.inference_mode():
            logits: Tensor = model(self.inputs)
        return logits


class SelectedNodeTask(NodeTask):
    """Classification of nodes that trains on the most important nodes and the edges between them,
    and scores all nodes.

    Parameters
    ----------
    graph, class_names, device
        As `GraphTask`.
    node_share : float
        In (0, 1]: the share of the nodes used in training (`client_graph.selected`),
        always including the labelled training nodes.
    """

    def __init__(
        self,
        graph: ClientGraph,
        class_names: tuple[str, ...],
        device: torch.device,
        node_share: float,
    ) -> None:
        super().__init__(graph, class_names, device)
        smaller = induced(graph, selected(graph, node_share))
        self._training_inputs = GraphInputs.of(smaller, device)
        self._rows = smaller.train.nonzero().squeeze(1).to(device)

    def batches(self, model: nn.Module) -> Iterator[Batch]:
        """The single step of a pass."""
        yield Batch(self._training_inputs, self.train_labels, self._rows)


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


class WholeGraphTask(GraphTask):
    """Classification of graphs, in batches of `batch_size`; 0 takes all at once."""

    def __init__(
        self,
        graph: ClientGraph,
        class_names: tuple[str, ...],
        device: torch.device,
        batch_size: int = 0,
    ) -> None:
        super().__init__(graph, class_names, device)
        self._batches = GraphBatches(graph, device)
        self._batch_size = batch_size

    @property
    def num_steps(self) -> int:
        """The number of batches."""
        if self._batch_size:
            return -(-self.num_examples // self._batch_size)
        return 1

    def batches(self, model: nn.Module) -> Iterator[Batch]:
        """One pass in shuffled batches, each graph once."""
        train = self.parts["train"]
        shuffled = train[permutation(len(train), train.device)]
        for graphs, inputs in self._batches.each(shuffled, self._batch_size):
            yield Batch(inputs, self.labels[graphs])

    def batches_of(self, positions: Tensor, size: int) -> Iterator[Batch]:
        """The training graphs at these positions among the training graphs, as dense matrices; see
        `IndependentExamples`.

        The graphs of a batch have matrices of one size, the next power of two from their numbers of
        nodes. It bounds the number of graphs.
        """
        chosen = self.parts["train"][positions.to(self.labels.device)]
        bits = (self._batches.num_nodes[chosen] - 1).clamp(min=0).double().frexp().exponent
        for exponent in sorted(set(bits.tolist())):
            num_nodes = 1 << exponent
            batch_size = min(size, MAX_GRAPHS, max(1, MAX_ENTRIES // num_nodes**2))
            for numbers in torch.split(chosen[bits == exponent], batch_size):
                inputs = self._batches.of(filled_up(numbers, batch_size))
                rows = torch.arange(len(numbers), device=numbers.device)
                yield Batch(DenseGraphs.of(inputs, num_nodes), self.labels[numbers], rows)

    def logits(self, model: nn.Module) -> Tensor:
        """Logits (G, C) of every graph, dropout off."""
        return self._logits_of(model, torch.arange(len(self.labels), device=self.labels.device))

    def scored_logits(self, model: nn.Module) -> dict[str, Tensor]:
        """Logits (m, C) of the "val" and of the "test" examples, dropout off."""
        return {name: self._logits_of(model, self.parts[name]) for name in ("val", "test")}

    def _logits_of(self, model: nn.Module, graphs: Tensor) -> Tensor:
        model.eval()
        with torch.inference_mode():
            logits = [model(batch) for _, batch in self._batches.each(graphs, self._batch_size)]
        if logits:
            return torch.cat(logits)
        return torch.zeros(0, 1, device=graphs.device)


def client_task(
    graph: ClientGraph,
    class_names: tuple[str, ...],
    device: torch.device,
    batch_size: int = 0,
    node_share: float = 1.0,
) -> GraphTask:
    """The task of a client's data.

    With a `node_share` below 1 the least important nodes are left out: always if graphs are
    classified; only in training if nodes are classified, so that all nodes are scored with all
    their neighbours.
    """
    if graph.clusters is not None:
        selection = selected(graph, node_share) if node_share < 1 else None
        return ClusteredNodeTask(graph, class_names, device, batch_size, selection)
    if graph.task == "nodes":
        if node_share < 1:
            return SelectedNodeTask(graph, class_names, device, node_share)
        return NodeTask(graph, class_names, device)
    if node_share < 1:
        graph = induced(graph, selected(graph, node_share))
    return WholeGraphTask(graph, class_names, device, batch_size)
