"""Prepared clients on disk, so that a client process needs torch and safetensors alone."""

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from curvfed.tasks.atomic_file import remove_abandoned, replace

Client = TypeVar("Client")
Packed = tuple[dict[str, Tensor], dict[str, str]]
"""Named dense tensors and named strings, the two things a safetensors file holds."""

log = logging.getLogger("curvfed")

FORMAT = 2
"""Raise this number whenever preparation or the files' layout changes: older caches are then passed by."""


def cache_key(settings: dict[str, str | int | float], files: Sequence[Path]) -> str:
    """A folder name that changes with the settings, and with path, size or time of any raw file."""
    stats = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(json.dumps([FORMAT, settings, stats], sort_keys=True).encode()).hexdigest()[:32]


def read(
    folder: Path, partition_id: int, unpack: Callable[[dict[str, Tensor], dict[str, str]], Client]
) -> Client | None:
    """The prepared client, or None where it is absent or damaged: where `unpack` raises KeyError or ValueError."""
    path = _path(folder, partition_id)
    try:
        with safe_open(path, framework="pt") as stored:
            return unpack({name: stored.get_tensor(name) for name in stored.keys()}, stored.metadata() or {})  # noqa: SIM118
    except FileNotFoundError:
        return None
    except (SafetensorError, OSError, KeyError, ValueError, RuntimeError) as error:
        log.warning("%s is damaged and is made anew (%s)", path, error)
        return None


def write(folder: Path, clients: Iterable[Client], pack: Callable[[Client], Packed]) -> None:
    """Store the clients 0, 1, ...; each file appears whole or not at all.

    A folder that cannot be written is logged, not raised.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        remove_abandoned(folder)
        for partition_id, client in enumerate(clients):
            replace(_path(folder, partition_id), safetensors.torch.save(*pack(client)), private=True)
    except OSError as error:
        log.warning("prepared data cannot be kept in %s, every client process prepares its own: %s", folder, error)


def _path(folder: Path, partition_id: int) -> Path:
    return folder / f"{partition_id}.safetensors"
