"""A user's own `.pt` file: a graph, or a list of graphs, of PyTorch Geometric, stored by
`torch.save`."""

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.checked_parts import UNKNOWN, edge_weights, whole_numbers
from curvfed.tasks.graphs.data.collated import batched, is_batch_of_graphs, is_collated, separated
from curvfed.tasks.graphs.data.raw import RawGraph, RawGraphs, raw_graph, raw_graphs
from curvfed.tasks.graphs.data.stored_objects import STORE_AGAIN, StandIn, plain, read_objects

_ONE = (
    "a torch_geometric.data.Data, or a dict, of x, edge_index, y "
    "and, if wanted, train_mask, val_mask, test_mask, edge_weight, class_names"
)
_MANY = "a list of such graphs with one y each"

_OF_ALL = ("x", "edge_index", "y", "class_names", "num_nodes", "batch", "ptr")


def read_user_file(path: Path, stand_in: Sequence[str] = ()) -> RawGraph | RawGraphs:
    """Read a `.pt` file, of either kind, without running code from it, and without importing
    PyTorch Geometric.

    Allowed for the classification of nodes is a `Data` object or a dict with `x` (N, F),
    `edge_index` (2, E), `y` (N,), and optionally `train_mask`, `val_mask`, `test_mask` (N,) or (N,
    splits), of which `val_mask` may be absent, `edge_weight` (E,) or `edge_attr` (E, 1), and
    `class_names`, a list of strings; for that of graphs a list or tuple of such objects, as
    `curvfed.tasks.graphs.data.raw.raw_graphs` takes them. Either may also be stored as
    `torch_geometric.data.InMemoryDataset` stores it. `stand_in` is that of `check_graphs`.

    Raises
    ------
    DataError
        The file is absent, cannot be read, or holds other kinds of objects; or `raw_graph` or
        `raw_graphs` refuses the content.
    """
    return check_graphs(path, read_objects(path, f"{_ONE}, or {_MANY}"), stand_in)


def check_graphs(
    where: Path | str, stored: object, stand_in: Sequence[str] = ()
) -> RawGraph | RawGraphs:
    """Check the content of such a file, or the same objects in memory.

    Parameters
    ----------
    where : Path or str
        The file, for the error texts.
    stored : object
        As `read_user_file` allows it.
    stand_in : sequence of str
        Class names for data without a known y, if these are allowed: y is then -1 everywhere.

    Raises
    ------
    DataError
    """
    if is_collated(stored):
        stored = _separated(where, stored)
    if isinstance(stored, list | tuple):
        graphs = [_fields(f"{where}, graph {number}", graph) for number, graph in enumerate(stored)]
        return _many(where, graphs, stand_in)
    fields = _fields(str(where), stored)
    slices = getattr(getattr(stored, "_store", None), "_slice_dict", None)
    if slices and is_batch_of_graphs(fields):
        return _many(where, batched(fields, slices), stand_in)
    return _one(where, fields, stand_in)


def _one(where: Path | str, fields: dict[str, object], stand_in: Sequence[str]) -> RawGraph:
    """A graph whose nodes have classes."""
    x, y, names = (fields.get(name) for name in ("x", "y", "class_names"))
    if stand_in and _is_unknown(y) and isinstance(x, Tensor):
        y = torch.full((len(x),), UNKNOWN)
        names = list(stand_in)
    graph = raw_graph(where, x, fields.get("edge_index"), y, fields, names)
    weighted_by, weights = edge_weights(where, fields, graph.edge_index.shape[1])
    used = {weighted_by}
    if graph.split is not None:
        used.update(name.partition("[")[0] for name in graph.split.names)
    return replace(graph, edge_weights=weights, notes=_not_used(fields, used))


def _many(where: Path | str, graphs: list[dict[str, object]], stand_in: Sequence[str]) -> RawGraphs:
    """Graphs with a class each."""
    if stand_in and all(_is_unknown(graph.get("y")) for graph in graphs):
        graphs = [graph | {"y": UNKNOWN, "class_names": list(stand_in)} for graph in graphs]
    raw = raw_graphs(where, graphs)
    return replace(raw, notes=_not_used(ChainMap(*graphs), ()))


def _not_used(fields: Mapping[str, object], used: Iterable[str]) -> tuple[str, ...]:
    """A note about the fields that are ignored, if there are some."""
    ignored = [
        name
        for name, value in fields.items()
        if value is not None and name not in {*_OF_ALL, *used}
    ]
    names = ", ".join(name for name in ignored if not name.startswith("_"))
    return (f"not used: {names}",) if names else ()


def _is_unknown(y: object) -> bool:
    """Whether no class is known."""
    y = whole_numbers(y)
    return y is None or (isinstance(y, Tensor) and not bool((y >= 0).any()))


def _separated(where: Path | str, stored: Any) -> object:
    """The graph, or the list of graphs, that PyTorch Geometric collated."""
    data, slices = stored[:2]
    _refuse_several_kinds(str(where), stored[-1])
    if slices is None:
        return data
    try:
        return separated(_fields(str(where), data), slices)
    except (ValueError, TypeError, LookupError, RuntimeError, AttributeError) as error:
        words = f"{type(error).__name__}: {error}"
        raise DataError(
            f"{where}: its slices do not fit its graphs ({words}); store it again", words
        ) from None


def _refuse_several_kinds(where: str, kind: object) -> None:
    """Refuse a HeteroData, given by itself or by its class."""
    name = kind.__name__ if isinstance(kind, type) else type(kind).__name__
    if name.rpartition(".")[2] == "HeteroData":
        raise DataError(
            f"{where} holds a HeteroData, with several kinds of nodes or edges; allowed are one"
            f" kind of nodes and one of edges, such as data.to_homogeneous() makes of it: {_ONE}"
        )


def _is_model(mapping: Mapping[str, object]) -> bool:
    """Whether these are a model's parameters by name, a checkpoint that has them, or the attributes
    of a module."""
    inner = [value for value in mapping.values() if isinstance(value, dict)]
    names = {str(name).rpartition(".")[2] for entries in (mapping, *inner) for name in entries}
    return bool(names & {"weight", "bias", "_parameters"})


def _fields(where: str, stored: object) -> dict[str, object]:
    """The fields of a graph: of a dict, of a `Data` or an object derived from it, or of one of
    PyTorch Geometric 1."""
    _refuse_several_kinds(where, stored)
    attributes = getattr(stored, "__dict__", {})
    store: Any = attributes.get("_store")
    mapping = stored if isinstance(stored, dict) else getattr(store, "_mapping", attributes)
    if not isinstance(mapping, dict):
        mapping = {}
    if not {"x", "edge_index", "adj_t"} & mapping.keys():
        kind = type(stored).__name__
        if _is_model(mapping):
            raise DataError(
                f"{where} looks like a model's state_dict or a model, no graph; expected {_ONE}, or"
                f" {_MANY}"
            )
        raise DataError(f"{where} holds a {kind}; expected {_ONE}, or {_MANY}; {STORE_AGAIN}", kind)
    fields = {str(name).strip("_"): plain(value) for name, value in mapping.items()}
    if hasattr(store, "_num_nodes"):  # of each of the graphs that are collated
        fields["num_nodes"] = store._num_nodes
    for name in ("adj_t", "adj"):
        if fields.get("edge_index") is None and isinstance(fields.get(name), Tensor):
            fields |= _edges(fields.pop(name))
    for name in ("x", "edge_index", "y"):
        if isinstance(value := fields.get(name), StandIn):
            kind = type(value).__name__
            raise DataError(
                f"{where}: {name} is a {kind}; allowed is a tensor or an array; {STORE_AGAIN}", kind
            )
    return fields


def _edges(matrix: Any) -> dict[str, object]:
    """The edges of an adjacency matrix, and their weights where these are not all 1."""
    entries = matrix.to_sparse_coo().coalesce()
    weights = entries.values()
    edges = {"edge_index": entries.indices()}
    return edges | {"edge_weight": weights} if bool((weights != 1).any()) else edges
