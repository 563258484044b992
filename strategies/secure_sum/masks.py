"""The masks of a secure sum, and the encryption between two clients: the shares of a client's
secrets, and its payload."""

from collections.abc import Mapping
from hashlib import sha256

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.secure_sum import Session, crypto, shamir
from curvfed.strategies.secure_sum.fixed_point import Residues
from curvfed.strategies.secure_sum.messages import Basis, PublicKeys

_WORD = 1 << 64


def uniform(key: bytes, length: int, modulus: int) -> Residues:
    """The pseudorandom vector of a key, without bias.

    The stream is read in little-endian 64-bit words. Words at or above the largest multiple of q
    are rejected, so that the others are exactly uniform modulo q. At least half are accepted for
    every q < 2⁶³, nearly all for q < 2⁵⁶.

    Parameters
    ----------
    key : bytes, 32
        Must be used only for this vector: the stream starts at nonce and counter 0.
    length : int
    modulus : int
        q, odd.

    Returns
    -------
    array (length,), uint64
        Residues; the same on every machine.
    """
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    limit = _WORD // modulus * modulus  # below 2⁶⁴, because an odd q does not divide it
    pieces: list[Residues] = []
    missing = length
    while missing > 0:
        read = missing * _WORD // limit + 8
        words = np.frombuffer(stream.update(bytes(8 * read)), "<u8").astype(np.uint64, copy=False)
        accepted = words[words < np.uint64(limit)][:missing]
        # faster than NumPy's remainder
        pieces.append(accepted - accepted // np.uint64(modulus) * np.uint64(modulus))
        missing -= accepted.size
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def pairwise_mask(
    session: Session,
    secret: X25519PrivateKey,
    me: int,
    peer: int,
    my_key: bytes,
    peer_key: bytes,
    *,
    basis: Basis,
) -> Residues:
    """The mask of two clients, equal from either's secret. The client of the smaller partition adds
    it, the other subtracts it.

    The masks of two clients that were sent different parameters do not cancel each other: a server
    that sends some of them another model gets noise (attack: Pasquini et al., CCS 2022).

    Raises
    ------
    SecureSumError
        If the peer's key is degenerate.
    """
    (low, low_key), (high, high_key) = sorted([(me, my_key), (peer, peer_key)])
    context = session.context("pairwise mask", low, high, low_key, high_key, basis.digest)
    key = crypto.agree(secret, peer_key, context)
    if key is None:
        raise SecureSumError(f"partition {peer}: a degenerate mask key", key="degenerate-key")
    return uniform(key, session.length, session.modulus)


def self_mask(session: Session, partition: int, seed: bytes) -> Residues:
    """The mask that a client adds by itself."""
    return uniform(
        crypto.derive(seed, session.context("self mask", partition)),
        session.length,
        session.modulus,
    )


def commitment(session: Session, partition: int, seed: bytes) -> bytes:
    """SHA-256 of the seed of a self mask: it identifies the seed, and reveals nothing about it."""
    return sha256(session.context("commitment", partition) + seed).digest()


SHARES_BYTES = 2 * shamir.SHARE_BYTES
"""A share of the seed of the self mask, then one of the mask key's secret."""


def encrypt(
    session: Session,
    secret: X25519PrivateKey,
    keys: Mapping[int, PublicKeys],
    sender: int,
    receiver: int,
    nonce: bytes,
    plaintext: bytes,
) -> bytes:
    """Encrypt a text for another client, with the sender's secret.

    Raises
    ------
    SecureSumError
        If the receiver's key is degenerate.
    """
    key = _key(session, secret, keys, sender, receiver, peer=receiver)
    return crypto.encrypt(
        key, nonce, plaintext, session.context("encrypted shares", sender, receiver)
    )


def decrypt(
    session: Session,
    secret: X25519PrivateKey,
    keys: Mapping[int, PublicKeys],
    sender: int,
    receiver: int,
    ciphertext: bytes,
) -> bytes:
    """Decrypt a text of another client, with the receiver's secret.

    Raises
    ------
    SecureSumError
        If the sender's key is degenerate, or the ciphertext was changed or encrypted for another
        client, another session or other keys than the receiver has.
    """
    key = _key(session, secret, keys, sender, receiver, peer=sender)
    text = crypto.decrypt(key, ciphertext, session.context("encrypted shares", sender, receiver))
    if text is None:
        raise SecureSumError("what it sent cannot be decrypted", key="undecryptable")
    return text


def checked_shares(plaintext: bytes) -> bytes:
    """The two shares at the start of a neighbour's plaintext.

    Raises
    ------
    SecureSumError
        If they are too short or not elements of the field.
    """
    both = plaintext[:SHARES_BYTES]
    shamir.check_share(both[: shamir.SHARE_BYTES])
    shamir.check_share(both[shamir.SHARE_BYTES :])
    return both


def _key(
    session: Session,
    secret: X25519PrivateKey,
    keys: Mapping[int, PublicKeys],
    sender: int,
    receiver: int,
    peer: int,
) -> bytes:
    """The key of one direction between two clients.

    All four public keys go into it: a ciphertext can be decrypted only if both ends hold the same
    keys of both.
    """
    context = session.context(
        "encryption key", sender, receiver, keys[sender].both, keys[receiver].both
    )
    key = crypto.agree(secret, keys[peer].encryption_key, context)
    if key is None:
        raise SecureSumError(f"partition {peer}: a degenerate encryption key", key="degenerate-key")
    return key
