"""The masks of a secure sum: pseudorandom vectors, one for each pair of members."""

from collections.abc import Mapping

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from curvfed.strategies.secure_sum import Session, crypto
from curvfed.strategies.secure_sum.fixed_point import Residues, add, subtract
from curvfed.strategies.secure_sum.messages import Basis

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


def pairwise_mask(session: Session, secret: bytes, basis: Basis) -> Residues:
    """The mask of two members in one sum, from their shared secret.

    Two members that compute from different parameters, configurations or states have different
    masks, which do not cancel each other: a server that sends some members another model gets noise
    (attack: Pasquini et al., CCS 2022).
    """
    key = crypto.derive(secret, session.context("pairwise mask", basis.digest))
    return uniform(key, session.length, session.modulus)


def mask(
    vector: Residues, session: Session, secrets: Mapping[int, bytes], me: int, basis: Basis
) -> Residues:
    """A member's vector with the masks of all pairs that it is in. The smaller partition of a pair
    adds their mask, and the other subtracts it.

    Parameters
    ----------
    vector : uint64 array (length,)
    session : Session
    secrets : mapping of int to bytes
        The secret that the member shares with each other one, by partition.
    me : int
        The member's partition.
    basis : Basis
    """
    total = vector
    for peer, secret in sorted(secrets.items()):
        operation = add if me < peer else subtract
        total = operation(total, pairwise_mask(session, secret, basis), session.modulus)
    return total
