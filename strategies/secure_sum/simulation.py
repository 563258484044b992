"""Signing keys of simulated clients. Everybody can derive them; they let a simulation take the
steps of a real sum."""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@lru_cache(maxsize=4096)
def signing_key(partition: int) -> Ed25519PrivateKey:
    """The signing key of a simulated client. It protects nothing."""
    return Ed25519PrivateKey.from_private_bytes(
        sha256(f"curvfed simulated client {partition}".encode()).digest()
    )


def roster(partitions: Iterable[int]) -> dict[int, bytes]:
    """Raw public signing keys of simulated clients."""
    return {partition: _public(partition) for partition in partitions}


@lru_cache(maxsize=4096)
def _public(partition: int) -> bytes:
    return signing_key(partition).public_key().public_bytes_raw()
