"""Keys: agreement of two clients by X25519, sealing between them, signatures.

Every derived key is bound to a context that names its purpose, session and both ends, so that no message of one place
can pass in another.
"""

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_BYTES = 32
SIGNATURE_BYTES = 64
NONCE_BYTES = 12
SEAL_BYTES = NONCE_BYTES + 16
"""What a sealed text is longer by."""


_PROBE = X25519PrivateKey.from_private_bytes(bytes(KEY_BYTES))


def public_key(secret: bytes) -> bytes:
    """X25519's public key of a secret one; both have 32 bytes, any will do for a secret."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def agree(secret: X25519PrivateKey, peer: bytes, context: bytes) -> bytes | None:
    """A key of 32 bytes that two share, by X25519 and HKDF-SHA256.

    None if the peer's public key is one of the few from which the same secret follows for everybody.
    """
    try:
        shared = secret.exchange(X25519PublicKey.from_public_bytes(peer))
    except ValueError:
        return None
    return derive(shared, context)


def is_degenerate(key: bytes) -> bool:
    """Whether the secret that follows from a public key is the same for everybody."""
    return agree(_PROBE, key, b"") is None


def derive(secret: bytes, context: bytes) -> bytes:
    """A key of 32 bytes for one purpose, by HKDF-SHA256."""
    return HKDF(hashes.SHA256(), KEY_BYTES, salt=None, info=context).derive(secret)


def seal(key: bytes, nonce: bytes, text: bytes, context: bytes) -> bytes:
    """Encrypt and authenticate text, and authenticate its context, by ChaCha20-Poly1305: nonce, then what is sealed."""
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, text, context)


def unseal(key: bytes, sealed: bytes, context: bytes) -> bytes | None:
    """The text, or None if it was sealed with another key, for another context, or changed."""
    try:
        return ChaCha20Poly1305(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], context)
    except (InvalidTag, ValueError):
        return None


def sign(key: Ed25519PrivateKey, text: bytes) -> bytes:
    """Ed25519, 64 bytes."""
    return key.sign(text)


def is_signed(key: bytes, signature: bytes, text: bytes) -> bool:
    """Whether the owner of a raw Ed25519 public key signed the text; False too where the key or signature is malformed."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True
