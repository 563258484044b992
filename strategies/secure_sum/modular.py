"""Vectors of residues modulo q < 2⁶³, as uint64: sums and differences that cannot overflow."""

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.secure_sum.errors import SecureSumError

Residues = NDArray[np.uint64]

MODULUS_BITS = 63


def add(a: Residues, b: Residues, modulus: int) -> Residues:
    """a + b mod q of residues; the sum is below 2⁶⁴, and where it is below q, sum − q wraps round to more than it."""
    total = a + b
    reduced: Residues = np.minimum(total, total - np.uint64(modulus))
    return reduced


def subtract(a: Residues, b: Residues, modulus: int) -> Residues:
    """a − b mod q of residues; where b > a the difference has wrapped round, and adding q brings it back below itself."""
    difference = a - b
    reduced: Residues = np.minimum(difference, difference + np.uint64(modulus))
    return reduced


def check_modulus(modulus: int) -> None:
    """Refuse what is no odd number from 3 to 2⁶³ − 1.

    Raises
    ------
    SecureSumError
    """
    if not (3 <= modulus < 1 << MODULUS_BITS and modulus % 2):
        raise SecureSumError(f"modulus {modulus}: it must be odd, from 3 to 2^{MODULUS_BITS} - 1")


def check_residues(vector: object, length: int, modulus: int) -> Residues:
    """The vector if it is an array (length,) of uint64 below q.

    Raises
    ------
    SecureSumError
        With what is wrong, but no entry.
    """
    if not isinstance(vector, np.ndarray) or vector.dtype != np.uint64:
        kind = vector.dtype if isinstance(vector, np.ndarray) else type(vector).__name__
        raise SecureSumError(f"a vector of {kind}; it must be an array of uint64")
    if vector.shape != (length,):
        raise SecureSumError(f"a vector of shape {vector.shape}; it must be ({length},)")
    if int(vector.max()) >= modulus:
        raise SecureSumError(f"a vector with entries that are not below the modulus {modulus}")
    return vector
