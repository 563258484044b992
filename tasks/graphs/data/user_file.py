"""A user's own `.pt` file: a graph, or a list of graphs, of PyTorch Geometric, stored by `torch.save`."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.checked_parts import MASK_NAMES, edge_weights
from curvfed.tasks.graphs.data.collated import is_collated, separated
from curvfed.tasks.graphs.data.raw import RawGraph, RawGraphs, raw_graph, raw_graphs

_DATA_CLASSES = tuple(
    f"torch_geometric.data.{name}"
    for name in (
        *("data.Data", "data.DataEdgeAttr", "data.DataTensorAttr", "hetero_data.HeteroData"),
        *("graph_store.EdgeAttr", "feature_store.TensorAttr"),
        *("storage.GlobalStorage", "storage.BaseStorage", "storage.NodeStorage", "storage.EdgeStorage"),
    )
)
_ONE = (
    "a torch_geometric.data.Data, or a dict, of x, edge_index, y "
    "and, if wanted, train_mask, val_mask, test_mask, edge_weight, class_names"
)
_MANY = "a list of such graphs with one y each"


def read_user_file(path: Path, stand_in: Sequence[str] = ()) -> RawGraph | RawGraphs:
    """Read a `.pt` file, of either kind, without running code from it, and without importing PyTorch Geometric.

    Allowed for the classification of nodes is a `Data` object or a dict with `x` (N, F), `edge_index` (2, E), `y` (N,),
    and optionally `train_mask`, `val_mask`, `test_mask` (N,) or (N, splits), of which `val_mask` may be absent,
    `edge_weight` (E,) or `edge_attr` (E, 1), and `class_names`, a list of strings; for that of graphs a list or tuple of
    such objects, as `curvfed.tasks.graphs.data.raw.raw_graphs` takes them. Either may also be stored as
    `torch_geometric.data.InMemoryDataset` stores it. `stand_in` is that of `check_graphs`.

    Raises
    ------
    DataError
        The file is absent, cannot be read, or holds other kinds of objects; or `raw_graph` or `raw_graphs` refuses the
        content.
    """
    return check_graphs(path, _stored(path), stand_in)


def check_graphs(where: Path | str, stored: object, stand_in: Sequence[str] = ()) -> RawGraph | RawGraphs:
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
        if stand_in and all(_is_unknown(graph.get("y")) for graph in graphs):
            graphs = [graph | {"y": -1, "class_names": list(stand_in)} for graph in graphs]
        return raw_graphs(where, graphs)
    fields = _fields(str(where), stored)
    if stand_in and _is_unknown(fields.get("y")) and isinstance(x := fields.get("x"), Tensor):
        fields |= {"y": torch.full((len(x),), -1), "class_names": list(stand_in)}
    train, val, test = (fields.get(name) for name in MASK_NAMES)
    present = [name for name in MASK_NAMES if fields.get(name) is not None]
    if present and (train is None or test is None):
        raise DataError(
            f"{where}: has {', '.join(present)} alone; give {', '.join(MASK_NAMES)}, or none of them for a random split; "
            "val_mask may be absent"
        )
    graph = raw_graph(
        where,
        fields.get("x"),
        fields.get("edge_index"),
        fields.get("y"),
        masks=(train, val, test) if present else None,
        class_names=fields.get("class_names"),
    )
    return replace(graph, edge_weights=edge_weights(where, fields, graph.edge_index.shape[1]))


def _is_unknown(y: object) -> bool:
    """Whether no class is known."""
    return y is None or (isinstance(y, Tensor | int | float) and not bool((torch.as_tensor(y) >= 0).any()))


def _stored(path: Path) -> object:
    # PyTorch Geometric takes seconds to import, and only its attribute dictionary is needed: empty classes replace its own.
    stand_ins: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [
        (type(name.rpartition(".")[2], (), {}), name) for name in _DATA_CLASSES
    ]
    if not path.is_file():  # a pipe would be waited for
        raise DataError(f"no file {path}; expected {_ONE}, or {_MANY}")
    try:
        with torch.serialization.safe_globals(stand_ins), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # sparse layouts in beta
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the file is a program for the unpickler, which may raise anything
        raise DataError(
            f"{path} cannot be read ({type(error).__name__}); expected {_ONE}, or {_MANY}, stored by torch.save"
        ) from error


def _separated(where: Path | str, stored: Any) -> object:
    """The graph, or the list of graphs, that PyTorch Geometric collated."""
    data, slices = stored[:2]
    _refuse_several_kinds(str(where), stored[-1])
    if slices is None:
        return data
    try:
        return separated(_fields(str(where), data), slices)
    except (ValueError, TypeError, LookupError) as error:
        raise DataError(f"{where}: its slices do not fit its graphs ({type(error).__name__}); store it again") from None


def _refuse_several_kinds(where: str, kind: object) -> None:
    """Refuse a HeteroData, given by itself or by its class."""
    name = kind.__name__ if isinstance(kind, type) else type(kind).__name__
    if name == "HeteroData":
        raise DataError(
            f"{where} holds a HeteroData, with several kinds of nodes or edges; allowed are one kind of nodes and one of "
            f"edges, such as data.to_homogeneous() makes of it: {_ONE}"
        )


def _fields(where: str, stored: object) -> dict[str, object]:
    _refuse_several_kinds(where, stored)
    mapping = stored if isinstance(stored, dict) else getattr(getattr(stored, "_store", None), "_mapping", None)
    if not isinstance(mapping, dict):
        raise DataError(f"{where} holds a {type(stored).__name__}; expected {_ONE}, or {_MANY}")
    return {name: _tensor(value) for name, value in mapping.items()}


def _tensor(value: object) -> object:
    """Arrays of numbers as tensors; other values, such as class names, as they are."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return torch.from_numpy(np.ascontiguousarray(value))
    return value.cpu() if isinstance(value, Tensor) else value
