"""The split of the nodes in a file: masks, or lists of node numbers, as PyTorch Geometric and OGB spell them."""

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

_PART_OF = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "dev": 1, "test": 2, "testing": 2}
_PART = f"({'|'.join(_PART_OF)})"
_NAMES = re.compile(rf"{_PART}_masks?|{_PART}_(?:idx|index|indices)|idx_{_PART}")
_TABLES = ("split", "splits", "split_idx", "split_dict")


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
        which = f"split {seed % count} of 0..{count - 1}, by the seed, " if count > 1 else "the split "
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
        A part is a mask `train_mask`, `val_mask`, `test_mask`, or a list of node numbers such as `train_idx`, `valid_idx`,
        `idx_test`, or either of them in a dict `split` or `split_idx` by the name of the part. Masks come first.
    num_nodes : int

    Raises
    ------
    DataError
        A part that is neither a mask nor a list of node numbers, or a node that is in two parts.
    """
    present = _present(fields)
    if not present:
        return None
    columns = [_mask(where, *present[part], num_nodes) for part in sorted(present)]
    counts = sorted({mask.shape[1] for mask in columns} | {1})
    names = tuple(present[part][0] if part in present else "" for part in range(len(PARTS)))
    told = ", ".join(filter(None, names))
    if len(counts) > 2:
        splits = [mask.shape[1] for mask in columns]
        raise DataError(f"{where}: {told} must hold equally many splits, or a single one; they hold {splits}")
    masks = torch.zeros(len(PARTS), num_nodes, counts[-1], dtype=torch.bool)
    for part, mask in zip(sorted(present), columns, strict=True):
        masks[part] = mask
    shared = int((masks.sum(dim=0) > 1).any(dim=1).sum())
    if shared:
        raise DataError(f"{where}: {shared} nodes are in more than one of {told}; they must be disjoint")
    return OwnSplit(masks, names)


def _present(fields: Mapping[str, object]) -> dict[int, tuple[str, object]]:
    """The name and the value of each part that is there."""
    tables = [(name, table) for name in _TABLES if isinstance(table := fields.get(name), dict)]
    entries = [(name, name, value) for name, value in fields.items() if _NAMES.fullmatch(name)]
    entries.sort(key=lambda entry: "mask" not in entry[0])
    for table_name, table in tables:
        known = [key for key in table if isinstance(key, str) and (key in _PART_OF or _NAMES.fullmatch(key))]
        entries += [(f"{table_name}['{key}']", key, plain(table[key])) for key in known]
    present: dict[int, tuple[str, object]] = {}
    for name, key, value in entries:
        if value is not None:
            present.setdefault(_PART_OF[re.sub("_?(masks?|idx|index|indices)_?", "", key)], (name, value))
    return present


def _mask(where: Path | str, name: str, value: object, num_nodes: int) -> Tensor:
    """One part as a mask (N, S) of its splits."""
    if isinstance(value, list | range):
        value = _numbers(value)
    if isinstance(value, Tensor) and value.layout == torch.strided and value.ndim in (1, 2):
        is_binary = value.dtype == torch.bool or ("mask" in name and bool(((value == 0) | (value == 1)).all()))
        if is_binary and len(value) == num_nodes and value.numel():
            return value.reshape(num_nodes, -1) != 0
        if (is_integer(value) or not value.numel()) and value.numel() == len(value):
            return _members(where, name, value.reshape(-1).to(torch.int64), num_nodes)
    raise DataError(
        f"{where}: {name} must be a mask of True and False, or 1 and 0, ({num_nodes},) or ({num_nodes}, splits), or a list "
        f"of node numbers; it is {what(value)}"
    )


def _members(where: Path | str, name: str, numbers: Tensor, num_nodes: int) -> Tensor:
    """The mask (N, 1) of the nodes of these numbers."""
    outside = int(((numbers < 0) | (numbers >= num_nodes)).sum())
    doubled = len(numbers) - len(torch.unique(numbers))
    if outside or doubled:
        raise DataError(
            f"{where}: {name}, a list of {len(numbers)} node numbers, has {outside} outside 0..{num_nodes - 1} and "
            f"{doubled} twice; allowed is a mask ({num_nodes},), or each number once"
        )
    mask = torch.zeros(num_nodes, 1, dtype=torch.bool)
    mask[numbers] = True
    return mask


def _numbers(values: list[object] | range) -> object:
    """A list of numbers as a tensor; any other as it is."""
    try:
        return torch.tensor(list(values))
    except (TypeError, ValueError, RuntimeError):
        return values
