"""The split of the nodes in a file: masks, or lists of node numbers, as PyTorch Geometric and OGB
spell them."""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.checked_parts import is_integer, what
from curvfed.tasks.graphs.data.stored_objects import plain

PARTS = ("train", "val", "test")
VALIDATION = PARTS.index("val")
WORDS = ("training", "validation", "testing")

_PART = "(?:(train|training)|(val|valid|validation|dev)|(test|testing))"
_SPELLINGS = (
    rf"{_PART}_masks?",
    rf"{_PART}_(?:idx|index|indices)",
    rf"idx_{_PART}",
    rf"splits?(?:_idx|_dict)?\['(?:idx_)?{_PART}(?:_masks?|_idx|_index|_indices)?'\]",
)
"""Names of a part; the group that matches is its place in `PARTS`. An earlier one comes first where
a file has several."""


@dataclass(frozen=True, eq=False)
class OwnSplit:
    """A split that a file has.

    Attributes
    ----------
    masks : Tensor, (3, N, S), bool
        Training, validation and test masks of S splits, disjoint in each.
    names : tuple of 3 str
        The fields that they are from, "" for a part that the file lacks.
    """

    masks: Tensor
    names: tuple[str, ...]

    def told(self, seed: int) -> str:
        """The fields, and which of several splits a run of this seed uses, in words."""
        count = self.masks.shape[2]
        which = (
            f"split {seed % count} of 0..{count - 1}, by the seed, " if count > 1 else "the split "
        )
        return f"{which}of {', '.join(filter(None, self.names))}"

    @property
    def absent(self) -> tuple[int, ...]:
        """The parts that the file lacks, by their place in `PARTS`."""
        return tuple(place for place, name in enumerate(self.names) if not name)


def own_split(where: Path | str, fields: Mapping[str, object], num_nodes: int) -> OwnSplit | None:
    """The split that is among the fields of a graph; None if there is none.

    Parameters
    ----------
    where : Path or str
        The file, for the error texts.
    fields : mapping
        A part is a mask `train_mask`, `val_mask`, `test_mask`, or a list of node numbers such as
        `train_idx`, `valid_idx`, `idx_test`, or either of them in a dict `split` or `split_idx` by
        the name of the part. Masks come first.
    num_nodes : int

    Raises
    ------
    DataError
        A part that is neither a mask nor a list of node numbers, or a node that is in two parts.
    """
    parts = _parts(fields)
    names = tuple(name for name, _ in parts)
    if not any(names):
        return None
    columns = [_mask(where, name, value, num_nodes) for name, value in parts]
    told = ", ".join(filter(None, names))
    try:
        masks = torch.stack(torch.broadcast_tensors(*columns))  # type: ignore[no-untyped-call]
    except RuntimeError:
        splits = [mask.shape[1] for mask in columns]
        raise DataError(
            f"{where}: {told} must hold equally many splits, or a single one; they hold {splits}"
        ) from None
    shared = int((masks.sum(dim=0) > 1).any(dim=1).sum())
    if shared:
        raise DataError(
            f"{where}: {shared} nodes are in more than one of {told}; they must be disjoint"
        )
    return OwnSplit(masks, names)


def _parts(fields: Mapping[str, object]) -> list[tuple[str, object]]:
    """The name and the value of each part; an absent one is a list of no nodes, without a name."""
    values = dict(fields)
    for name, table in fields.items():
        if isinstance(table, dict):
            values |= {f"{name}['{key}']": plain(value) for key, value in table.items()}
    parts: list[tuple[str, object]] = [("", [])] * len(PARTS)
    for spelling in reversed(_SPELLINGS):
        for name, value in values.items():
            match = re.fullmatch(spelling, name)
            if match and match.lastindex and value is not None:
                parts[match.lastindex - 1] = name, value
    return parts


def _mask(where: Path | str, name: str, value: object, num_nodes: int) -> Tensor:
    """One part as a mask (N, S) of its splits."""
    # what is no tensor is refused below
    with contextlib.suppress(TypeError, ValueError, RuntimeError):
        value = torch.as_tensor(value).to_dense()
    if isinstance(value, Tensor) and value.ndim in (1, 2):
        is_binary = value.dtype == torch.bool or (
            "mask" in name and bool(((value == 0) | (value == 1)).all())
        )
        if is_binary and len(value) == num_nodes and value.numel():
            return value.reshape(num_nodes, -1) != 0
        if (is_integer(value) or not value.numel()) and value.numel() == len(value):
            return _members(where, name, value.reshape(-1).to(torch.int64), num_nodes)
    raise DataError(
        f"{where}: {name} must be a mask of True and False, or 1 and 0, ({num_nodes},) or"
        f" ({num_nodes}, splits), or a list of node numbers; it is {what(value)}"
    )


def _members(where: Path | str, name: str, numbers: Tensor, num_nodes: int) -> Tensor:
    """The mask (N, 1) of the nodes of these numbers."""
    outside = int(((numbers < 0) | (numbers >= num_nodes)).sum())
    doubled = len(numbers) - len(torch.unique(numbers))
    if outside or doubled:
        raise DataError(
            f"{where}: {name}, a list of {len(numbers)} node numbers, has {outside} outside"
            f" 0..{num_nodes - 1} and {doubled} twice; allowed is a mask ({num_nodes},), or each"
            " number once"
        )
    mask = torch.zeros(num_nodes, 1, dtype=torch.bool)
    mask[numbers] = True
    return mask
