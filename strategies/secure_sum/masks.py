"""Masks: a ChaCha20 stream turned into a vector that is uniform modulo q, without bias."""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from curvfed.strategies.secure_sum.modular import Residues

_WORD = 1 << 64


def uniform(key: bytes, length: int, modulus: int) -> Residues:
    """The vector that a key stands for.

    The stream is read in little-endian 64-bit words. Those from the largest multiple of q on are passed over, so that
    the others are exactly uniform modulo q; at least half are kept for every q < 2⁶³, nearly all for q < 2⁵⁶.

    Parameters
    ----------
    key : bytes, 32
        For this vector alone: the stream starts at nonce and counter 0.
    length : int
    modulus : int
        q, odd.

    Returns
    -------
    array (length,), uint64
        Residues; the same on every machine.
    """
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    limit = _WORD // modulus * modulus  # below 2⁶⁴, for an odd q does not divide it
    found: list[Residues] = []
    missing = length
    while missing > 0:
        read = missing * _WORD // limit + 8
        words = np.frombuffer(stream.update(bytes(8 * read)), "<u8").astype(np.uint64, copy=False)
        kept = words[words < np.uint64(limit)][:missing]
        found.append(kept - kept // np.uint64(modulus) * np.uint64(modulus))  # faster than NumPy's remainder
        missing -= kept.size
    return found[0] if len(found) == 1 else np.concatenate(found)
