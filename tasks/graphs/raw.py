"""A graph as it was read, checked before anything is made of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

import torch
from torch import Tensor

from tasks.errors import DataError

MAX_CLASSES = 10_000
"""More classes than any data set here has: a label beyond is a mistake, not a class."""

MASK_NAMES = ("train_mask", "val_mask", "test_mask")
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@dataclass(frozen=True, eq=False)
class RawGraph:
    """A whole graph.

    Attributes
    ----------
    features : Tensor, (N, F), float32, dense, finite
    edge_index : Tensor, (2, E), int64
        As read: self-loops, duplicates and single directions may occur.
    labels : Tensor, (N,), int64
        In 0..C-1.
    class_names : tuple of C str
    metric : str
        "accuracy" or "roc_auc".
    masks : Tensor, (3, N, S), bool, or None
        Train, validation and test masks of the data set's own S splits, disjoint in each split.
    """

    features: Tensor
    edge_index: Tensor
    labels: Tensor
    class_names: tuple[str, ...]
    metric: str
    masks: Tensor | None


def raw_graph(
    where: Path,
    features: object,
    edge_index: object,
    labels: object,
    masks: tuple[object, object, object] | None = None,
    class_names: object = None,
    metric: str = "accuracy",
) -> RawGraph:
    """Check what was read from `where`.

    Parameters
    ----------
    where : Path
        The file or folder, for the messages.
    features : Tensor, (N, F), of numbers, dense or sparse
    edge_index : Tensor, (2, E), int64
    labels : Tensor, (N,), of integers
    masks : three Tensors, (N,) or (N, S), bool, or None
    class_names : sequence of str, or None
        None: "0".."C-1", C the largest label plus one.
    metric : str
        "accuracy" or "roc_auc".

    Raises
    ------
    DataError
        Naming `where`, what is wrong there, and what is allowed.
    """
    features = _features(where, features)
    num_nodes = len(features)
    labels = _labels(where, labels, num_nodes)
    return RawGraph(
        features=features,
        edge_index=_edges(where, edge_index, num_nodes),
        labels=labels,
        class_names=_class_names(where, class_names, int(labels.max()) + 1),
        metric=metric,
        masks=None if masks is None else _masks(where, masks, num_nodes),
    )


def _features(where: Path, x: object) -> Tensor:
    if not isinstance(x, Tensor) or x.ndim != 2 or 0 in x.shape or x.is_complex():
        raise DataError(f"{where}: x must be a tensor of numbers (nodes, features), neither 0; it is {_what(x)}")
    dense = x.detach().to_dense().to(torch.float32).contiguous()
    bad = int((~dense.isfinite()).any(dim=1).sum())
    if bad:
        raise DataError(
            f"{where}: x has NaN or infinite values in {bad} of {len(dense)} rows; only finite float32 is allowed"
        )
    return dense


def _edges(where: Path, edge_index: object, num_nodes: int) -> Tensor:
    if not _is_integer(edge_index) or edge_index.ndim != 2 or len(edge_index) != 2:
        raise DataError(f"{where}: edge_index must be an integer tensor (2, edges); it is {_what(edge_index)}")
    outside = int(((edge_index < 0) | (edge_index >= num_nodes)).any(dim=0).sum())
    if outside:
        raise DataError(
            f"{where}: {outside} edges of edge_index leave the graph; node numbers 0..{num_nodes - 1} are allowed"
        )
    return edge_index.to(torch.int64)


def _labels(where: Path, y: object, num_nodes: int) -> Tensor:
    if not _is_integer(y) or y.shape != (num_nodes,):
        raise DataError(
            f"{where}: y must be an integer tensor ({num_nodes},), a class for every node; it is {_what(y)}"
        )
    labels = y.to(torch.int64)
    if int(labels.min()) < 0 or int(labels.max()) >= MAX_CLASSES:
        raise DataError(f"{where}: y has labels outside 0..{MAX_CLASSES - 1}; every node needs a class, counted from 0")
    return labels


def _class_names(where: Path, names: object, num_classes: int) -> tuple[str, ...]:
    if names is None:
        return tuple(str(index) for index in range(num_classes))
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{where}: class_names must be a list of strings")
    if len(set(names)) < len(names) or not num_classes <= len(names) <= MAX_CLASSES:
        raise DataError(
            f"{where}: class_names must be different from each other, one for each label 0..{num_classes - 1}; "
            f"there are {len(set(names))} different names"
        )
    return tuple(names)


def _masks(where: Path, masks: tuple[object, object, object], num_nodes: int) -> Tensor:
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


def _mask(where: Path, name: str, mask: object, num_nodes: int) -> Tensor:
    is_mask = isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.ndim in (1, 2) and mask.numel() > 0
    if not isinstance(mask, Tensor) or not is_mask or len(mask) != num_nodes:
        raise DataError(
            f"{where}: {name} must be a bool tensor ({num_nodes},) or ({num_nodes}, splits); it is {_what(mask)}"
        )
    return mask.reshape(num_nodes, -1)


def _is_integer(value: object) -> TypeGuard[Tensor]:
    return isinstance(value, Tensor) and value.layout == torch.strided and value.dtype in INTEGERS


def _what(value: object) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    return "absent" if value is None else f"of type {type(value).__name__}"
