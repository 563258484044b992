"""A user's own `.pt` file: a graph, or a list of graphs, of PyTorch Geometric, stored by `torch.save`."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.checked_parts import MASK_NAMES
from curvfed.tasks.graphs.data.raw import RawGraph, RawGraphs, raw_graph, raw_graphs

_DATA_CLASSES = tuple(
    f"torch_geometric.data.{name}"
    for name in ("data.Data", "data.DataEdgeAttr", "data.DataTensorAttr", "storage.GlobalStorage")
)
_ONE = (
    "a torch_geometric.data.Data, or a dict, of x, edge_index, y "
    "and, if wanted, train_mask, val_mask, test_mask, class_names"
)
_MANY = "a list of such graphs with one y each"


def read_user_file(path: Path) -> RawGraph | RawGraphs:
    """Read a `.pt` file, of either kind, without running code from it, and without importing PyTorch Geometric.

    Allowed for the classification of nodes is a `Data` object or a dict with `x` (N, F), `edge_index` (2, E), `y` (N,),
    and optionally all three of `train_mask`, `val_mask`, `test_mask` (N,) or (N, splits), and `class_names`, a list of
    strings; for that of graphs a list or tuple of such objects, as `curvfed.tasks.graphs.data.raw.raw_graphs` takes them.

    Raises
    ------
    DataError
        The file is absent, cannot be read, or holds other kinds of objects; or `raw_graph` or `raw_graphs` refuses the
        content.
    """
    return check_graphs(path, _stored(path))


def check_graphs(where: Path | str, stored: object, stand_in: Sequence[str] = ()) -> RawGraph | RawGraphs:
    """Check the content of such a file, or the same objects in memory.

    Parameters
    ----------
    where : Path or str
        The file, for the error texts.
    stored : object
        As `read_user_file` allows it.
    stand_in : sequence of str
        Class names for data without y, if these are allowed: y is then 0 everywhere.

    Raises
    ------
    DataError
    """
    if isinstance(stored, list | tuple):
        graphs = [_fields(f"{where}, graph {number}", graph) for number, graph in enumerate(stored)]
        if stand_in and all(graph.get("y") is None for graph in graphs):
            graphs = [graph | {"y": 0, "class_names": list(stand_in)} for graph in graphs]
        return raw_graphs(where, graphs)
    fields = _fields(str(where), stored)
    if stand_in and fields.get("y") is None and isinstance(x := fields.get("x"), Tensor):
        fields |= {"y": torch.zeros(len(x), dtype=torch.int64), "class_names": list(stand_in)}
    present = [name for name in MASK_NAMES if fields.get(name) is not None]
    if present and len(present) < len(MASK_NAMES):
        raise DataError(
            f"{where}: has {', '.join(present)} alone; give {', '.join(MASK_NAMES)}, or none of them for a random split"
        )
    return raw_graph(
        where,
        fields.get("x"),
        fields.get("edge_index"),
        fields.get("y"),
        masks=(fields["train_mask"], fields["val_mask"], fields["test_mask"]) if present else None,
        class_names=fields.get("class_names"),
    )


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


def _fields(where: str, stored: object) -> dict[str, object]:
    mapping = stored if isinstance(stored, dict) else getattr(getattr(stored, "_store", None), "_mapping", None)
    if not isinstance(mapping, dict):
        raise DataError(f"{where} holds a {type(stored).__name__}; expected {_ONE}, or {_MANY}")
    return {name: _tensor(value) for name, value in mapping.items()}


def _tensor(value: object) -> object:
    """Arrays of numbers as tensors; other values, such as class names, as they are."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return torch.from_numpy(np.ascontiguousarray(value))
    return value.cpu() if isinstance(value, Tensor) else value
