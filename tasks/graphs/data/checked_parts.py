"""Check the parts of a graph that was read from a file, and convert each to its dtype.

Every check takes `where` the part was read. Its `DataError` names this place, the fault and the
requirement.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeGuard

import torch
from torch import Tensor

from curvfed.tasks.amounts import amount, have
from curvfed.tasks.class_names import normalised
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.sparse import bounds, csr

MAX_CLASSES = 10_000
"""No data set has more classes; more different labels are a mistake."""

UNKNOWN = -1
"""The label of an unknown class."""

IGNORED = -100
"""The label that torch's cross-entropy ignores by default; it also marks an unknown class."""

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)

DEGREES_HINT = (
    ". For a graph without features take the degrees of its nodes: "
    "data.x = torch.bincount(data.edge_index[0], minlength=data.num_nodes).float().unsqueeze(1)"
)
"""A hint where x is absent."""


def features(where: Path | str, x: object) -> Tensor:
    """Node features, (nodes, F), float32, finite; dense, or CSR without zeros where x is sparse. A
    row of numbers (nodes,) is one feature."""
    if isinstance(x, Tensor) and x.ndim == 1:
        x = x.unsqueeze(1)
    if not isinstance(x, Tensor) or x.ndim != 2 or 0 in x.shape or x.is_complex():
        hint = DEGREES_HINT if x is None else ""
        raise DataError(
            f"{where}: x must be a tensor of numbers (nodes, features), neither 0; it is"
            f" {kind_of(x)}{hint}",
            key="features",
        )
    if x.layout == torch.strided:
        checked = x.detach().to(torch.float32).contiguous()
        bad_rows = (~checked.isfinite()).any(dim=1).nonzero()[:, 0]
    else:
        entries = x.detach().to_sparse_coo().coalesce()  # type: ignore[no-untyped-call]
        values = entries.values().to(torch.float32)
        rows, columns = entries.indices()[:, values != 0]
        values = values[values != 0]
        bad_rows = rows[~values.isfinite()].unique()
        checked = csr(bounds(torch.bincount(rows, minlength=len(x))), columns, values, x.shape[1])
    if len(bad_rows):
        raise DataError(
            f"{where}: x has NaN or infinite values in {len(bad_rows)} of {len(x)} rows, the first"
            f" {int(bad_rows[0])} (from 0); only finite float32 is allowed",
            key="not-finite",
        )
    return checked


def edges(where: Path | str, edge_index: object, num_nodes: int) -> Tensor:
    """An edge index, (2, edges), int64, of nodes of the graph."""
    if isinstance(edge_index, Tensor) and not edge_index.numel():
        # torch makes a float tensor of an empty list
        return edge_index.new_zeros(2, 0, dtype=torch.int64)
    is_pair = isinstance(edge_index, Tensor) and edge_index.ndim == 2 and len(edge_index) == 2
    if not is_integer(edge_index) or not is_pair:
        hint = ""
        if is_pair:
            hint = "; .long() makes whole numbers"
        elif isinstance(edge_index, Tensor) and edge_index.ndim == 2 and edge_index.shape[1] == 2:
            hint = "; .t() transposes (edges, 2)"
        raise DataError(
            f"{where}: edge_index must be an integer tensor (2, edges); it is"
            f" {kind_of(edge_index)}{hint}",
            key="edge-index",
        )
    # A small dtype, such as uint8, cannot hold the number of nodes.
    edge_index = edge_index.to(torch.int64)
    num_outside = int(((edge_index < 0) | (edge_index >= num_nodes)).any(dim=0).sum())
    if num_outside:
        raise DataError(
            f"{where}: {amount(num_outside, 'edge')} of edge_index {have(num_outside)} nodes"
            f" outside the graph; node numbers 0..{num_nodes - 1} are allowed",
            key="node-range",
        )
    return edge_index


def labels(where: Path | str, y: object, count: int) -> Tensor:
    """Labels of nodes or graphs, (count,), int64, `UNKNOWN` for unknown classes.

    The file holds a row or a column of whole numbers, or a row of one-hot codes per node or graph;
    a single label may be a number.
    """
    classes = whole_numbers(y[0] if isinstance(y, list) and len(y) == 1 else y)
    if is_integer(classes) and classes.ndim == 2 and classes.shape[1] > 1 and _is_one_hot(classes):
        classes = classes.argmax(dim=1)
    if not is_integer(classes) or classes.numel() != count or classes.ndim > 2:
        reason = "" if is_integer(classes) else ", as regression is not supported"
        raise DataError(
            f"{where}: y must be a tensor ({count},) of whole numbers, each a class{reason}; it is"
            f" {kind_of(y)}",
            key="labels",
        )
    if bool((classes < UNKNOWN).any()):
        raise DataError(
            f"{where}: y has labels below {UNKNOWN}; allowed are classes, numbered from 0, and"
            f" {UNKNOWN}, {IGNORED} or NaN for unknown classes",
            key="label-range",
        )
    return classes.reshape(-1)


def _is_one_hot(codes: Tensor) -> bool:
    return bool(((codes == 0) | (codes == 1)).all() and (codes.sum(dim=1) == 1).all())


def edge_weights(
    where: Path | str, fields: Mapping[str, object], num_edges: int
) -> tuple[str, Tensor | None]:
    """The name of the field with the edge weights, and the weights, (edges,).

    The field is `edge_weight`, or `edge_attr` if that has one column. The weights are None if both
    fields are absent, or if all weights are 0: these would remove all edges.
    """
    name = "edge_weight"
    weights = fields.get("edge_weight")
    if weights is None:
        name = "edge_attr"
        weights = fields.get("edge_attr")
        if getattr(weights, "shape", None) not in ((num_edges,), (num_edges, 1)):
            return "", None
    if not isinstance(weights, Tensor) or weights.numel() != num_edges or weights.is_complex():
        raise DataError(
            f"{where}: {name} must be a tensor of numbers ({num_edges},); it is {kind_of(weights)}",
            key="edge-weights",
        )
    flat = weights.detach().reshape(-1).to(torch.float32)
    if not bool(flat.any()):
        return "", None
    num_bad = int((~flat.isfinite() | (flat < 0)).sum())
    if num_bad:
        raise DataError(
            f"{where}: {name}, the weights of the edges, is negative, NaN or infinite for"
            f" {num_bad} of {num_edges} edges; allowed are finite weights of at least 0, or no"
            f" {name}",
            key="edge-weights",
        )
    return name, flat


def number_classes(
    where: Path | str, labels: Tensor, names: object
) -> tuple[Tensor, tuple[str, ...]]:
    """Labels as indices into the class names, and the class names.

    Without `names` the classes are the labels that occur, ascending, and a class is called by its
    number. Equal names of two clients are then equal labels, even if a client lacks some labels.
    With `names` there is one name for each label from 0.
    """
    values, places = torch.unique(labels[labels >= 0], return_inverse=True)
    if names is None:
        if not len(values):
            raise DataError(
                f"{where}: every y is unknown; to train, some must be classes, numbered from 0",
                key="no-labels",
            )
        if len(values) > MAX_CLASSES:
            raise DataError(
                f"{where}: y has {len(values)} different classes; at most {MAX_CLASSES} are"
                " allowed",
                key="too-many-classes",
            )
        return labels.masked_scatter(labels >= 0, places), tuple(map(str, values.tolist()))
    num_classes = int(labels.max()) + 1
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise DataError(
            f"{where}: class_names must be a list of strings; it is {kind_of(names)}",
            key="class-names",
        )
    names = tuple(map(normalised, names))
    if len(set(names)) < len(names) or not max(num_classes, 1) <= len(names) <= MAX_CLASSES:
        raise DataError(
            f"{where}: class_names must be different from each other, one for each label"
            f" 0..{num_classes - 1}; there are {len(set(names))} different names",
            key="class-names",
        )
    return labels, names


def whole_numbers(y: object) -> object:
    """Whole numbers, True and False as integers, with `UNKNOWN` for NaN and `IGNORED`; any other
    value unchanged."""
    numbers = torch.tensor(y) if isinstance(y, bool | int | float) else y
    if not isinstance(numbers, Tensor) or numbers.layout != torch.strided or numbers.is_complex():
        return y
    filled = numbers.nan_to_num(nan=UNKNOWN) if numbers.is_floating_point() else numbers
    classes = filled.to(torch.int64)
    if not bool((classes == filled).all()):
        return y
    return classes.masked_fill(classes == IGNORED, UNKNOWN)


def is_integer(value: object) -> TypeGuard[Tensor]:
    """Whether a value is a dense tensor of integers."""
    return isinstance(value, Tensor) and value.layout == torch.strided and value.dtype in _INTEGERS


def kind_of(value: object) -> str:
    """The kind of a value in words that reveal nothing of its content."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    return "absent" if value is None else f"of type {type(value).__name__}"
