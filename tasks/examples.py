"""The labelled examples of one client, the common base of graphs, images and links, and the cache
of prepared ones."""

import hashlib
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from curvfed.tasks.errors import MAX_TEXT, DataError
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.labelled import Labelled
from curvfed.tasks.stored_files import (
    UNSEALED,
    check_whole,
    file_stamps,
    metadata_of,
    sealed,
    write_atomically,
)

FAR = 10.0
"""Norm of features, as tangent vectors at the origin of the Lorentz space, beyond which float32
does not separate near points: its rounding is that of cosh², 1 at 8.7."""

FAR_FEATURES = (
    "at that distance float32 does not separate near points of the Lorentz space; use normalize ="
    " l2, or scale the features"
)
"""The problem beyond this norm."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Examples(Labelled, ABC):
    """n labelled examples and their split.

    Attributes
    ----------
    labels : Tensor, (n,), int64
        Indices into `class_names`; -1 for unknown classes.
    train, val, test : Tensor, (n,), bool
        Disjoint, without examples of unknown class.
    class_names : tuple of str
        The classes of this client's data set.
    partition_digest : str
        SHA-256 of the membership of the whole partition; "" for a node's own data and for a global
        test set.
    digest : str
        SHA-256 of the data; "" until it is computed.
    split_digest : str
        Keyed digest of the records and their split, whatever the settings of a run; "" if the
        records were not split by their content.
    reading : str
        How a run reads the records, if that changes their number.
    metric : str
        "accuracy", "roc_auc" or "mrr".
    space : str
        The name of this client's data set if clients hold different ones; it identifies the
        features and the classes.
    """

    labels: Tensor
    train: Tensor
    val: Tensor
    test: Tensor
    class_names: tuple[str, ...]
    partition_digest: str = ""
    digest: str = ""
    split_digest: str = ""
    reading: str = ""
    metric: str = "accuracy"
    space: str = ""

    def __post_init__(self) -> None:
        """Refuse names that are unfit for messages, logs and tables.

        Raises
        ------
        DataError
        """
        for name in self.class_names:
            if len(name) > MAX_TEXT or not name.isprintable():
                raise DataError(
                    f"among the names of {KINDS[self.task].words.names}, {name[:MAX_TEXT]!a} has"
                    f" {len(name)} characters, or one that cannot be printed; allowed are up to"
                    f" {MAX_TEXT} printable characters",
                    f"{name[:MAX_TEXT]!a}",
                    key="class-names",
                )

    def tensors(self) -> dict[str, Tensor]:
        """The data as named dense tensors."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    @staticmethod
    def from_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The fields that `tensors` was computed from."""
        return tensors

    @classmethod
    def split(cls, masks: Tensor, **fields: Any) -> Self:
        """The examples of these fields with their digest, split by masks (3, n) of train,
        validation and test."""
        train, val, test = (mask.clone() for mask in masks)
        examples = cls(train=train, val=val, test=test, **fields)
        return replace(examples, digest=examples.computed_digest())

    @property
    @abstractmethod
    def task(self) -> str:
        """The key of `curvfed.tasks.kinds.KINDS`."""

    @property
    @abstractmethod
    def num_features(self) -> int:
        """The number of features of an example."""

    @property
    @abstractmethod
    def shape(self) -> str:
        """The shape of an image, "1x28x28"; "" for other data."""

    @abstractmethod
    def describe(self) -> str:
        """The amount of data, in words."""

    def statistics(self) -> dict[str, Any]:
        """Figures about the examples, which a real node keeps to itself by default.

        Returns
        -------
        dict
            "num_train", "num_val", "num_test"; "class_counts" over all examples of known class, in
            the order of `class_names`; "majority_accuracy", the test accuracy of always answering
            the most frequent training class, or None without training or test examples.
        """
        labels = self.labels[self.labels >= 0]
        counts = torch.bincount(labels, minlength=len(self.class_names))
        return {
            "num_train": int(self.train.sum()),
            "num_val": int(self.val.sum()),
            "num_test": int(self.test.sum()),
            "class_counts": tuple(counts.tolist()),
            **self.trivial_scores(),
        }

    @abstractmethod
    def bytes_on(self, device: torch.device) -> int:
        """Bytes that a task needs on a device, in addition to these data in main memory."""

    @abstractmethod
    def computed_digest(self) -> str:
        """SHA-256 of the data."""


def sha256(text: str, tensors: dict[str, Tensor]) -> str:
    """Digest of a text and of named tensors: names, dtypes, shapes and values."""
    hasher = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        hasher.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        hasher.update(tensor.contiguous().numpy().data)
    return hasher.hexdigest()


Client = TypeVar("Client", bound=Examples)

log = logging.getLogger("curvfed")

FORMAT = 10
"""Raise this number if the preparation or the layout of the files changes: older files are then
ignored."""

_SEAL = "file digest"
"""Name of the file's digest among the values; `digest` is the digest of the data."""


def cache_key(settings: Mapping[str, Any], files: Sequence[Path]) -> str:
    """A folder name that changes with the settings and with each raw file (see `file_stamps`)."""
    stamps = file_stamps([path.resolve() for path in files])
    text = json.dumps([FORMAT, dict(settings), stamps], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def load_prepared(
    kind: type[Client], folder: Path, number: int, prepare: Callable[[], Iterable[Client]]
) -> Client:
    """Read client `number` in `folder`; if its file is absent or damaged, prepare and store all
    clients.

    A folder that cannot be written is logged, not raised.
    """
    client = _read(kind, _path(folder, number))
    if client is None:
        can_write = True
        for index, prepared in enumerate(prepare()):
            if index == number:
                client = prepared
            can_write = can_write and _write(_path(folder, index), prepared)
    assert client is not None, "fewer clients were prepared than the run has"
    return client


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number}.safetensors"


def _read(kind: type[Client], path: Path) -> Client | None:
    try:
        data = path.read_bytes()
        check_whole(data)
        tensors = safetensors.torch.load(data)
        fields: dict[str, Any] = kind.from_tensors(tensors)
        texts = metadata_of(data)
        del texts[_SEAL]
        for name, text in texts.items():
            value = json.loads(text)
            fields[name] = tuple(value) if isinstance(value, list) else value
        return kind(**fields)
    except FileNotFoundError:
        return None
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        log.warning("%s is damaged and is prepared again (%s)", path, error)
        return None


def _write(path: Path, client: Examples) -> bool:
    """Store a client; whether this succeeds."""
    values = {
        name: json.dumps(value)
        for name, value in vars(client).items()
        if not isinstance(value, Tensor | None)
    }
    tensors = {name: tensor.contiguous() for name, tensor in client.tensors().items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        data = safetensors.torch.save(tensors, values | {_SEAL: UNSEALED})
        write_atomically(path, sealed(data), private=True)
    except OSError as error:
        log.warning(
            "prepared data cannot be stored in %s, so each client process prepares them: %s",
            path.parent,
            error,
        )
        return False
    return True
