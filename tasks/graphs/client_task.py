"""What a client does with its data: describe them, give the losses of a pass, score a model."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.data.selection import induced, selected
from curvfed.tasks.graphs.inputs import GraphBatches, GraphInputs
from curvfed.tasks.metrics import score
from curvfed.tasks.task import Batch, Task


@dataclass(frozen=True)
class Statistics:
    """Figures about one client's data, which a real node keeps to itself unless told otherwise.

    Attributes
    ----------
    num_graphs, num_nodes, num_edges : int
        Edges are undirected.
    num_train, num_val, num_test : int
        Of the examples, nodes or graphs.
    class_counts : tuple of int
        Over all examples, in the order of the client's own class names.
    forman : float
        Mean Forman-Ricci curvature of the edges.
    majority_accuracy : float or None
        Test accuracy of always answering the most frequent training class; None without training or test examples.
    """

    num_graphs: int
    num_nodes: int
    num_edges: int
    num_train: int
    num_val: int
    num_test: int
    class_counts: tuple[int, ...]
    forman: float
    majority_accuracy: float | None


def statistics(graph: ClientGraph, triangles: bool = True) -> Statistics:
    """Measure one client's data; `triangles` chooses the form of the Forman-Ricci curvature."""
    test_labels, train_labels = graph.labels[graph.test], graph.labels[graph.train]
    majority = None
    if len(test_labels) and len(train_labels):
        # bincount and argmax break ties by the smaller index, so the figure is the same everywhere.
        majority = float((test_labels == torch.bincount(train_labels).argmax()).double().mean())
    return Statistics(
        num_graphs=1 if graph.task == "nodes" else len(graph.labels),
        num_nodes=len(graph.features),
        num_edges=graph.edge_index.shape[1] // 2,
        num_train=len(train_labels),
        num_val=int(graph.val.sum()),
        num_test=len(test_labels),
        class_counts=tuple(torch.bincount(graph.labels, minlength=len(graph.class_names)).tolist()),
        forman=graph.forman if triangles else graph.forman_plain,
        majority_accuracy=majority,
    )


class GraphTask(Task):
    """One client's data on its device, with labels in the federation's numbering.

    Parameters
    ----------
    graph : ClientGraph
    class_names : tuple of str
        The classes that number the labels and the logits: those of the whole federation, or where the clients' classes
        have nothing in common the client's own.
    device : torch.device

    Raises
    ------
    DataError
        If the client has a class that the federation does not know.
    """

    def __init__(self, graph: ClientGraph, class_names: tuple[str, ...], device: torch.device) -> None:
        unknown = set(graph.class_names) - set(class_names)
        if unknown:
            raise DataError(f"classes {sorted(unknown)} are not among the federation's {list(class_names)}")
        numbers = torch.tensor([class_names.index(name) for name in graph.class_names])
        self.metric = graph.metric
        self.labels = numbers[graph.labels].to(device)
        self._parts = {name: getattr(graph, name).nonzero().squeeze(1).to(device) for name in ("train", "val", "test")}
        self._labels = {name: self.labels[examples] for name, examples in self._parts.items()}
        self.train_labels = self._labels["train"]
        self.num_examples = len(self.train_labels)

    @abstractmethod
    def logits(self, model: nn.Module) -> Tensor:
        """Logits (n, C) of every example, dropout off."""

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Cross-entropy of the logits."""
        return F.cross_entropy(batch.of(model(batch.inputs)), batch.labels)

    def _scored_logits(self, model: nn.Module) -> dict[str, Tensor]:
        logits = self.logits(model)
        return {name: logits[self._parts[name]] for name in ("val", "test")}

    def scores(self, model: nn.Module) -> dict[str, float]:
        """Score the validation and the test examples, dropout off."""
        logits = self._scored_logits(model)
        found = {name: score(self.metric, logits[name], self._labels[name]) for name in ("val", "test")}
        if self.metric != "accuracy":
            found["accuracy"] = score("accuracy", logits["test"], self._labels["test"])
        return {name: value for name, value in found.items() if value is not None}


class NodeTask(GraphTask):
    """Classification of the nodes of one graph, all of it at once."""

    def __init__(self, graph: ClientGraph, class_names: tuple[str, ...], device: torch.device) -> None:
        super().__init__(graph, class_names, device)
        self.inputs = GraphInputs.of(graph, device)

    @property
    def num_steps(self) -> int:
        """One, on all nodes."""
        return 1

    def batches(self, model: nn.Module) -> Iterator[Batch]:
        """The one step of a pass."""
        yield Batch(self.inputs, self.train_labels, self._parts["train"])

    def logits(self, model: nn.Module) -> Tensor:
        """Logits (N, C) of every node, dropout off."""
        model.eval()
        with torch.inference_mode():
            logits: Tensor = model(self.inputs)
        return logits


class SelectedNodeTask(NodeTask):
    """Classification of nodes that trains on the most important of them, with the edges between these, and scores on all.

    Parameters
    ----------
    graph, class_names, device
        As `GraphTask`.
    node_share : float
        In (0, 1]: how many of the nodes training sees (`curvfed.tasks.graphs.data.selection`). Training nodes are all among
        them.
    """

    def __init__(
        self, graph: ClientGraph, class_names: tuple[str, ...], device: torch.device, node_share: float
    ) -> None:
        super().__init__(graph, class_names, device)
        part = induced(graph, selected(graph, node_share))
        self._seen, self._rows = GraphInputs.of(part, device), part.train.nonzero().squeeze(1).to(device)

    def batches(self, model: nn.Module) -> Iterator[Batch]:
        """The one step of a pass."""
        yield Batch(self._seen, self.train_labels, self._rows)


class WholeGraphTask(GraphTask):
    """Classification of graphs, in batches of `batch_size`; 0 takes all at once."""

    def __init__(
        self, graph: ClientGraph, class_names: tuple[str, ...], device: torch.device, batch_size: int = 0
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
        train = self._parts["train"]
        shuffled = train[torch.randperm(len(train), device=train.device)]
        for graphs, inputs in self._batches.each(shuffled, self._batch_size):
            yield Batch(inputs, self.labels[graphs])

    def logits(self, model: nn.Module) -> Tensor:
        """Logits (G, C) of every graph, dropout off."""
        return self._logits_of(model, torch.arange(len(self.labels), device=self.labels.device))

    def _scored_logits(self, model: nn.Module) -> dict[str, Tensor]:
        return {name: self._logits_of(model, self._parts[name]) for name in ("val", "test")}

    def _logits_of(self, model: nn.Module, graphs: Tensor) -> Tensor:
        model.eval()
        with torch.inference_mode():
            found = [model(batch) for _, batch in self._batches.each(graphs, self._batch_size)]
        return torch.cat(found) if found else torch.zeros(0, 1, device=graphs.device)


def client_task(
    graph: ClientGraph, class_names: tuple[str, ...], device: torch.device, batch_size: int = 0, node_share: float = 1.0
) -> GraphTask:
    """The task that a client's data are for.

    Of share 1 all nodes are seen. Of a smaller one the others of whole graphs are never seen; nodes that are themselves
    classified are all scored, with all their neighbours, and left out of training alone.
    """
    if graph.task == "nodes":
        if node_share < 1:
            return SelectedNodeTask(graph, class_names, device, node_share)
        return NodeTask(graph, class_names, device)
    if node_share < 1:
        graph = induced(graph, selected(graph, node_share))
    return WholeGraphTask(graph, class_names, device, batch_size)
