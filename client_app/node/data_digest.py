"""The digest of a node's own data that the server is told: keyed, so that nobody can confirm a
guess of the data by it."""

import os
import secrets
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from curvfed.client_app.node.configuration import is_real, state_root
from curvfed.strategies.base.errors import ConfigError
from curvfed.tasks.stored_files import (
    UNSEALED,
    DamagedError,
    check_whole,
    make_private,
    sealed,
    write_atomically,
)

SECRET = "digest.key"
"""The node's secret below its `state-path`, made once."""

_LENGTH = 32


def keyed(digest: str, partition: int, node_config: Mapping[str, Any]) -> str:
    """The digest under the node's secret: the same in all runs of this node, and comparable with no
    other's.

    In a simulation it stays as it is.

    Raises
    ------
    ConfigError
        If the secret can be neither read nor written, or is damaged.
    """
    if not is_real(node_config):
        return digest
    try:
        return blake2b(
            f"{partition} {digest}".encode(), key=_secret(node_config), digest_size=32
        ).hexdigest()
    except OSError as error:
        raise ConfigError(
            f"state-path: its file {SECRET} cannot be kept ({error.strerror}); needed is a folder"
            " to write to"
        ) from None


def is_of(told: str, digest: str, partition: int, node_config: Mapping[str, Any]) -> bool:
    """Whether `told` is the digest of these data, plain or under the node's secret if it is on this
    machine."""
    is_here = (state_root(node_config) / SECRET).exists()
    return told == digest or (is_here and told == keyed(digest, partition, node_config))


def _secret(node_config: Mapping[str, Any]) -> bytes:
    path = state_root(node_config) / SECRET
    if not path.exists():
        make_private(path.parent)
        made = path.with_name(f"{SECRET}-{os.getpid()}")
        write_atomically(
            made, sealed(UNSEALED.encode() + secrets.token_bytes(_LENGTH)), private=True
        )
        try:
            # unlike a rename it keeps the secret of another process that was faster
            os.link(made, path)
        except FileExistsError:
            pass
        finally:
            made.unlink()
    data = path.read_bytes()
    try:
        check_whole(data)
    except DamagedError as error:
        raise ConfigError(
            f"state-path: {error} ({SECRET}); restore it, or remove it: then this node's runs of"
            " before cannot be resumed"
        ) from None
    return data[-_LENGTH:]
