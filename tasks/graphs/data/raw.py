"""A graph, or a set of graphs, as it was read from a file and checked."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data import checked_parts as parts
from curvfed.tasks.graphs.data.graph_spec import OwnSplit, own_split
from curvfed.tasks.graphs.data.partition import clean_edges
from curvfed.tasks.record_split import records_of

MAX_NODES = 10**8
"""More nodes do not fit into memory; a larger number is a mistake."""

NODE_FIELDS = ("pos", "z", "node_type", "n_id")
"""Fields with a row for each node, which give the number of nodes where x is absent."""

MAX_DEGREE = 64
"""The largest degree with a feature of its own in users' graphs: all clients and predictions then
have the same columns."""

ATOMS = (119, 5, 12, 12, 10, 6, 6, 2, 2)
"""The number of values of each feature of an atom of a molecule in the Open Graph Benchmark; the
first is the element."""


@dataclass(frozen=True, eq=False)
class RawGraph:
    """A whole graph.

    Attributes
    ----------
    features : Tensor, (N, F), float32, finite
        Dense or CSR.
    edge_index : Tensor, (2, E), int64
        As read: self-loops, duplicates and single directions may occur.
    labels : Tensor, (N,), int64
        In 0..C-1, -1 where unknown.
    class_names : tuple of C str
    metric : str
        "accuracy" or "roc_auc".
    split : OwnSplit or None
        The data set's split of the nodes of known class.
    edge_weights : Tensor, (E,), float32, or None
        At least 0.
    notes : tuple of str
        Parts of the file that the run does not use, in words for the log.
    """

    task: ClassVar[str] = "nodes"

    features: Tensor
    edge_index: Tensor
    labels: Tensor
    class_names: tuple[str, ...]
    metric: str
    split: OwnSplit | None = None
    edge_weights: Tensor | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def records(self) -> list[bytes]:
        """The nodes: features and class of each, without its neighbours."""
        return records_of(_rows(self.features), self.labels.tolist(), self.class_names)

    def context(self) -> bytes:
        """The edges, as a digest."""
        hasher = sha256(self.edge_index.contiguous().numpy().tobytes())
        if self.edge_weights is not None:
            hasher.update(self.edge_weights.contiguous().numpy().tobytes())
        return hasher.digest()


@dataclass(frozen=True, eq=False)
class RawGraphs:
    """Many graphs, each an example, side by side as one graph.

    The features are two blocks of columns. The second block holds zeros and ones; only the columns
    of its ones are stored, as the one-hot degrees of COLLAB would be 372,474 rows of 492 numbers.

    Attributes
    ----------
    attributes : Tensor, (N, A), float32, dense, finite
        The first A columns; A may be 0.
    codes : Tensor, (N, K), int64
        The columns of the K ones of a row in the second block, ascending; K may be 0.
    num_codes : int
        The columns of the second block.
    measured : bool
        Whether the attributes are measurements on different scales and need standardising.
    edge_index : Tensor, (2, E), int64
        Clean (see `curvfed.tasks.graphs.data.partition.clean_edges`), without edges between graphs.
    graph_of_node : Tensor, (N,), int64
        Ascending from 0; every graph has a node.
    labels : Tensor, (G,), int64
        In 0..C-1, -1 where unknown.
    class_names : tuple of C str
    notes : tuple of str
        Parts of the files that the run does not use, in words for the log.
    split : OwnSplit or None
        The data set's split of the graphs of known class.
    metric : str
        "accuracy" or "roc_auc".
    """

    task: ClassVar[str] = "graphs"

    attributes: Tensor
    codes: Tensor
    num_codes: int
    measured: bool
    edge_index: Tensor
    graph_of_node: Tensor
    labels: Tensor
    class_names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    split: OwnSplit | None = None
    metric: str = "accuracy"

    @cached_property
    def records(self) -> list[bytes]:
        """The graphs: features of the nodes, edges and class of each."""
        num_graphs = len(self.labels)
        sizes = torch.bincount(self.graph_of_node, minlength=num_graphs)
        num_edges = torch.bincount(self.graph_of_node[self.edge_index[0]], minlength=num_graphs)
        first = (sizes.cumsum(0) - sizes)[self.graph_of_node[self.edge_index[0]]]
        edges = torch.split((self.edge_index - first).T, num_edges.tolist())
        attributes = torch.split(self.attributes, sizes.tolist())
        codes = torch.split(self.codes, sizes.tolist())
        contents = (
            b"".join(_bytes(array) for array in parts)
            for parts in zip(attributes, codes, edges, strict=True)
        )
        return records_of(contents, self.labels.tolist(), self.class_names)

    def context(self) -> bytes:
        """Nothing: a graph has all of its data."""
        return b""


def _bytes(values: Tensor) -> bytes:
    """Shape and values."""
    return f"{tuple(values.shape)}".encode() + values.contiguous().numpy().tobytes()


def _rows(features: Tensor) -> Iterator[bytes]:
    """The content of each row (N, F)."""
    if features.layout != torch.sparse_csr:
        for row in features.numpy():
            yield row.tobytes()
        return
    crow = features.crow_indices().tolist()
    for start, end in itertools.pairwise(crow):
        yield _bytes(features.col_indices()[start:end]) + _bytes(features.values()[start:end])


def raw_graph(
    where: Path | str,
    features: object,
    edge_index: object,
    labels: object,
    split: Mapping[str, object] | None = None,
    class_names: object = None,
    metric: str = "accuracy",
) -> RawGraph:
    """Check a graph that was read from `where`.

    Parameters
    ----------
    where : Path or str
        The file or folder, for the error texts.
    features : Tensor, (N, F), of numbers, dense or sparse
    edge_index : Tensor, (2, E), of integers
    labels : Tensor
        The class of every node (see `checked_parts.labels`).
    split : mapping of str to object, or None
        Fields that may hold a split (see `own_split`).
    class_names : list of str, or None
        None: the labels that occur.
    metric : str
        "accuracy" or "roc_auc".

    Raises
    ------
    DataError
        Names `where`, the fault and the requirement.
    """
    features = parts.features(where, features)
    num_nodes = len(features)
    numbers, names = parts.number_classes(
        where, parts.labels(where, labels, num_nodes), class_names
    )
    stored_split = own_split(where, split or {}, numbers)
    return RawGraph(
        features=features,
        edge_index=parts.edges(where, edge_index, num_nodes),
        labels=numbers,
        class_names=names,
        metric=metric,
        split=stored_split,
    )


def raw_graphs(where: Path | str, graphs: Sequence[dict[str, object]]) -> RawGraphs:
    """Check the graphs that were read from `where`.

    Parameters
    ----------
    where : Path or str
        The file, for the error texts.
    graphs : sequence of dict
        `x` (nodes, F) or (nodes,), in all of them or in none; `edge_index` (2, edges), absent in a
        graph without edges, but not in all; `y`, the number of a class, -1, -100 or NaN if it is
        unknown, as a number or a tensor of one; without `x`, optionally `num_nodes`, by default the
        rows of the first of `NODE_FIELDS`, or else the largest number in `edge_index` plus one;
        optionally `class_names`, the same in all.

    Returns
    -------
    RawGraphs
        The columns of x are the attributes, not measured; without x the one-hot degrees are the
        codes (see `degree_codes`).

    Raises
    ------
    DataError
        Names `where`, the number of the graph, from 0, the fault and the requirement.
    """
    if not graphs:
        raise DataError(
            f"{where}: the list is empty; it must hold at least one graph", key="no-graphs"
        )
    without = sum(graph.get("x") is None for graph in graphs)
    if 0 < without < len(graphs):
        raise DataError(
            f"{where}: x is absent in {without} of {len(graphs)} graphs; give it in all of them, or"
            " in none for one-hot degrees",
            key="graphs-differ",
        )
    if any(graph.get("edge_index") is not None for graph in graphs):
        graphs = list(map(_with_edges, graphs))
    places = [f"{where}, graph {number}" for number in range(len(graphs))]
    attributes, edges = zip(*map(_nodes_and_edges, places, graphs), strict=True)
    stored_labels = torch.cat(
        [
            parts.labels(place, graph.get("y"), 1)
            for place, graph in zip(places, graphs, strict=True)
        ]
    )
    if len({str(graph.get("class_names")) for graph in graphs}) > 1:
        raise DataError(
            f"{where}: graphs differ in their class_names; all must have the same",
            key="graphs-differ",
        )
    labels, class_names = parts.number_classes(where, stored_labels, graphs[0].get("class_names"))
    widths = sorted({rows.shape[1] for rows in attributes})
    if len(widths) > 1:
        raise DataError(
            f"{where}: x has {widths} columns; all graphs must have the same number",
            key="graphs-differ",
        )
    sizes = torch.tensor([len(rows) for rows in attributes])
    num_nodes = int(sizes.sum())
    starts = sizes.cumsum(0) - sizes
    joined = torch.cat([pair + start for pair, start in zip(edges, starts, strict=True)], dim=1)
    edge_index = torch.from_numpy(clean_edges(joined.numpy(), num_nodes))
    codes = torch.zeros(num_nodes, 0, dtype=torch.int64)
    num_codes = 0
    if without:
        codes, num_codes = degree_codes(edge_index, num_nodes, MAX_DEGREE)
    graph_of_node = torch.arange(len(graphs)).repeat_interleave(sizes)
    return RawGraphs(
        attributes=torch.cat(attributes),
        codes=codes,
        num_codes=num_codes,
        measured=False,
        edge_index=edge_index,
        graph_of_node=graph_of_node,
        labels=labels,
        class_names=class_names,
    )


def unused(names: Sequence[str]) -> tuple[str, ...]:
    """A note that the run does not use the fields or files of these names; none without names."""
    return (f"not used: {', '.join(names)}",) if names else ()


def degree_codes(
    edge_index: Tensor, num_nodes: int, max_degree: int | None = None
) -> tuple[Tensor, int]:
    """One-hot degrees, for nodes without features (Xie et al., 2021), as `codes` and `num_codes` of
    `RawGraphs`.

    There is a column for every degree from 0 to `max_degree`, by default the largest degree;
    larger degrees count as `max_degree`. The `edge_index` must be clean.
    """
    degree = torch.bincount(edge_index[0], minlength=num_nodes)
    if max_degree is None:
        max_degree = int(degree.max())
    return degree.clamp(max=max_degree).unsqueeze(1), max_degree + 1


def _with_edges(graph: dict[str, object]) -> dict[str, object]:
    """The graph, without edges if these are absent."""
    if graph.get("edge_index") is not None:
        return graph
    return graph | {"edge_index": torch.zeros(2, 0, dtype=torch.int64)}


def _number_of_nodes(graph: dict[str, object]) -> Tensor:
    """The number of nodes of a graph without x and num_nodes; 0 if it is unknown."""
    for name in NODE_FIELDS:
        rows = graph.get(name)
        if isinstance(rows, Tensor) and rows.ndim:
            return torch.tensor(len(rows))
    edge_index = graph.get("edge_index")
    if parts.is_integer(edge_index) and edge_index.numel():
        return edge_index.max().to(torch.int64) + 1
    return torch.tensor(0)


def _nodes_and_edges(where: str, graph: dict[str, object]) -> tuple[Tensor, Tensor]:
    """The features, (nodes, 0) without x, and the edges of one of many graphs."""
    x = graph.get("x")
    edge_index = graph.get("edge_index")
    if x is not None:
        features = parts.features(where, x).to_dense()
        return features, parts.edges(where, edge_index, len(features))
    num_nodes = parts.whole_numbers(graph.get("num_nodes"))
    if num_nodes is None:
        num_nodes = _number_of_nodes(graph)
    if not parts.is_integer(num_nodes) or num_nodes.numel() != 1:
        raise DataError(
            f"{where}: num_nodes must be a whole number; it is {parts.kind_of(num_nodes)}",
            key="num-nodes",
        )
    num_nodes = int(num_nodes)
    edges = parts.edges(where, edge_index, max(num_nodes, 1))
    if not 1 <= num_nodes <= MAX_NODES:
        raise DataError(
            f"{where}: num_nodes is {num_nodes}; give x, or num_nodes in 1..{MAX_NODES}",
            key="num-nodes",
        )
    return torch.empty(num_nodes, 0), edges
