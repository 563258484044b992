"""Closed-form calibration of a linear head (SphereFed's FFC, Dong et al., ECCV 2022): least squares from sums.

Clients send sums over their examples, one vector each; the server adds the vectors and solves once. Nothing but the sum
is used, so that any way to add vectors serves, one that hides the single ones too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

_SLACK = 1 + 1e-9  # for the rounding of sums in float64
_RANK = 1e-12  # eigenvalues of V up to this share of the largest are rounding
_UNIT_ROUNDOFF = float(np.finfo(np.float32).eps) / 2


class CalibrationError(ValueError):
    """Sums that no head can be made of; the text holds no value of the data."""


@dataclass(frozen=True, eq=False)
class Sums:
    """V = Σ z zᵀ and U = Σ z·one_hot(y)ᵀ over examples with features z in l dimensions and C classes (Eq. 9).

    Attributes
    ----------
    gram : array (l, l), float64
        V.
    targets : array (l, C), float64
        U.
    """

    gram: Array
    targets: Array

    @classmethod
    def zeros(cls, features: int, classes: int) -> "Sums":
        """Of no example."""
        return cls(np.zeros((features, features)), np.zeros((features, classes)))

    def add(self, features: ArrayLike, labels: ArrayLike) -> None:
        """Take in a batch.

        Parameters
        ----------
        features : array (b, l)
            NumPy, or a tensor on the CPU without gradient.
        labels : array of integers (b,)
            0 to C − 1.
        """
        z = np.asarray(features, np.float64)
        self.gram[:] += z.T @ z
        self.targets[:] += z.T @ np.eye(self.targets.shape[1])[np.asarray(labels)]

    def pack(self) -> Array:
        """The upper triangle of V by rows, then U by rows: (`length`,)."""
        return np.concatenate([pack_symmetric(self.gram), self.targets.ravel()])

    @classmethod
    def unpack(cls, vector: Array, features: int, classes: int, noise: float = 0.0) -> "Sums":
        """Inverse of `pack`; `noise` bounds the absolute error of the entries.

        Raises
        ------
        CalibrationError
            If the vector is of another length or type, not finite, or V has a negative entry on its diagonal.
        """
        check_vector(vector, length(features, classes))
        split = triangle(features)
        gram = unpack_symmetric(vector[:split], features)
        check_products(gram, noise)
        return cls(gram, vector[split:].reshape(features, classes))

    def check(self, examples: int, noise: float = 0.0) -> None:
        """Refuse sums that so many examples cannot have: |Σ zᵢ| over some of them is at most √(N Σ zᵢ²).

        Raises
        ------
        CalibrationError
        """
        squares = self.gram.diagonal()[:, None] + noise
        if (np.abs(self.targets) > np.sqrt(squares * examples) * _SLACK + noise).any():
            raise CalibrationError("sums that are too long for their sums of squares")


def check_products(products: Array, noise: float = 0.0) -> None:
    """Refuse a matrix that is no sum of z zᵀ: negative squares, or products longer than theirs (Cauchy and Schwarz).

    `noise` bounds the absolute error of the entries.

    Raises
    ------
    CalibrationError
    """
    squares = products.diagonal() + noise
    if (squares < 0).any():
        raise CalibrationError("sums with a negative sum of squares")
    lengths = np.sqrt(squares)
    if (np.abs(products) > np.outer(lengths, lengths) * _SLACK + noise).any():
        raise CalibrationError("sums of products that are larger than their squares allow")


def triangle(features: int) -> int:
    """Entries of a packed symmetric matrix."""
    return features * (features + 1) // 2


def length(features: int, classes: int) -> int:
    """Length of the packed sums."""
    return triangle(features) + features * classes


def pack_symmetric(matrix: Array) -> Array:
    """The upper triangle of (l, l) by rows."""
    return matrix[_upper(len(matrix))]


def unpack_symmetric(packed: Array, features: int) -> Array:
    """Inverse of `pack_symmetric`."""
    matrix = np.zeros((features, features))
    matrix[_upper(features)] = packed
    return matrix + np.triu(matrix, 1).T


@lru_cache(maxsize=4)
def _upper(features: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(features)  # takes longer than what is done with them


def check_vector(vector: Array, expected: int) -> None:
    """Refuse what is no finite float64 vector of the expected length.

    Raises
    ------
    CalibrationError
    """
    if vector.shape != (expected,) or vector.dtype != np.float64:
        raise CalibrationError(f"sums are {vector.dtype}{list(vector.shape)}, awaited was float64[{expected}]")
    if not np.isfinite(vector).all():
        raise CalibrationError("sums that are not finite")


def check_trace(gram: Array, examples: int) -> None:
    """Refuse a V that is not of so many features of unit length: trace(V) = N.

    The tolerance is that of features normalised in float32. A sum of l squares has, in any order, a relative error up to
    l·u (u = 2⁻²⁴), the norm half of that and u for the root, the quotient another u; so trace(V) is within N·(l + 4)·u.
    The zero vector has no direction and a squared length of 0: it counts as missing.

    Raises
    ------
    CalibrationError
    """
    if not abs(gram.trace() - examples) <= examples * (len(gram) + 4) * _UNIT_ROUNDOFF:
        raise CalibrationError("the trace of V is not the number of examples: some features are not of unit length")


def plain_sum(vectors: Mapping[int, Array]) -> Array:
    """The sum in the open, in ascending order of the partitions.

    Raises
    ------
    CalibrationError
        If there is none.
    """
    if not vectors:
        raise CalibrationError("no client sent sums")
    total = np.zeros_like(vectors[min(vectors)])
    for partition in sorted(vectors):
        total += vectors[partition]
    return total


def solve(gram: Array, targets: Array, ridge: float, noise: float = 0.0) -> Array:
    """The head of least squared error over the examples of V and U (Eqs. 10 and 12): the transpose of (V + ridge·I)⁻¹U.

    W is min Σ ‖W z − one_hot(y)‖² + ridge·‖W‖². Eq. 12 is this with ridge = λ; its Eq. 11, a mean over N examples and C
    classes, would have ridge = λNC.

    Parameters
    ----------
    gram : array (l, l)
        V.
    targets : array (l, C)
        U.
    ridge : float
        0 takes the pseudo-inverse of V, without eigenvalues up to 1e-12 of the largest; a head of least norm then.
    noise : float
        Bound on the absolute error of V's entries; eigenvalues up to l times that are taken for 0 too.

    Returns
    -------
    array (C, l), float64
        Classes without an example have rows of zeros. Relative error about eps·cond(V), which is the square of the
        features' condition number.

    Raises
    ------
    CalibrationError
        If V has no eigenvalues.
    """
    try:
        values, vectors = np.linalg.eigh(gram)
    except np.linalg.LinAlgError:
        raise CalibrationError("V has no eigenvalues: it is no sum of squares") from None
    if ridge > 0:
        inverse = 1 / (np.maximum(values, 0) + ridge)
    else:
        kept = values > max(_RANK * values[-1], len(gram) * noise)
        inverse = np.divide(1, values, out=np.zeros_like(values), where=kept)
    head: Array = (vectors * inverse @ (vectors.T @ targets)).T
    return head
