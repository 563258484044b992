"""What a client does with its graph: describe it, give a loss, score a model."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tasks.errors import DataError
from tasks.graphs.client_graph import ClientGraph
from tasks.graphs.models import GraphInputs
from tasks.metrics import score


@dataclass(frozen=True)
class Statistics:
    """Figures about one client's data, which a real node keeps to itself unless told otherwise.

    Attributes
    ----------
    num_nodes, num_edges : int
        Edges are undirected.
    num_train, num_val, num_test : int
    class_counts : tuple of int
        Over all nodes, in the order of the client's own class names.
    forman : float
        Mean Forman-Ricci curvature of the edges.
    majority_accuracy : float or None
        Test accuracy of always answering the most frequent training class; None without training or test nodes.
    """

    num_nodes: int
    num_edges: int
    num_train: int
    num_val: int
    num_test: int
    class_counts: tuple[int, ...]
    forman: float
    majority_accuracy: float | None


def statistics(graph: ClientGraph, triangles: bool = True) -> Statistics:
    """Measure one client's graph; `triangles` chooses the form of the Forman-Ricci curvature."""
    test_labels, train_labels = graph.labels[graph.test], graph.labels[graph.train]
    majority = None
    if len(test_labels) and len(train_labels):
        # bincount and argmax break ties by the smaller index, so the figure is the same everywhere.
        majority = float((test_labels == torch.bincount(train_labels).argmax()).double().mean())
    return Statistics(
        num_nodes=len(graph.labels),
        num_edges=graph.edge_index.shape[1] // 2,
        num_train=len(train_labels),
        num_val=int(graph.val.sum()),
        num_test=len(test_labels),
        class_counts=tuple(torch.bincount(graph.labels, minlength=len(graph.class_names)).tolist()),
        forman=graph.forman if triangles else graph.forman_plain,
        majority_accuracy=majority,
    )


class GraphTask:
    """One client's graph on its device, with labels in the federation's numbering.

    Parameters
    ----------
    graph : ClientGraph
    class_names : tuple of str
        The classes of the whole federation, which number the labels and the logits.
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
        labels = numbers[graph.labels].to(device)
        self.metric = graph.metric
        self.inputs = GraphInputs.of(graph, device)
        self._parts = {name: getattr(graph, name).nonzero().squeeze(1).to(device) for name in ("train", "val", "test")}
        self._labels = {name: labels[nodes] for name, nodes in self._parts.items()}
        self.num_examples = len(self._parts["train"])

    def loss(self, model: nn.Module) -> Tensor:
        """Mean cross-entropy over the training nodes."""
        logits: Tensor = model(self.inputs)
        return F.cross_entropy(logits[self._parts["train"]], self._labels["train"])

    def scores(self, model: nn.Module) -> dict[str, float]:
        """Score the validation and the test nodes, dropout off.

        Returns
        -------
        dict
            "val" and "test", by the data set's own metric, and where that is not accuracy "accuracy", of the test
            nodes. What is not defined is left out.
        """
        logits = self.logits(model)
        found = {name: self._score(self.metric, logits, name) for name in ("val", "test")}
        if self.metric != "accuracy":
            found["accuracy"] = self._score("accuracy", logits, "test")
        return {name: value for name, value in found.items() if value is not None}

    def _score(self, metric: str, logits: Tensor, part: str) -> float | None:
        return score(metric, logits[self._parts[part]], self._labels[part])

    def logits(self, model: nn.Module) -> Tensor:
        """Logits (N, C) of every node, dropout off."""
        model.eval()
        with torch.inference_mode():
            logits: Tensor = model(self.inputs)
        return logits
