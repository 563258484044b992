"""Check the parts of a graph that was read from a file, and convert each to its dtype.

Every check takes `where` the part was read, and raises a `DataError` that names this, what is wrong there and what is
allowed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeGuard

import torch
from torch import Tensor

from curvfed.tasks.class_names import normalised
from curvfed.tasks.errors import DataError

MAX_CLASSES = 10_000
"""More classes than any data set has: a larger label is a mistake, not a class."""

MASK_NAMES = ("train_mask", "val_mask", "test_mask")

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def features(where: Path | str, x: object) -> Tensor:
    """Node features, (nodes, F), float32, dense and finite."""
    if not isinstance(x, Tensor) or x.ndim != 2 or 0 in x.shape or x.is_complex():
        raise DataError(f"{where}: x must be a tensor of numbers (nodes, features), neither 0; it is {what(x)}")
    dense = x.detach().to_dense().to(torch.float32).contiguous()
    bad = int((~dense.isfinite()).any(dim=1).sum())
    if bad:
        raise DataError(
            f"{where}: x has NaN or infinite values in {bad} of {len(dense)} rows; only finite float32 is allowed"
        )
    return dense


def edges(where: Path | str, edge_index: object, num_nodes: int) -> Tensor:
    """An edge index, (2, edges), int64, of nodes of the graph."""
    if not is_integer(edge_index) or edge_index.ndim != 2 or len(edge_index) != 2:
        raise DataError(f"{where}: edge_index must be an integer tensor (2, edges); it is {what(edge_index)}")
    outside = int(((edge_index < 0) | (edge_index >= num_nodes)).any(dim=0).sum())
    if outside:
        raise DataError(
            f"{where}: {outside} edges of edge_index leave the graph; node numbers 0..{num_nodes - 1} are allowed"
        )
    return edge_index.to(torch.int64)


def labels(where: Path | str, y: object, num_nodes: int) -> Tensor:
    """Classes of the nodes, (nodes,), int64, -1 where unknown: -1 or NaN in the file."""
    y = _without_nan(y)
    if not is_integer(y) or y.shape != (num_nodes,):
        raise DataError(
            f"{where}: y must be an integer tensor ({num_nodes},), or one of whole numbers, a class for every node; it is "
            f"{what(y)}"
        )
    classes = y.to(torch.int64)
    if int(classes.min()) < -1 or int(classes.max()) >= MAX_CLASSES:
        raise DataError(
            f"{where}: y has labels outside 0..{MAX_CLASSES - 1}; allowed are classes, counted from 0, and -1 or NaN for "
            "unknown ones"
        )
    return classes


def edge_weights(where: Path | str, fields: Mapping[str, object], num_edges: int) -> Tensor | None:
    """Weights of the edges, (edges,), float32: `edge_weight`, else `edge_attr` where it has one column; None without."""
    given = fields.get("edge_weight")
    name, weights = ("edge_attr", fields.get("edge_attr")) if given is None else ("edge_weight", given)
    if name == "edge_attr" and not (isinstance(weights, Tensor) and weights.shape in ((num_edges,), (num_edges, 1))):
        return None
    if not isinstance(weights, Tensor) or weights.numel() != num_edges or weights.is_complex():
        raise DataError(f"{where}: edge_weight must be a tensor of numbers ({num_edges},); it is {what(weights)}")
    flat = weights.detach().reshape(-1).to(torch.float32)
    if bad := int((~flat.isfinite() | (flat < 0)).sum()):
        raise DataError(
            f"{where}: {name}, the weights of the edges, is negative, NaN or infinite for {bad} of {num_edges} edges; "
            f"allowed are finite weights of at least 0, or no {name}"
        )
    return flat


def label(where: str, y: object) -> int:
    """The class of a whole graph, -1 if it is unknown: -1 or NaN in the file."""
    y = _without_nan(torch.tensor(y) if isinstance(y, float) else y)
    if is_integer(y) and y.shape in ((), (1,)):
        y = y.item()
    if not isinstance(y, int) or isinstance(y, bool):
        raise DataError(f"{where}: y must be an integer, or an integer tensor () or (1,), its class; it is {what(y)}")
    if not -1 <= y < MAX_CLASSES:
        raise DataError(
            f"{where}: y is outside 0..{MAX_CLASSES - 1}; allowed is a class, counted from 0, or -1 or NaN, unknown"
        )
    return y


def class_names(where: Path | str, names: object, num_classes: int) -> tuple[str, ...]:
    """Different names, at least one for each class; by default "0".."C-1"."""
    if not num_classes and not names:
        raise DataError(f"{where}: every y is unknown; to train, some must be classes, counted from 0")
    if names is None:
        return tuple(str(index) for index in range(num_classes))
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{where}: class_names must be a list of strings")
    names = tuple(map(normalised, names))
    if len(set(names)) < len(names) or not num_classes <= len(names) <= MAX_CLASSES:
        raise DataError(
            f"{where}: class_names must be different from each other, one for each label 0..{num_classes - 1}; "
            f"there are {len(set(names))} different names"
        )
    return names


def masks(where: Path | str, masks: tuple[object, object, object], num_nodes: int) -> Tensor:
    """Train, validation and test masks, (3, nodes, splits), bool, disjoint in each split."""
    columns = [_mask(where, name, mask, num_nodes) for name, mask in zip(MASK_NAMES, masks, strict=True)]
    if len({mask.shape for mask in columns}) > 1:
        splits = [mask.shape[1] for mask in columns]
        raise DataError(f"{where}: {', '.join(MASK_NAMES)} must hold equally many splits; they hold {splits}")
    stacked = torch.stack(columns)
    shared = int((stacked.sum(dim=0) > 1).any(dim=1).sum())
    if shared:
        raise DataError(
            f"{where}: {shared} nodes are in more than one of {', '.join(MASK_NAMES)}; they must be disjoint"
        )
    return stacked


def _mask(where: Path | str, name: str, mask: object, num_nodes: int) -> Tensor:
    is_mask = isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.ndim in (1, 2) and mask.numel() > 0
    if not isinstance(mask, Tensor) or not is_mask or len(mask) != num_nodes:
        raise DataError(
            f"{where}: {name} must be a bool tensor ({num_nodes},) or ({num_nodes}, splits); it is {what(mask)}"
        )
    return mask.reshape(num_nodes, -1)


def _without_nan(y: object) -> object:
    """Integers where floats are whole numbers or NaN, which becomes -1; all else as it is."""
    if not isinstance(y, Tensor) or y.layout != torch.strided or not y.is_floating_point():
        return y
    filled = y.nan_to_num(nan=-1)
    return filled.to(torch.int64) if bool((filled == filled.trunc()).all()) else y


def is_integer(value: object) -> TypeGuard[Tensor]:
    """Whether a value is a dense tensor of integers."""
    return isinstance(value, Tensor) and value.layout == torch.strided and value.dtype in _INTEGERS


def what(value: object) -> str:
    """The kind of a value in words, which reveal nothing of its content."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    return "absent" if value is None else f"of type {type(value).__name__}"
