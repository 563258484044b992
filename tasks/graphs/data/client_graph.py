"""What one client holds: its graph or graphs, the split, the curvature of the edges, and a hash of it all."""

import hashlib
import json
from dataclasses import dataclass

import torch
from torch import Tensor

from curvfed.tasks.graphs.sparse import csr

SPARSE_DENSITY = 0.2
"""Features with at most this share of non-zero entries are kept sparse: a GCN step is then 1.4 to 4 times faster."""

TENSORS = ("edge_index", "labels", "train", "val", "test", "graph_of_node")
"""Names of the tensors besides the features."""


@dataclass(frozen=True, eq=False)
class ClientGraph:
    """The data of one client: one graph whose nodes are the examples, or many graphs, each an example.

    Attributes
    ----------
    features : Tensor, (N, F), float32
        Sparse CSR when at most `SPARSE_DENSITY` of the entries are non-zero, else dense.
    edge_index : Tensor, (2, E), int64
        Both directions of every edge, no self-loop, no duplicate, sorted lexicographically.
    labels : Tensor, (n,), int64
        Of the n examples, nodes or graphs; indices into `class_names`.
    train, val, test : Tensor, (n,), bool
        Disjoint.
    class_names : tuple of str
        The names known to this client's data set.
    metric : str
        "accuracy" or "roc_auc".
    forman, forman_plain : float
        Mean Forman-Ricci curvature over the edges, with triangles and without; 0 where there are no edges.
    digest : str
        SHA-256 of the tensors and the class names.
    partition_digest : str
        SHA-256 of the membership of the whole partition; "" for a node's own data.
    graph_of_node : Tensor, (N,), int64, or None
        Which graph a node belongs to, ascending from 0; None where the nodes themselves are classified.
    space : str
        Which feature space and which classes these are: the name of a data set among several, else "".
    """

    features: Tensor
    edge_index: Tensor
    labels: Tensor
    train: Tensor
    val: Tensor
    test: Tensor
    class_names: tuple[str, ...]
    metric: str
    forman: float
    forman_plain: float
    digest: str
    partition_digest: str
    graph_of_node: Tensor | None = None
    space: str = ""

    @property
    def task(self) -> str:
        """What is classified: "nodes" or "graphs"."""
        return "nodes" if self.graph_of_node is None else "graphs"


def client_graph(
    features: Tensor,
    edge_index: Tensor,
    labels: Tensor,
    masks: Tensor,
    class_names: tuple[str, ...],
    metric: str,
    partition_digest: str,
    graph_of_node: Tensor | None = None,
    space: str = "",
) -> ClientGraph:
    """A client's data from clean tensors: sparse where that pays, curvature measured, hashed.

    Parameters
    ----------
    features : Tensor, (N, F), float32
        Dense, or CSR where a dense one would be large.
    edge_index, labels, class_names, metric, partition_digest, graph_of_node, space
        As in `ClientGraph`.
    masks : Tensor, (3, n), bool
        Train, validation, test.
    """
    from curvfed.geometry.curvature import forman_ricci

    forman = forman_plain = 0.0
    if num_edges := edge_index.shape[1]:
        forman = float(forman_ricci(edge_index, len(features)).double().mean())
        # The mean of 4 − dᵢ − dⱼ: a node of d edges is in 2d of the sums.
        forman_plain = (4 * num_edges - 2 * int(edge_index[0].bincount().square().sum())) / num_edges
    train, val, test = (mask.clone() for mask in masks)
    tensors = {"edge_index": edge_index, "labels": labels, "train": train, "val": val, "test": test}
    if graph_of_node is not None:
        tensors["graph_of_node"] = graph_of_node
    features = _in_its_layout(features)
    return ClientGraph(
        features=features,
        **tensors,
        class_names=class_names,
        metric=metric,
        forman=forman,
        forman_plain=forman_plain,
        digest=_digest(tensors | _feature_parts(features), class_names),
        partition_digest=partition_digest,
        space=space,
    )


def pack(graph: ClientGraph) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The graph as named dense tensors and named strings, the two things a safetensors file holds."""
    names = [name for name in TENSORS if getattr(graph, name) is not None]
    metadata = {
        "class_names": json.dumps(graph.class_names),
        "metric": graph.metric,
        "forman": repr(graph.forman),
        "forman_plain": repr(graph.forman_plain),
        "digest": graph.digest,
        "partition_digest": graph.partition_digest,
        "space": graph.space,
    }
    return {name: getattr(graph, name) for name in names} | _feature_parts(graph.features), metadata


def unpack(tensors: dict[str, Tensor], metadata: dict[str, str]) -> ClientGraph:
    """The inverse of `pack`.

    Raises
    ------
    KeyError, ValueError
        Where something is absent, or where tensors and digest differ.
    """
    class_names = tuple(json.loads(metadata["class_names"]))
    if _digest(tensors, class_names) != metadata["digest"]:
        raise ValueError("the tensors differ from their digest")
    if "dense" in tensors:
        features = tensors["dense"]
    else:
        features = csr(tensors["crow"], tensors["col"], tensors["values"], int(tensors["num_features"]))
    return ClientGraph(
        features=features,
        edge_index=tensors["edge_index"],
        labels=tensors["labels"],
        train=tensors["train"],
        val=tensors["val"],
        test=tensors["test"],
        class_names=class_names,
        metric=metadata["metric"],
        forman=float(metadata["forman"]),
        forman_plain=float(metadata["forman_plain"]),
        digest=metadata["digest"],
        partition_digest=metadata["partition_digest"],
        graph_of_node=tensors.get("graph_of_node"),
        space=metadata["space"],
    )


def _feature_parts(features: Tensor) -> dict[str, Tensor]:
    if features.layout != torch.sparse_csr:
        return {"dense": features.contiguous()}
    return {
        "crow": features.crow_indices(),
        "col": features.col_indices(),
        "values": features.values(),
        "num_features": torch.tensor(features.shape[1]),
    }


def _digest(tensors: dict[str, Tensor], class_names: tuple[str, ...]) -> str:
    hasher = hashlib.sha256(json.dumps(class_names).encode())
    for name, tensor in sorted(tensors.items()):
        hasher.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        hasher.update(tensor.contiguous().numpy().tobytes())
    return hasher.hexdigest()


def _in_its_layout(features: Tensor) -> Tensor:
    if features.layout == torch.sparse_csr:
        if features.values().numel() <= SPARSE_DENSITY * features.numel():
            return features
        features = features.to_dense()
    return _to_csr(features) if torch.count_nonzero(features) <= SPARSE_DENSITY * features.numel() else features


def _to_csr(dense: Tensor) -> Tensor:
    rows, columns = dense.nonzero(as_tuple=True)
    crow = torch.zeros(len(dense) + 1, dtype=torch.int64)
    crow[1:] = torch.bincount(rows, minlength=len(dense)).cumsum(0)
    return csr(crow, columns, dense[rows, columns], dense.shape[1])
