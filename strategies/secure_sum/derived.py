"""What both halves derive from keys and seeds: pairwise masks, own masks, commitments, the keys of letters."""

from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from curvfed.strategies.secure_sum import keys as crypto
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.masks import uniform
from curvfed.strategies.secure_sum.modular import Residues
from curvfed.strategies.secure_sum.session import Session
from curvfed.strategies.secure_sum.wire import Keys


def pair_mask(
    session: Session, secret: X25519PrivateKey, me: int, peer: int, my_key: bytes, peer_key: bytes
) -> Residues:
    """The mask of two clients, the same from either's secret: the one of the smaller partition adds it, the other not.

    Raises
    ------
    SecureSumError
        If the peer's key is degenerate.
    """
    (low, low_key), (high, high_key) = sorted([(me, my_key), (peer, peer_key)])
    key = crypto.agree(secret, peer_key, session.context("pair mask", low, high, low_key, high_key))
    if key is None:
        raise SecureSumError(f"partition {peer}: a degenerate mask key")
    return uniform(key, session.length, session.modulus)


def own_mask(session: Session, partition: int, seed: bytes) -> Residues:
    """The mask that a client adds for itself."""
    return uniform(crypto.derive(seed, session.context("own mask", partition)), session.length, session.modulus)


def commitment(session: Session, partition: int, seed: bytes) -> bytes:
    """SHA-256 that tells the seed of an own mask from any other, and nothing of it."""
    return sha256(session.context("commitment", partition) + seed).digest()


def letter_key(
    session: Session, secret: X25519PrivateKey, sender: tuple[int, Keys], receiver: tuple[int, Keys], *, sending: bool
) -> bytes:
    """The key that seals what one client sends another; the other direction has another key.

    All four public keys go into it, so that a letter opens only where both ends hold the same keys of both.

    Raises
    ------
    SecureSumError
        If the peer's key is degenerate.
    """
    peer, keys = receiver if sending else sender
    context = session.context("letter key", sender[0], receiver[0], sender[1].public, receiver[1].public)
    key = crypto.agree(secret, keys.seal_key, context)
    if key is None:
        raise SecureSumError(f"partition {peer}: a degenerate key for sealing")
    return key


def signed_text(session: Session, partition: int, keys: Keys) -> bytes:
    """What a client signs of its keys."""
    return session.context("keys", partition, keys.public)
