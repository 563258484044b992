"""Vectors of residues modulo q < 2⁶³, as uint64: sums and differences that cannot overflow."""

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.secure_sum.errors import SecureSumError

Residues = NDArray[np.uint64]

MODULUS_BITS = 63


def add(a: Residues, b: Residues, modulus: int) -> Residues:
    """a + b mod q. The plain sum is below 2⁶⁴; if it is below q, then sum − q wraps round to a
    larger number."""
    total = a + b
    return np.asarray(np.minimum(total, total - np.uint64(modulus)))


def subtract(a: Residues, b: Residues, modulus: int) -> Residues:
    """a − b mod q. If b > a, the plain difference wraps round to a large number, and adding q makes
    it smaller again."""
    difference = a - b
    return np.asarray(np.minimum(difference, difference + np.uint64(modulus)))


def check_modulus(modulus: int) -> None:
    """Refuse a modulus that is not an odd number from 3 to 2⁶³ − 1.

    Raises
    ------
    SecureSumError
    """
    if not (3 <= modulus < 1 << MODULUS_BITS and modulus % 2):
        raise SecureSumError(
            f"modulus {modulus}: it must be odd, from 3 to 2^{MODULUS_BITS} - 1", key="modulus"
        )


def check_residues(vector: object, length: int, modulus: int) -> Residues:
    """Return the vector if it is a uint64 array (length,) with entries below q.

    Raises
    ------
    SecureSumError
        Says what is wrong, but shows no entry.
    """
    if not isinstance(vector, np.ndarray) or vector.dtype != np.uint64:
        kind = vector.dtype if isinstance(vector, np.ndarray) else type(vector).__name__
        raise SecureSumError(f"a vector of {kind}; it must be an array of uint64", key="vector")
    if vector.shape != (length,):
        raise SecureSumError(
            f"a vector of shape {vector.shape}; it must be ({length},)", key="vector"
        )
    if int(vector.max()) >= modulus:
        raise SecureSumError(
            f"a vector with entries that are not below the modulus {modulus}", key="vector"
        )
    return vector
