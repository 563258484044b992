"""Cryptographic primitives: key agreement (X25519), key derivation, authenticated encryption,
signature checks.

Every derived key is bound to a context: its purpose, the session and its clients. A message is
therefore useless in another context.
"""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_BYTES = 32
SIGNATURE_BYTES = 64
NONCE_BYTES = 12


def public_key(secret: bytes) -> bytes:
    """X25519's public key for a secret key. Both have 32 bytes; any 32 bytes are a secret key."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def agree(secret: X25519PrivateKey, peer: bytes, context: bytes) -> bytes | None:
    """A key of 32 bytes that two clients share, by X25519 and HKDF-SHA256.

    None if the peer's public key is degenerate, so that everybody derives the same secret: a point
    of order 1, 2, 4 or 8 on Curve25519 or its twist (Bernstein 2006).
    """
    try:
        shared = secret.exchange(X25519PublicKey.from_public_bytes(peer))
    except ValueError:
        return None
    return derive(shared, context)


def derive(secret: bytes, context: bytes) -> bytes:
    """A key of 32 bytes for one purpose, by HKDF-SHA256."""
    return HKDF(hashes.SHA256(), KEY_BYTES, salt=None, info=context).derive(secret)


def encrypt(key: bytes, nonce: bytes, plaintext: bytes, context: bytes) -> bytes:
    """Encrypt a text, and authenticate it and its context, by ChaCha20-Poly1305. The result begins
    with the nonce."""
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, plaintext, context)


def decrypt(key: bytes, ciphertext: bytes, context: bytes) -> bytes | None:
    """The plaintext; None if key or context differ, or the ciphertext was changed."""
    try:
        return ChaCha20Poly1305(key).decrypt(
            ciphertext[:NONCE_BYTES], ciphertext[NONCE_BYTES:], context
        )
    except (InvalidTag, ValueError):
        return None


@lru_cache(maxsize=4096)  # in one process, many clients check the same signatures
def is_signed(key: bytes, signature: bytes, text: bytes) -> bool:
    """Whether the owner of a raw Ed25519 public key signed the text. False also for a malformed key
    or signature."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


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
