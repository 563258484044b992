"""Prepared clients on disk, so that a client process need not read and split a whole data set."""

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.examples import Examples
from curvfed.tasks.stored_files import (
    UNSEALED,
    check_whole,
    file_stamps,
    metadata_of,
    sealed,
    write_atomically,
)

Client = TypeVar("Client", bound=Examples)

log = logging.getLogger("curvfed")

FORMAT = 7
"""Raise this number whenever the preparation or the layout of the files changes: older files are
then ignored."""

_SEAL = "file digest"
"""Name of the file's own digest among the values; `digest` is that of the data."""


def check_partition(partition_id: int, num_partitions: int) -> None:
    """Raise DataError for a client that a run of so many clients does not have."""
    if not 0 <= partition_id < num_partitions:
        raise DataError(
            f"partition-id is {partition_id}; with {num_partitions} clients it must be in"
            f" 0..{num_partitions - 1}"
        )


def cache_key(settings: dict[str, Any], files: Sequence[Path]) -> str:
    """A folder name that changes with the settings, and with any raw file (see `file_stamps`)."""
    stamps = file_stamps([path.resolve() for path in files])
    return hashlib.sha256(
        json.dumps([FORMAT, settings, stamps], sort_keys=True).encode()
    ).hexdigest()[:32]


def load(
    kind: type[Client], folder: Path, number: int, prepare: Callable[[], Iterable[Client]]
) -> Client:
    """Client `number` as it is kept in `folder`; where it is absent or damaged, all clients are
    prepared and kept there.

    A folder that cannot be written is logged, not raised.
    """
    client = _read(kind, _path(folder, number))
    if client is None:
        can_write = True
        for each, prepared in enumerate(prepare()):
            if each == number:
                client = prepared
            can_write = can_write and _write(_path(folder, each), prepared)
    assert client is not None, "fewer clients were prepared than the run has"
    return client


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number}.safetensors"


def _read(kind: type[Client], path: Path) -> Client | None:
    try:
        data = path.read_bytes()
        check_whole(data)
        tensors = safetensors.torch.load(data)
        values = {
            name: json.loads(text) for name, text in metadata_of(data).items() if name != _SEAL
        }
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        fields: dict[str, Any] = kind.from_tensors(tensors) | values | lists
        return kind(**fields)
    except FileNotFoundError:
        return None
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        log.warning("%s is damaged and is made anew (%s)", path, error)
        return None


def _write(path: Path, client: Examples) -> bool:
    """Whether the client could be written."""
    values = {
        name: json.dumps(value)
        for name, value in vars(client).items()
        if not isinstance(value, Tensor | None)
    }
    tensors = {name: tensor.contiguous() for name, tensor in client.tensors().items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(
            path, sealed(safetensors.torch.save(tensors, values | {_SEAL: UNSEALED})), private=True
        )
    except OSError as error:
        log.warning(
            "prepared data cannot be kept in %s, every client process prepares its own: %s",
            path.parent,
            error,
        )
        return False
    return True
