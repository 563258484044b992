"""The graphs of one client: the fields of all examples, their graph, and a part of it."""

import json
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from curvfed.tasks.amounts import amount
from curvfed.tasks.examples import FAR, Examples, sha256
from curvfed.tasks.graphs.sparse import bounds, csr, row_norms, select_rows

SPARSE_DENSITY = 0.2
"""Features with at most this share of non-zero entries are stored sparse, which makes a GCN step
1.4 to 4 times faster."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ClientGraph(Examples):
    """The data of one client: one graph with nodes as examples, or many graphs, each an example.

    Attributes
    ----------
    features : Tensor, (N, F), float32
        Sparse CSR when at most `SPARSE_DENSITY` of the entries are non-zero, else dense.
    edge_index : Tensor, (2, E), int64
        Both directions of every edge, no self-loop, no duplicate, sorted lexicographically.
    forman, forman_plain : float
        Mean Forman-Ricci curvature over the edges, with triangles and without; 0 without edges.
    graph_of_node : Tensor, (N,), int64, or None
        The graph of each node, ascending from 0; None if nodes are classified.
    edge_weights : Tensor, (E,), float32, or None
        At least 0, the same in both directions; None counts as 1. Only for classification of nodes.
    numbers : Tensor, (n,), int64, or None
        The number of each example in the whole data: of a node, or of a graph.
    clusters : Tensor, (N,), int64, or None
        The METIS part of each node, from 0, if a training step takes some parts; None if it takes
        all nodes.
    history : str
        How the whole graph was split and partitioned, in words for the log.
    """

    features: Tensor
    edge_index: Tensor
    forman: float
    forman_plain: float
    graph_of_node: Tensor | None = None
    edge_weights: Tensor | None = None
    numbers: Tensor | None = None
    clusters: Tensor | None = None
    history: str = ""

    shape = ""

    @property
    def task(self) -> str:
        """The classified objects: "nodes" or "graphs"."""
        return "nodes" if self.graph_of_node is None else "graphs"

    @property
    def num_features(self) -> int:
        """Features of a node."""
        return self.features.shape[1]

    def tensors(self) -> dict[str, Tensor]:
        """The data as named dense tensors; sparse features become the arrays of their CSR form."""
        tensors = super().tensors()
        features = tensors.pop("features")
        if features.layout != torch.sparse_csr:
            tensors["dense"] = features
            return tensors
        tensors["crow"] = features.crow_indices()
        tensors["col"] = features.col_indices()
        tensors["values"] = features.values()
        tensors["num_features"] = torch.tensor(features.shape[1])
        return tensors

    @staticmethod
    def from_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The fields that `tensors` was computed from."""
        if "dense" in tensors:
            return tensors | {"features": tensors.pop("dense")}
        crow, col, values, num_features = (
            tensors.pop(name) for name in ("crow", "col", "values", "num_features")
        )
        return tensors | {"features": csr(crow, col, values, int(num_features))}

    @property
    def notes(self) -> list[str]:
        """Possible faults of the graphs, in words."""
        return [] if self.edge_index.numel() else ["there are no edges"]

    def describe(self) -> str:
        """The amount of data, in words."""
        graphs = "a graph" if self.graph_of_node is None else amount(len(self.labels), "graph")
        edges = self.edge_index.shape[1] // 2
        size = f"{amount(len(self.features), 'node')} and {amount(edges, 'edge')}"
        return f"{graphs} of {size}, {amount(self.num_features, 'feature')}"

    def statistics(self) -> dict[str, Any]:
        """Figures of the examples, the sizes, and the mean curvature "forman"; edges are
        undirected."""
        num_graphs = 1 if self.graph_of_node is None else len(self.labels)
        return {
            "num_graphs": num_graphs,
            "num_nodes": len(self.features),
            "num_edges": self.edge_index.shape[1] // 2,
            **super().statistics(),
            "forman": self.forman,
        }

    def far_features(self) -> dict[str, float]:
        """The largest norm of a node's features where it is too large for the Lorentz space."""
        norm = float(row_norms(self.features).max())
        if norm > FAR:
            return {"feature_norm": float(f"{norm:.1e}")}
        return {}

    def bytes_on(self, device: torch.device) -> int:
        """Bytes of a task's tensors on a device, in addition to the data in main memory.

        The features of a single graph are stored a second time, transposed, and its edges as a
        matrix with half-size indices and weights. Batches of graphs and of clusters are small.
        """
        stored = _bytes(self.features) + self.edge_index.nbytes
        is_single_graph = self.graph_of_node is None and self.clusters is None
        copied = stored if is_single_graph else 0
        return copied + (stored if device.type != "cpu" else 0)

    def computed_digest(self) -> str:
        """SHA-256 of the tensors and the class names, without `numbers` and `clusters`."""
        tensors = self.tensors()
        tensors.pop("numbers", None)
        tensors.pop("clusters", None)
        return sha256(json.dumps(self.class_names), tensors)


def client_graph(
    features: Tensor,
    edge_index: Tensor,
    labels: Tensor,
    masks: Tensor,
    class_names: tuple[str, ...],
    metric: str = "accuracy",
    partition_digest: str = "",
    **fields: Any,
) -> ClientGraph:
    """A client's data from clean tensors, with curvature and digest computed, and features sparse
    if that is faster.

    Parameters
    ----------
    features : Tensor, (N, F), float32
        Dense or CSR.
    edge_index, labels, class_names, metric, partition_digest, **fields
        As in `ClientGraph`.
    masks : Tensor, (3, n), bool
        Train, validation, test.
    """
    from curvfed.geometry.curvature import forman_ricci

    forman = 0.0
    forman_plain = 0.0
    num_edges = edge_index.shape[1]
    if num_edges:
        weights = positive_weights(fields.get("edge_weights"))
        forman = float(forman_ricci(edge_index, len(features), weights=weights).double().mean())
        # The mean of 4 − dᵢ − dⱼ: a node with d edges is in 2d of the sums.
        degree_squares = int(edge_index[0].bincount().square().sum())
        forman_plain = (4 * num_edges - 2 * degree_squares) / num_edges
        if weights is not None:
            plain = forman_ricci(edge_index, len(features), triangles=False, weights=weights)
            forman_plain = float(plain.double().mean())
    return ClientGraph.split(
        masks,
        features=_in_faster_layout(features),
        edge_index=edge_index,
        labels=labels,
        class_names=class_names,
        metric=metric,
        forman=forman,
        forman_plain=forman_plain,
        partition_digest=partition_digest,
        **fields,
    )


def positive_weights(weights: Tensor | None) -> Tensor | None:
    """The weights of edges in the Forman-Ricci curvature: None unless all are above 0, as it is not
    defined for others."""
    return weights if weights is not None and bool((weights > 0).all()) else None


def _in_faster_layout(features: Tensor) -> Tensor:
    is_sparse = features.layout == torch.sparse_csr
    non_zero = features.values().numel() if is_sparse else int(torch.count_nonzero(features))
    if non_zero > SPARSE_DENSITY * features.numel():
        return features.to_dense()
    if is_sparse:
        return features
    rows, columns = features.nonzero(as_tuple=True)
    crow = bounds(torch.bincount(rows, minlength=len(features)))
    return csr(crow, columns, features[rows, columns], features.shape[1])


def _bytes(matrix: Tensor) -> int:
    if matrix.layout != torch.sparse_csr:
        return matrix.nbytes
    return matrix.crow_indices().nbytes + matrix.col_indices().nbytes + matrix.values().nbytes


def induced(graph: ClientGraph, mask: Tensor) -> ClientGraph:
    """The data of the nodes in `mask` and the edges between them; curvatures and digest stay those
    of all data.

    Parameters
    ----------
    graph : ClientGraph
    mask : Tensor, (N,), bool
        At least one node of each graph.
    """
    numbers = mask.cumsum(0) - 1
    inner = mask[graph.edge_index].all(dim=0)
    weights = None if graph.edge_weights is None else graph.edge_weights[inner]
    smaller = replace(
        graph,
        features=select_rows(graph.features, mask.nonzero()[:, 0]),
        edge_index=numbers[graph.edge_index[:, inner]],
        edge_weights=weights,
    )
    if graph.graph_of_node is not None:
        return replace(smaller, graph_of_node=graph.graph_of_node[mask])
    return replace(
        smaller,
        labels=graph.labels[mask],
        train=graph.train[mask],
        val=graph.val[mask],
        test=graph.test[mask],
    )
