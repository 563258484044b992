"""Prepared clients on disk, so that a client process does not read and split the whole data set."""

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

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
"""Raise this number if the preparation or the layout of the files changes: older files are then
ignored."""

_SEAL = "file digest"
"""Name of the file's digest among the values; `digest` is the digest of the data."""


def cache_key(settings: Mapping[str, Any], files: Sequence[Path]) -> str:
    """A folder name that changes with the settings and with each raw file (see `file_stamps`)."""
    stamps = file_stamps([path.resolve() for path in files])
    text = json.dumps([FORMAT, dict(settings), stamps], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def load(
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
