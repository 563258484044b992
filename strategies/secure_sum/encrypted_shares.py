"""Encryption between two clients: the shares of a client's secrets, and its payload."""

from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from curvfed.strategies.secure_sum import crypto, shamir
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.messages import PublicKeys
from curvfed.strategies.secure_sum.session import Session

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
