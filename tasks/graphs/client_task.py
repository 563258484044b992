"""The tasks of graph data: the nodes of one graph are classified, or whole graphs."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.tasks.examples import example_statistics
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.inputs import GraphBatches, GraphInputs
from curvfed.tasks.task import Batch, Task


def statistics(graph: ClientGraph, triangles: bool = True) -> dict[str, Any]:
    """Figures about one client's data: those of `example_statistics`, the sizes, and the mean
    curvature "forman".

    Edges are undirected; `triangles` chooses the form of the Forman-Ricci curvature.
    """
    return {
        "num_graphs": 1 if graph.task == "nodes" else len(graph.labels),
        "num_nodes": len(graph.features),
        "num_edges": graph.edge_index.shape[1] // 2,
        **example_statistics(graph),
        "forman": graph.forman if triangles else graph.forman_plain,
    }


class GraphTask(Task):
    """One client's graph data on its device, trained by cross-entropy."""

    @abstractmethod
    def logits(self, model: nn.Module) -> Tensor:
        """Logits (n, C) of every example, dropout off."""

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Cross-entropy of the logits."""
        return F.cross_entropy(batch.select(model(batch.inputs)), batch.labels)

    def scored_logits(self, model: nn.Module) -> dict[str, Tensor]:
        """Logits (m, C) of the "val" and of the "test" examples, dropout off."""
        logits = self.logits(model)
        return {name: logits[self.parts[name]] for name in ("val", "test")}


class NodeTask(GraphTask):
    """Classification of the nodes of one graph, all of it at once."""

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
        """The one step of a pass."""
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
        In (0, 1]: the share of the nodes that training sees
        (`curvfed.tasks.graphs.data.selection`), the labelled training nodes always among them.
    """

    def __init__(
        self,
        graph: ClientGraph,
        class_names: tuple[str, ...],
        device: torch.device,
        node_share: float,
    ) -> None:
        super().__init__(graph, class_names, device)
        from curvfed.tasks.graphs.data.selection import induced, selected

        part = induced(graph, selected(graph, node_share))
        self._seen = GraphInputs.of(part, device)
        self._rows = part.train.nonzero().squeeze(1).to(device)

    def batches(self, model: nn.Module) -> Iterator[Batch]:
        """The one step of a pass."""
        yield Batch(self._seen, self.train_labels, self._rows)


class ClusteredNodeTask(GraphTask):
    """Classification of the nodes of one graph, some of its clusters at a time, each with its own
    edges alone.

    A step's adjacency is normalised anew, as in Cluster-GCN (Chiang et al., 2019, Section 3.1).
    Scores and predictions are computed in portions too, whatever the network, and no more than a
    batch's activations are ever held: those of some clusters and of their neighbours, of which the
    least linked are left out where they are many. They differ from those of the whole graph by what
    comes from further away.

    Parameters
    ----------
    graph, class_names, device
        As `GraphTask`, with clusters.
    batch_size : int
        Nodes per step, about.
    kept : Tensor, (N,), bool, or None
        The nodes that training sees, the training nodes among them; None for all.
    """

    def __init__(
        self,
        graph: ClientGraph,
        class_names: tuple[str, ...],
        device: torch.device,
        batch_size: int,
        kept: Tensor | None = None,
    ) -> None:
        from curvfed.tasks.graphs.node_batches import NodeBatches

        super().__init__(graph, class_names, device)
        self._batches = NodeBatches(graph, device)
        self._batch_size = batch_size
        self._num_batches = -(-len(self.labels) // batch_size)
        self._kept = None if kept is None else kept.to(device)
        self._is_train = graph.train.to(device)
        clusters = torch.arange(len(self._batches), device=device)
        trains = torch.isin(clusters, cast(Tensor, graph.clusters)[graph.train].to(device))
        self._training = clusters[trains]
        self._others = clusters[~trains]

    @property
    def num_steps(self) -> int:
        """As many as there are batches with training nodes."""
        return min(self._num_batches, len(self._training))

    def batches(self, model: nn.Module) -> Iterator[Batch]:
        """One pass over the clusters in an order drawn anew, those with training nodes dealt to the
        batches first.

        So every training node is in one batch, and only batches without any are left out.
        """
        drawn = [
            one[torch.randperm(len(one), device=one.device)]
            for one in (self._training, self._others)
        ]
        order = torch.cat(drawn)
        for number in range(self.num_steps):
            nodes, inputs = self._batches.of(order[number :: self._num_batches], self._kept)
            rows = self._is_train[nodes].nonzero().squeeze(1)
            yield Batch(inputs, self.labels[nodes[rows]], rows)

    def logits(self, model: nn.Module) -> Tensor:
        """Logits (N, C) of every node, dropout off: half of a batch are nodes, the other half is
        room for neighbours."""
        model.eval()
        clusters = torch.arange(len(self._batches), device=self.labels.device)
        found = []
        with torch.inference_mode():
            for part in clusters.tensor_split(min(2 * self._num_batches, len(clusters))):
                nodes, rows, inputs = self._batches.around(part, self._batch_size // 2)
                found.append((nodes, model(inputs)[rows]))
            numbers, logits = map(torch.cat, zip(*found, strict=True))
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
        """As many as there are batches."""
        return -(-self.num_examples // self._batch_size) if self._batch_size else 1

    def batches(self, model: nn.Module) -> Iterator[Batch]:
        """One pass in shuffled batches, each graph once."""
        train = self.parts["train"]
        shuffled = train[torch.randperm(len(train), device=train.device)]
        for graphs, inputs in self._batches.each(shuffled, self._batch_size):
            yield Batch(inputs, self.labels[graphs])

    def logits(self, model: nn.Module) -> Tensor:
        """Logits (G, C) of every graph, dropout off."""
        return self._logits_of(model, torch.arange(len(self.labels), device=self.labels.device))

    def scored_logits(self, model: nn.Module) -> dict[str, Tensor]:
        """Logits (m, C) of the "val" and of the "test" examples, dropout off."""
        return {name: self._logits_of(model, self.parts[name]) for name in ("val", "test")}

    def _logits_of(self, model: nn.Module, graphs: Tensor) -> Tensor:
        model.eval()
        with torch.inference_mode():
            found = [model(batch) for _, batch in self._batches.each(graphs, self._batch_size)]
        return torch.cat(found) if found else torch.zeros(0, 1, device=graphs.device)


def client_task(
    graph: ClientGraph,
    class_names: tuple[str, ...],
    device: torch.device,
    batch_size: int = 0,
    node_share: float = 1.0,
) -> GraphTask:
    """The task of a client's data.

    With a `node_share` below 1 the least important nodes are left out: of whole graphs always, of
    nodes that are themselves classified in training alone, so that all of these are scored with all
    their neighbours.
    """
    if graph.clusters is not None:
        from curvfed.tasks.graphs.data.selection import selected

        kept = selected(graph, node_share) if node_share < 1 else None
        return ClusteredNodeTask(graph, class_names, device, batch_size, kept)
    if graph.task == "nodes":
        if node_share < 1:
            return SelectedNodeTask(graph, class_names, device, node_share)
        return NodeTask(graph, class_names, device)
    if node_share < 1:
        from curvfed.tasks.graphs.data.selection import induced, selected

        graph = induced(graph, selected(graph, node_share))
    return WholeGraphTask(graph, class_names, device, batch_size)
