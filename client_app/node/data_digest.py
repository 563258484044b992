"""The digest of a node's own data, sent to the server: keyed, so that it confirms nobody's guess of
the data."""

import os
import secrets
from hashlib import blake2b

from curvfed.client_app.node.node import Node
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
    try:
        return blake2b(
            f"{node.partition} {digest}".encode(), key=_secret(node), digest_size=32
        ).hexdigest()
    except OSError as error:
        raise ConfigError(
            f"state-path: its file {SECRET} cannot be kept ({error.strerror}); needed is a folder"
            " to write to",
            key="state-path",
        ) from None


def matches(sent_digest: str, digest: str, node: Node) -> bool:
    """Whether `sent_digest` is `digest`, plain or keyed by the node's secret on this machine."""
    if sent_digest == digest:
        return True
    has_secret = (node.state_root / SECRET).exists()
    return has_secret and sent_digest == keyed(digest, node)


def _secret(node: Node) -> bytes:
    path = node.state_root / SECRET
    if not path.exists():
        make_private(path.parent)
        new = path.with_name(f"{SECRET}-{os.getpid()}")
        write_atomically(
            new, sealed(UNSEALED.encode() + secrets.token_bytes(_LENGTH)), private=True
        )
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
            " node cannot be resumed",
            key="damaged-secret",
        ) from None
    return data[-_LENGTH:]
