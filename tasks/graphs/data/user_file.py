"""A user's own `.pt` file, stored by `torch.save`: a graph, or graphs in a list or joined, as
`InMemoryDataset` and `Batch` of PyTorch Geometric store them."""

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from curvfed.tasks.amounts import with_article
from curvfed.tasks.class_names import names_listed
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.checked_parts import UNKNOWN, edge_weights, whole_numbers
from curvfed.tasks.graphs.data.raw import (
    NODE_FIELDS,
    RawGraph,
    RawGraphs,
    raw_graph,
    raw_graphs,
    unused,
)
from curvfed.tasks.graphs.data.stored_objects import STORE_AGAIN, StandIn, plain, read_objects

NAMES = ("x", "edge_index", "y", "class_names", *NODE_FIELDS)


def is_collated(stored: object) -> bool:
    """Whether `InMemoryDataset.save` of some version wrote this: (data, slices, ...)."""
    if not isinstance(stored, tuple) or len(stored) < 2:
        return False
    slices = stored[1]
    # In a tuple of graphs the second entry is a graph; its edge_index has two dimensions.
    is_cut = isinstance(slices, Mapping) and getattr(slices.get("edge_index"), "ndim", 0) == 1
    return slices is None or is_cut or isinstance(stored[-1], type)


def separated(fields: Mapping[str, Any], slices: Mapping[str, Any]) -> list[dict[str, object]]:
    """The fields of every graph.

    Parameters
    ----------
    fields : mapping
        The fields of all graphs: tensors joined along the nodes, edges or graphs, or a list with an
        entry per graph. Each graph numbers its nodes from 0.
    slices : mapping of str to Tensor, (graphs + 1,)
        Where each graph's part of a field begins, and where the last part ends.

    Raises
    ------
    ValueError, TypeError, KeyError, RuntimeError
        If the slices do not fit.
    """
    parts = {name: _parts(name, fields[name], slices[name]) for name in NAMES if name in slices}
    if isinstance(fields.get("num_nodes"), list):
        parts["num_nodes"] = fields["num_nodes"]
    return [dict(zip(parts, values, strict=True)) for values in zip(*parts.values(), strict=True)]


def _parts(name: str, field: Any, slices: Any) -> Sequence[object]:
    """Each graph's part of a field; a list has an entry per graph."""
    if isinstance(field, list):
        return field
    return torch.split(field, slices.diff().tolist(), dim=1 if name == "edge_index" else 0)


def is_batch_of_graphs(fields: Mapping[str, Any]) -> bool:
    """Whether the fields of a `Batch` have a class for each graph; otherwise it is one graph with
    classes of nodes."""
    starts = fields.get("ptr")
    classes = fields.get("y")
    return (
        isinstance(starts, Tensor)
        and isinstance(classes, Tensor)
        and len(classes) == len(starts) - 1
    )


def batched(fields: Mapping[str, Any], slices: Mapping[str, Any]) -> list[dict[str, object]]:
    """The fields of every graph of a `Batch`, which numbers the nodes of all graphs in one
    sequence."""
    starts = fields["ptr"]
    graphs = separated({**fields, "num_nodes": starts.diff().tolist()}, slices)
    for graph, start in zip(graphs, starts.tolist(), strict=False):
        graph["edge_index"] = graph["edge_index"] - start
    return graphs


_GRAPH = (
    "a torch_geometric.data.Data, or a dict, of x, edge_index, y "
    "and, if wanted, train_mask, val_mask, test_mask, edge_weight, class_names"
)
_GRAPHS = "a list of such graphs with one y each"

_USED_FIELDS = ("x", "edge_index", "y", "class_names", "num_nodes", "batch", "ptr")


def read_user_file(path: Path, stand_in: Sequence[str] = ()) -> RawGraph | RawGraphs:
    """Read a `.pt` file of one or many graphs, without running code from it, and without importing
    PyTorch Geometric.

    To classify nodes, the file holds a `Data` object or a dict with `x` (N, F), `edge_index` (2,
    E), `y` (N,), and optionally `train_mask`, `val_mask`, `test_mask` (N,) or (N, splits),
    `edge_weight` (E,) or `edge_attr` (E, 1), and `class_names`, a list of strings. To classify
    graphs, it holds a list or tuple of such objects (see
    `curvfed.tasks.graphs.data.raw.raw_graphs`). `torch_geometric.data.InMemoryDataset` may also
    have stored it. `stand_in` is that of `check_graphs`.

    Raises
    ------
    DataError
        If the file is absent, unreadable or holds other objects, or if `raw_graph` or `raw_graphs`
        refuses the content.
    """
    return check_graphs(path, read_objects(path, f"{_GRAPH}, or {_GRAPHS}"), stand_in)


def check_graphs(
    where: Path | str, stored: object, stand_in: Sequence[str] = ()
) -> RawGraph | RawGraphs:
    """Check the content of a file, or the same objects in memory.

    Parameters
    ----------
    where : Path or str
        The file, for the error texts.
    stored : object
        See `read_user_file`.
    stand_in : sequence of str
        Class names for data without labels; every y is then -1. Empty: labels are required.

    Raises
    ------
    DataError
    """
    if is_collated(stored):
        stored = _separated(where, stored)
    if isinstance(stored, list | tuple):
        graphs = [
            {} if graph is None else graph_fields(f"{where}, graph {number}", graph)
            for number, graph in enumerate(stored)
        ]
        if len(graphs) == 1 and _has_classes_of_nodes(graphs[0]):
            return _node_graph(where, graphs[0], stand_in)
        return _graph_set(where, graphs, stand_in)
    fields = graph_fields(str(where), stored)
    slices = getattr(getattr(stored, "_store", None), "_slice_dict", None)
    if slices and is_batch_of_graphs(fields):
        return _graph_set(where, batched(fields, slices), stand_in)
    return _node_graph(where, fields, stand_in)


def _has_classes_of_nodes(fields: Mapping[str, object]) -> bool:
    """Whether a graph that stands alone in a list has a class for each of several nodes."""
    x = fields.get("x")
    y = fields.get("y")
    if not isinstance(y, Tensor) or y.numel() < 2:
        return False
    return not isinstance(x, Tensor) or len(x) == len(y)


def _node_graph(where: Path | str, fields: dict[str, object], stand_in: Sequence[str]) -> RawGraph:
    """A graph with classes of nodes."""
    x = fields.get("x")
    y = fields.get("y")
    names = fields.get("class_names")
    if stand_in and _is_unknown(y) and isinstance(x, Tensor):
        y = torch.full((len(x),), UNKNOWN)
        names = list(stand_in)
    graph = raw_graph(where, x, fields.get("edge_index"), y, fields, names)
    weights_field, weights = edge_weights(where, fields, graph.edge_index.shape[1])
    used = {weights_field}
    if graph.split is not None:
        used.update(name.partition("[")[0] for name in graph.split.names)
    return replace(graph, edge_weights=weights, notes=_notes(fields, used))


def _graph_set(
    where: Path | str, graphs: list[dict[str, object]], stand_in: Sequence[str]
) -> RawGraphs:
    """Graphs with a class each."""
    empty = [number for number, graph in enumerate(graphs) if _is_empty(graph)]
    if empty:
        raise DataError(
            f"{where}: {len(empty)} of {len(graphs)} graphs are None or have no nodes, the first is"
            f" graph {empty[0]}; leave them out: graphs = [graph for graph in graphs if graph is"
            " not None and graph.num_nodes]",
            key="empty-graphs",
        )
    if stand_in and all(_is_unknown(graph.get("y")) for graph in graphs):
        graphs = [graph | {"y": UNKNOWN, "class_names": list(stand_in)} for graph in graphs]
    raw = raw_graphs(where, graphs)
    return replace(raw, notes=_notes(ChainMap(*graphs), ()))


def _is_empty(graph: Mapping[str, object]) -> bool:
    """Whether a graph lacks all fields, or nodes."""
    x = graph.get("x")
    rows = len(x) if isinstance(x, Tensor) and x.ndim else graph.get("num_nodes")
    return not graph or (isinstance(rows, int) and rows == 0)


def _notes(fields: Mapping[str, object], used: Iterable[str]) -> tuple[str, ...]:
    """A note about the ignored fields, if there are some."""
    read = {*_USED_FIELDS, *used}
    present = [name for name, value in fields.items() if value is not None]
    ignored = [name for name in present if name not in read and not name.startswith("_")]
    return unused(ignored)


def _is_unknown(y: object) -> bool:
    """Whether all classes are unknown."""
    y = whole_numbers(y)
    return y is None or (isinstance(y, Tensor) and not bool((y >= 0).any()))


def _separated(where: Path | str, stored: Any) -> object:
    """The graph, or the list of graphs, that PyTorch Geometric collated."""
    data, slices = stored[:2]
    _refuse_several_kinds(str(where), stored[-1])
    if slices is None:
        return data
    fields = graph_fields(str(where), data)
    try:
        graphs = separated(fields, slices)
    except (ValueError, TypeError, LookupError, RuntimeError, AttributeError) as error:
        cause = f"{type(error).__name__}: {error}"
        raise DataError(
            f"{where}: its slices do not fit its graphs ({cause}); store it again",
            cause,
            key="slices",
        ) from None
    # All fields of a single graph are its own, also the masks of its nodes.
    return [fields | graph for graph in graphs] if len(graphs) == 1 else graphs


def _refuse_several_kinds(where: str, kind: object) -> None:
    """Refuse a HeteroData or its class."""
    name = kind.__name__ if isinstance(kind, type) else type(kind).__name__
    if name.rpartition(".")[2] == "HeteroData":
        raise DataError(
            f"{where} holds a HeteroData, with several kinds of nodes or edges; allowed are one"
            f" kind of nodes and one of edges, as data.to_homogeneous() returns: {_GRAPH}",
            key="several-kinds",
        )


def _is_model(mapping: Mapping[str, object]) -> bool:
    """Whether these are a model's parameters by name, a checkpoint, or the attributes of a
    module."""
    inner = [value for value in mapping.values() if isinstance(value, dict)]
    names = {str(name).rpartition(".")[2] for entries in (mapping, *inner) for name in entries}
    return bool(names & {"weight", "bias", "_parameters"})


def graph_fields(where: str, stored: object) -> dict[str, object]:
    """The fields of a graph: a dict, a `Data`, an object of a derived class, or a `Data` of PyTorch
    Geometric 1."""
    _refuse_several_kinds(where, stored)
    attributes = getattr(stored, "__dict__", {})
    store: Any = attributes.get("_store")
    mapping = stored if isinstance(stored, dict) else getattr(store, "_mapping", attributes)
    if not isinstance(mapping, dict):
        mapping = {}
    if not {"x", "edge_index", "adj_t", "num_nodes", *NODE_FIELDS} & mapping.keys():
        kind = type(stored).__name__
        if _is_model(mapping):
            raise DataError(
                f"{where} looks like a model or its state_dict, not a graph; expected {_GRAPH}, or"
                f" {_GRAPHS}",
                key="no-graph",
            )
        is_read = mapping is stored or mapping is getattr(store, "_mapping", None)
        names = names_listed(list(map(str, mapping))) if is_read else ""
        held = f"{kind} with the keys {names}" if names else kind
        if is_read and not names:
            held = f"{kind} without content"
        hint = "" if isinstance(stored, dict) else f"; {STORE_AGAIN}"
        raise DataError(
            f"{where} holds {with_article(held)}; expected {_GRAPH}, or {_GRAPHS}{hint}",
            names or kind,
            key="no-graph",
        )
    fields = {str(name).strip("_"): plain(value) for name, value in mapping.items()}
    # Joined graphs have the number of nodes of each.
    if hasattr(store, "_num_nodes"):
        fields["num_nodes"] = store._num_nodes
    for name in ("adj_t", "adj"):
        if fields.get("edge_index") is None and isinstance(fields.get(name), Tensor):
            edges = _edges(fields.pop(name))
            # The columns of the transposed adjacency are the sources of the edges.
            if name == "adj_t":
                edges["edge_index"] = edges["edge_index"].flip(0)
            fields |= edges
    for name in ("x", "edge_index", "y"):
        if isinstance(value := fields.get(name), StandIn):
            kind = type(value).__name__
            raise DataError(
                f"{where}: {name} is {with_article(kind)}; allowed is a tensor or an array;"
                f" {STORE_AGAIN}",
                kind,
                key="no-tensor",
            )
    return fields


def _edges(matrix: Any) -> dict[str, Tensor]:
    """The edges of an adjacency matrix, and their weights unless all are 1."""
    entries = matrix.to_sparse_coo().coalesce()
    weights = entries.values()
    edges = {"edge_index": entries.indices()}
    return edges | {"edge_weight": weights} if bool((weights != 1).any()) else edges
