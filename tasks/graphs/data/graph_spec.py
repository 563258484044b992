"""The settings of a run's graphs, and their split: drawn by the seed, or read from the file, as
masks or lists of node numbers in the spellings of PyTorch Geometric and OGB."""

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from curvfed.tasks.dataset import Spec
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.checked_parts import is_integer, kind_of
from curvfed.tasks.graphs.data.partition import random_split
from curvfed.tasks.graphs.data.stored_objects import plain
from curvfed.tasks.graphs.sparse import csr
from curvfed.tasks.record_split import RecordSplit

ROLES = ("train", "val", "test")
VALIDATION = ROLES.index("val")
PURPOSES = ("training", "validation", "testing")

_ROLE = "(?:(train|training)|(val|valid|validation|dev)|(test|testing))"
_SPELLINGS = (
    rf"{_ROLE}_masks?",
    rf"{_ROLE}_(?:idx|index|indices)",
    rf"idx_{_ROLE}",
    rf"splits?(?:_idx|_dict)?\['(?:idx_)?{_ROLE}(?:_masks?|_idx|_index|_indices)?'\]",
)
"""Field names of a role; the number of the matching group is the role's place in `ROLES`. In a file
with several spellings the first of these counts."""


@dataclass(frozen=True, eq=False)
class OwnSplit:
    """The split in a file.

    Attributes
    ----------
    masks : Tensor, (3, N, S), bool
        Training, validation and test masks of S splits, disjoint in each.
    names : tuple of 3 str
        The field of each role, "" for a role that the file lacks.
    """

    masks: Tensor
    names: tuple[str, ...]

    def describe(self, number: int) -> str:
        """The fields, and which of several splits a client uses, in words."""
        count = self.masks.shape[2]
        fields = ", ".join(filter(None, self.names))
        if count == 1:
            return f"the split of {fields}"
        return f"split {number % count} of 0..{count - 1} of {fields}"

    @property
    def absent(self) -> tuple[int, ...]:
        """The roles that the file lacks, by their place in `ROLES`."""
        return tuple(place for place, name in enumerate(self.names) if not name)


def own_split(where: Path | str, fields: Mapping[str, object], labels: Tensor) -> OwnSplit | None:
    """The split of the examples of known class among the fields of a graph, or None.

    Parameters
    ----------
    where : Path or str
        The file, for the error texts.
    fields : mapping
        A role is a mask `train_mask`, `val_mask`, `test_mask`, or a list of node numbers such as
        `train_idx`, `valid_idx`, `idx_test`, or either of them in a dict `split` or `split_idx` by
        the name of the role. Masks take precedence.
    labels : Tensor, (n,)
        -1 where unknown.

    Raises
    ------
    DataError
        A role that is neither a mask nor a list of node numbers, or a node with two roles.
    """
    named_values = _named_values(fields)
    names = tuple(name for name, _ in named_values)
    if not any(names):
        return None
    columns = [_mask(where, name, value, len(labels)) for name, value in named_values]
    listed = ", ".join(filter(None, names))
    try:
        masks = torch.stack(torch.broadcast_tensors(*columns))  # type: ignore[no-untyped-call]
    except RuntimeError:
        splits = [mask.shape[1] for mask in columns]
        raise DataError(
            f"{where}: {listed} must hold the same number of splits, or a single one; they hold"
            f" {splits}",
            key="split",
        ) from None
    num_shared = int((masks.sum(dim=0) > 1).any(dim=1).sum())
    if num_shared:
        raise DataError(
            f"{where}: {num_shared} nodes are in more than one of {listed}; they must be disjoint",
            key="split-overlap",
        )
    return OwnSplit(masks & (labels >= 0).unsqueeze(1), names)


def _named_values(fields: Mapping[str, object]) -> list[tuple[str, object]]:
    """The field and the value of each role; "" and an empty list of nodes for an absent role."""
    values = dict(fields)
    for name, table in fields.items():
        if isinstance(table, dict):
            values |= {f"{name}['{key}']": plain(value) for key, value in table.items()}
    named_values: list[tuple[str, object]] = [("", [])] * len(ROLES)
    for spelling in reversed(_SPELLINGS):
        for name, value in values.items():
            match = re.fullmatch(spelling, name)
            if match and match.lastindex and value is not None:
                named_values[match.lastindex - 1] = name, value
    return named_values


def _mask(where: Path | str, name: str, value: object, num_nodes: int) -> Tensor:
    """One role as a mask (N, S) of its splits."""
    # Values that are not tensors are refused below.
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
        f" ({num_nodes}, splits), or a list of node numbers; it is {kind_of(value)}",
        key="split",
    )


def _members(where: Path | str, name: str, numbers: Tensor, num_nodes: int) -> Tensor:
    """The mask (N, 1) of the nodes of these numbers."""
    num_outside = int(((numbers < 0) | (numbers >= num_nodes)).sum())
    num_doubled = len(numbers) - len(torch.unique(numbers))
    if num_outside or num_doubled:
        raise DataError(
            f"{where}: {name}, a list of {len(numbers)} node numbers, has {num_outside} outside"
            f" 0..{num_nodes - 1} and {num_doubled} twice; allowed is a mask ({num_nodes},), or"
            " each number once",
            key="node-range",
        )
    mask = torch.zeros(num_nodes, 1, dtype=torch.bool)
    mask[numbers] = True
    return mask


NORMS = {"l2": 2, "l1": 1, "none": None}

VALIDATION_SHARE = 0.2
"""The share of the training nodes used for validation if a graph has masks only for training and
testing."""


@dataclass(frozen=True)
class GraphSpec(Spec):
    """The settings of graphs.

    Attributes
    ----------
    dataset : str
        Also several sets of graphs, as in `curvfed.tasks.registry.graph_sets`.
    partition : str
        "metis", "louvain" or "random".
    seed : int
        Seed of partition and split, or of the generator; at least 0. A data set with S splits uses
        split `seed` modulo S.
    train_size, test_size : float
        Shares of the nodes, or graphs, at least 0 and together at most 1; validation takes the
        remainder.
    normalize : str
        The norm of each row of features, "l2" or "l1", or "none". Rows of zeros stay zero.
    batch_size : int
        Nodes per training step; clients with more nodes form batches of clusters. 0: all nodes.
    """

    partition: str = "metis"
    seed: int = 0
    train_size: float = 0.2
    test_size: float = 0.4
    normalize: str = "l2"
    batch_size: int = 0

    def split(self, labels: Tensor, *stream: int) -> Tensor:
        """Random masks (3, n) of the training, validation and test examples; examples of unknown
        class are in no mask.

        `labels` are (n,), -1 if unknown; `stream` distinguishes draws with the same seed.
        """
        # Another stream than that of the random partition makes the two independent.
        rng = np.random.default_rng([self.seed, 1, *stream])
        labelled = labels >= 0
        masks = torch.zeros(3, len(labels), dtype=torch.bool)
        drawn_masks = random_split(int(labelled.sum()), self.train_size, self.test_size, rng)
        masks[:, labelled] = torch.from_numpy(drawn_masks)
        return masks

    def completed(
        self,
        split: OwnSplit,
        labels: Tensor,
        record_split: RecordSplit | None = None,
        records: Callable[[], Sequence[bytes]] = tuple,
    ) -> Tensor:
        """Masks (3, n) of a file's split, with masks for absent roles by the records, or at random.

        If only validation is absent, it takes `VALIDATION_SHARE` of the training examples. Other
        roles take examples of known class without a role, in the shares of the settings.
        """
        number = self.seed if record_split is None else record_split.number
        masks = split.masks[:, :, number % split.masks.shape[2]].clone()
        if not split.absent:
            return masks
        first = split.absent[0]
        last = split.absent[-1]
        sizes = (self.train_size, 1 - self.train_size - self.test_size, self.test_size)
        if record_split is not None:
            remainder = 1 - record_split.train_size - record_split.test_size
            sizes = (record_split.train_size, remainder, record_split.test_size)
        share = sizes[first] / max(sizes[first] + sizes[last], 1e-9)
        pool = (labels >= 0) & ~masks.any(dim=0)
        if split.absent == (VALIDATION,):
            last = ROLES.index("train")
            share = VALIDATION_SHARE
            pool = masks[last].clone()
        if record_split is None:
            members = pool.nonzero().squeeze(1).numpy()
            order = np.random.default_rng([self.seed, 2]).permutation(members)
            drawn = torch.zeros_like(pool)
            drawn[order[: round(share * len(order))]] = True
        else:
            drawn = torch.from_numpy(record_split.draw(records(), share, "absent parts"))
        masks[:, pool] = False
        masks[first] |= pool & drawn
        masks[last] |= pool & ~drawn
        return masks


def normalize_rows(features: Tensor, norm: str) -> Tensor:
    """Scale rows to unit `norm` ("l2", "l1"), or leave them unchanged ("none"); rows of zeros stay
    zero.

    Parameters
    ----------
    features : Tensor, (N, F), dense or CSR, finite
    """
    order = NORMS[norm]
    if order is None:
        return features
    if features.layout == torch.sparse_csr:
        lengths = features.crow_indices().diff()
        # In float64 no square overflows or underflows.
        values = features.values().double()
        sizes = torch.segment_reduce(values.abs() ** order, "sum", lengths=lengths) ** (1 / order)
        scaled = (values / sizes.repeat_interleave(lengths)).nan_to_num()
        return csr(
            features.crow_indices(), features.col_indices(), scaled.float(), features.shape[1]
        )
    # Scaling by the largest entry first keeps squares from overflow and underflow.
    scale = features.abs().amax(dim=1, keepdim=True)
    scaled = features / torch.where(scale > 0, scale, 1)
    size = torch.linalg.vector_norm(scaled, ord=order, dim=1, keepdim=True)
    return scaled / torch.where(size > 0, size, 1)
