"""Real numbers as residues modulo a prime: clipped, in fixed point, so that sums cannot
overflow."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curvfed.geometry.arrays import Floats, Integers
from curvfed.strategies.errors import SecureSumError

Residues = NDArray[np.uint64]

MODULUS_BITS = 63


def add(a: Residues, b: Residues, modulus: int) -> Residues:
    """a + b mod q. The plain sum is below 2⁶⁴; if it is below q, then sum − q wraps round to a
    larger number."""
    total = a + b
    return np.minimum(total, total - np.uint64(modulus))


def subtract(a: Residues, b: Residues, modulus: int) -> Residues:
    """a − b mod q. If b > a, the plain difference wraps round to a large number, and adding q makes
    it smaller again."""
    difference = a - b
    return np.minimum(difference, difference + np.uint64(modulus))


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
        Names the fault, but shows no entry.
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


SUM_PRIME = 2**61 - 1
"""Modulus of sums of fixed-point numbers."""


@dataclass(frozen=True)
class FixedPoint:
    """Encodes x as round(x·scale) mod q, for sums of a known number of terms.

    The scale is the largest power of two with terms·(limit·scale + 1) < q/2. Every sum then lies in
    (−q/2, q/2).

    Attributes
    ----------
    limit : float
        Maximum absolute value. Larger values are clipped to it.
    terms : int
        Maximum number of vectors in a sum.
    modulus : int
        q, odd and below 2⁶³.

    Raises
    ------
    SecureSumError
        If a value is out of range, or the modulus is too small for so many terms.
    """

    limit: float
    terms: int
    modulus: int

    def __post_init__(self) -> None:
        check_modulus(self.modulus)
        if not (math.isfinite(self.limit) and self.limit > 0):
            raise SecureSumError(
                f"fixed point: limit {self.limit}; it must be positive and finite", key="limit"
            )
        if self.terms < 1:
            raise SecureSumError(
                f"fixed point: {self.terms} terms; there must be at least one", key="terms"
            )
        if 2 * self.terms >= self.modulus:
            raise SecureSumError(
                f"fixed point: the modulus {self.modulus} is too small for a sum of {self.terms}"
                " terms",
                key="modulus",
            )
        exponent = self._exponent()
        if not -1000 <= exponent <= 1000:
            raise SecureSumError(
                f"fixed point: limit {self.limit} needs a scale of 2^{exponent}, beyond float64",
                key="limit",
            )

    @property
    def scale(self) -> float:
        """Steps per unit."""
        return math.ldexp(1.0, self._exponent())

    @property
    def error(self) -> float:
        """Bound on the absolute error of a sum of values within the limit: half a step per term."""
        return self.terms / (2 * self.scale)

    def encode(self, values: ArrayLike) -> Residues:
        """Clip every number to the limit and round it to the nearest step.

        Parameters
        ----------
        values : array (n,)

        Returns
        -------
        array (n,), uint64
            Residues modulo q.

        Raises
        ------
        SecureSumError
            If a number is not finite.
        """
        numbers = np.asarray(values, dtype=np.float64)
        if not np.isfinite(numbers).all():
            raise SecureSumError(
                "fixed point: a vector with numbers that are not finite", key="not-finite"
            )
        # Only rint rounds: the scale is a power of two, and |steps| < 2⁶².
        steps = np.rint(np.clip(numbers, -self.limit, self.limit) * self.scale).astype(np.int64)
        return np.where(steps < 0, steps + self.modulus, steps).astype(np.uint64)

    def decode(self, total: Residues) -> Floats:
        """The sum of the numbers from the sum of their residues.

        Parameters
        ----------
        total : array (n,), uint64
            Residues modulo q.

        Returns
        -------
        array (n,), float64
            Its error is at most `error`, plus 2⁻⁵³ of the value, from rounding to float64.
        """
        steps = total.astype(np.int64)
        signed: Integers = np.where(steps > self.modulus // 2, steps - self.modulus, steps)
        return signed.astype(np.float64) / self.scale

    def _exponent(self) -> int:
        """The largest e with terms·(limit·2ᵉ + 1) < q/2, in exact arithmetic."""
        # 2ᵉ is below this
        bound = (Fraction(self.modulus, 2 * self.terms) - 1) / Fraction(self.limit)
        exponent = bound.numerator.bit_length() - bound.denominator.bit_length()
        while Fraction(2) ** exponent >= bound:
            exponent -= 1
        return exponent
