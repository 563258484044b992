"""A node's secrets: the key of the digests of its data, its signing key, and the public keys of its
roster."""

import os
import re
import secrets
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from curvfed.client_app.node import Node
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.stored_files import (
    UNSEALED,
    DamagedError,
    check_whole,
    make_private,
    sealed,
    write_atomically,
)

SECRET = "digest.key"
"""The file of the node's secret in its `state-path`, made once."""

_LENGTH = 32


def keyed(digest: str, node: Node) -> str:
    """The digest keyed by the node's secret: the same in all runs of this node, and not comparable
    with that of another node.

    In a simulation the digest stays as it is.

    Raises
    ------
    ConfigError
        If the secret can be neither read nor written, or is damaged.
    """
    if not node.is_real:
        return digest
    return _keyed(f"{node.partition} {digest}", node).hex()


def split_key(node: Node) -> bytes:
    """The key of the split of a real node's own records; raises as `keyed`."""
    return _keyed("split", node)


def _keyed(text: str, node: Node) -> bytes:
    try:
        return blake2b(text.encode(), key=_secret(node), digest_size=32).digest()
    except OSError as error:
        raise ConfigError(
            f"state-path: its file {SECRET} cannot be kept ({error.strerror}); needed is a folder"
            " to write to",
            key="state-path",
        ) from None


def has_secret(node: Node) -> bool:
    """Whether the node's secret is on this machine."""
    return (node.state_root / SECRET).exists()


def new_secret() -> bytes:
    """Random bytes for a node's secret."""
    return secrets.token_bytes(_LENGTH)


def _secret(node: Node) -> bytes:
    path = node.state_root / SECRET
    if not path.exists():
        make_private(path.parent)
        new = path.with_name(f"{SECRET}-{os.getpid()}")
        write_atomically(new, sealed(UNSEALED.encode() + new_secret()), private=True)
        try:
            # Unlike a rename, a link keeps the secret of another process that was faster.
            os.link(new, path)
        except FileExistsError:
            pass
        finally:
            new.unlink()
    data = path.read_bytes()
    try:
        check_whole(data)
    except DamagedError as error:
        raise ConfigError(
            f"state-path: {error} ({SECRET}); restore it, or remove it: then earlier runs of this"
            " node cannot be resumed, and its records are split anew",
            key="damaged-secret",
        ) from None
    return data[-_LENGTH:]


SIGNING_KEY = "signing-key"
ROSTER = "roster"
"""Keys of a node's configuration: the PEM file of its Ed25519 key, and the folder of all clients'
public keys, `<partition-id>.pem`."""


def read_signing_key(node: Node) -> Ed25519PrivateKey | None:
    """This node's key, if one is configured.

    Raises
    ------
    ConfigError
        If the file is missing or not an Ed25519 key, or if only one of key and roster is
        configured.
    """
    if (node.signing_key is None) != (node.roster is None):
        configured = ROSTER if node.signing_key is None else SIGNING_KEY
        raise ConfigError(
            f"this node has only {configured} of {SIGNING_KEY} and {ROSTER} in its"
            " --node-config; needed are both, or none",
            key="key-without-roster",
        )
    path = node.signing_key
    if path is None:
        return None
    if not path.is_file():
        raise ConfigError(
            f"{SIGNING_KEY} in this node's --node-config: there is no such file",
            key="no-signing-key",
        )
    key = _key_in(path, partial(load_pem_private_key, password=None))
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(
            f"{SIGNING_KEY} in this node's --node-config is not a PEM file of an Ed25519 key"
            " without password",
            key="not-ed25519",
        )
    return key


def read_roster(node: Node) -> dict[int, bytes] | None:
    """The public keys of all clients by partition, if they are configured.

    Raises
    ------
    ConfigError
        If the folder is empty, a file in it is not an Ed25519 key, or two are of one partition.
    """
    folder = node.roster
    if folder is None:
        return None
    files: dict[int, Path] = {}
    for path in sorted(folder.glob("*.pem")):
        if not re.fullmatch("[0-9]+", path.stem):
            continue
        other = files.setdefault(int(path.stem), path)
        if other is not path:
            raise ConfigError(
                f"{ROSTER}: {other.name} and {path.name} are keys of one partition; allowed is one"
                " file for each",
                key="two-keys",
            )
    if not files:
        raise ConfigError(
            f"{ROSTER} in this node's --node-config is not a folder with files <partition-id>.pem",
            key="empty-roster",
        )
    return {partition: _public(path) for partition, path in sorted(files.items())}


def _public(path: Path) -> bytes:
    key = _key_in(path, load_pem_public_key)
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(
            f"{path.name} in the {ROSTER} of this node's --node-config is not a public Ed25519 key",
            key="not-ed25519",
        )
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


def _key_in(path: Path, load: Callable[[bytes], Any]) -> Any:
    """The key in a file; None if it cannot be read."""
    try:
        return load(path.read_bytes())
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        return None
