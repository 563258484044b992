"""The tasks of graph data: classify the nodes of one graph, or whole graphs. Extensions add
training on parts of a graph by the group `curvfed.graph-tasks`."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.tasks import plugins
from curvfed.tasks.draws import permutation
from curvfed.tasks.graphs.data.client_graph import ClientGraph, induced
from curvfed.tasks.graphs.inputs import DenseGraphs, GraphBatches, GraphInputs
from curvfed.tasks.task import Batch, Task, filled_up

MAX_GRAPHS = 16
"""Number of dense graphs in memory at a time."""

MAX_ENTRIES = 2**20
"""Entries of their adjacency matrices."""


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
    """Classification of nodes that trains on some nodes and the edges between them, and scores all
    nodes.

    Parameters
    ----------
    graph, class_names, device
        As `GraphTask`.
    selection : Tensor, (N,), bool
        The nodes used in training, including the training nodes.
    """

    def __init__(
        self,
        graph: ClientGraph,
        class_names: tuple[str, ...],
        device: torch.device,
        selection: Tensor,
    ) -> None:
        super().__init__(graph, class_names, device)
        smaller = induced(graph, selection)
        self._training_inputs = GraphInputs.of(smaller, device)
        self._rows = smaller.train.nonzero().squeeze(1).to(device)

    def batches(self, model: nn.Module) -> Iterator[Batch]:
        """The single step of a pass."""
        yield Batch(self._training_inputs, self.train_labels, self._rows)


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

    With a `node_share` below 1 some nodes are left out (`selection` of the group
    `curvfed.graph-tasks`): always if graphs are classified; only in training if nodes are
    classified, so that all nodes are scored with all their neighbours. A graph with clusters has
    the task `clusters` of the group.

    Raises
    ------
    DataError
        If no package has what the task needs.
    """
    selection: Tensor | None = None
    if node_share < 1:
        selection = plugins.addition(plugins.GRAPH_TASKS, "selection")(graph, node_share)
    if graph.clusters is not None:
        clusters = plugins.addition(plugins.GRAPH_TASKS, "clusters")
        task: GraphTask = clusters(graph, class_names, device, batch_size, selection)
        return task
    if graph.task == "nodes":
        if selection is not None:
            return SelectedNodeTask(graph, class_names, device, selection)
        return NodeTask(graph, class_names, device)
    if selection is not None:
        graph = induced(graph, selection)
    return WholeGraphTask(graph, class_names, device, batch_size)
