"""Linear classifiers by least squares, from sums over the clients (SphereFed, Eq. 10)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.calibration import Calibration, CalibrationError
from curvfed.strategies.base.moments import (
    SLACK,
    check_products,
    check_vector,
    pack_symmetric,
    triangle,
    triangle_variances,
    unpack_symmetric,
)
from curvfed.strategies.base.statistics import Arrays

_RANK = 1e-12  # eigenvalues of V up to this share of the largest are rounding errors
_UNIT_ROUNDOFF = float(np.finfo(np.float32).eps) / 2


@dataclass(frozen=True, eq=False)
class Sums:
    """V = Σ z zᵀ and U = Σ z·one_hot(y)ᵀ over examples with features z in l dimensions and C
    classes (Eq. 9).

    Attributes
    ----------
    gram : array (l, l), float64
        V.
    targets : array (l, C), float64
        U.
    """

    gram: Floats
    targets: Floats

    @classmethod
    def of(cls, features: ArrayLike, labels: ArrayLike, classes: int) -> "Sums":
        """The sums over examples with features (n, l) and labels (n,), 0 to C − 1."""
        z = np.asarray(features, np.float64)
        return cls(z.T @ z, z.T @ np.eye(classes)[np.asarray(labels)])

    def pack(self) -> Floats:
        """The upper triangle of V by rows, then U by rows: (`length`,)."""
        return np.concatenate([pack_symmetric(self.gram), self.targets.ravel()])

    @classmethod
    def unpack(cls, vector: Floats, features: int, classes: int, noise: float = 0.0) -> "Sums":
        """Inverse of `pack`; `noise` bounds the absolute error of the entries.

        Raises
        ------
        CalibrationError
            If the vector is of another length or type, not finite, or V has a negative entry on its
            diagonal.
        """
        check_vector(vector, length(features, classes))
        split = triangle(features)
        gram = unpack_symmetric(vector[:split], features)
        check_products(gram, noise)
        return cls(gram, vector[split:].reshape(features, classes))

    def check(self, examples: int, noise: float = 0.0) -> None:
        """Refuse sums that are impossible for this number of examples: |Σ zᵢ| over some of them is
        at most √(N Σ zᵢ²).

        Raises
        ------
        CalibrationError
        """
        squares = self.gram.diagonal()[:, None] + noise
        if (np.abs(self.targets) > np.sqrt(squares * examples) * SLACK + noise).any():
            raise CalibrationError(
                "sums that are too long for their sums of squares", key="sums-too-long"
            )


def length(features: int, classes: int) -> int:
    """Length of the packed sums."""
    return triangle(features) + features * classes


def check_trace(gram: Floats, examples: int) -> None:
    """Refuse a V that is not a sum over N features of unit length: trace(V) = N.

    The tolerance allows for features normalised in float32. A sum of l squares in any order has a
    relative error of at most l·u (u = 2⁻²⁴), its square root half of that plus u, and the quotient
    another u; so trace(V) is within N·(l + 4)·u. A zero vector cannot be normalised and makes the
    trace too small.

    Raises
    ------
    CalibrationError
    """
    if not abs(gram.trace() - examples) <= examples * (len(gram) + 4) * _UNIT_ROUNDOFF:
        raise CalibrationError(
            "the trace of V is not the number of examples: some features are not of unit length",
            key="trace",
        )


def solve(gram: Floats, targets: Floats, ridge: float, noise: float = 0.0) -> Floats:
    """The head with the least squared error (Eqs. 10 and 12): the transpose of (V + ridge·I)⁻¹U.

    W minimises Σ ‖W z − one_hot(y)‖² + ridge·‖W‖². Eq. 12 has ridge = λ; Eq. 11, a mean over N
    examples and C classes, corresponds to ridge = λNC.

    Parameters
    ----------
    gram : array (l, l)
        V.
    targets : array (l, C)
        U.
    ridge : float
        0 for the pseudo-inverse of V, without eigenvalues up to 1e-12 of the largest; gives the
        head of least norm.
    noise : float
        Bound on the absolute error of V's entries; eigenvalues up to l times the bound count as 0.

    Returns
    -------
    array (C, l), float64
        Rows of classes without examples are 0. Relative error about eps·cond(V); cond(V) is the
        square of the features' condition number.

    Raises
    ------
    CalibrationError
        If the eigenvalues of V do not converge.
    """
    try:
        values, vectors = np.linalg.eigh(gram)
    except np.linalg.LinAlgError:
        raise CalibrationError(
            "the eigenvalues of V cannot be computed: it is not a sum of squares", key="eigenvalues"
        ) from None
    if ridge > 0:
        inverse = 1 / (np.maximum(values, 0) + ridge)
    else:
        is_large = values > max(_RANK * values[-1], len(gram) * noise)
        inverse = np.divide(1, values, out=np.zeros_like(values), where=is_large)
    return (vectors * inverse @ (vectors.T @ targets)).T


class ClosedForm(Calibration):
    """The calibration of Eq. 10: least squares from the features to the one-hot labels."""

    keys: Any
    has_bias: ClassVar[bool] = False
    """Whether a last feature of 1 is added, with the bias as its weight."""

    @property
    def normalizes(self) -> bool:
        """Whether features have length 1."""
        return bool(self.keys.normalize)

    @property
    def ridge(self) -> float:
        """λ, which times the number of examples is added to the diagonal of V."""
        return float(self.keys.ridge)

    @classmethod
    def length(cls, features: int, classes: int) -> int:
        """Of V and U."""
        return length(features + cls.has_bias, classes)

    @classmethod
    def summed(cls, features: ArrayLike, labels: ArrayLike, classes: int) -> Floats:
        """V and U."""
        z = np.asarray(features, np.float64)
        if cls.has_bias:
            z = np.hstack([z, np.ones((len(z), 1))])
        return Sums.of(z, labels, classes).pack()

    def num_counted(self, features: Tensor) -> int:
        """Without examples of zero features: these lack a direction on the sphere."""
        if self.normalizes:
            return int((features.norm(dim=1) > 0.5).sum())
        return len(features)

    @property
    def bound(self) -> float:
        """1 for features of length 1."""
        return 1.0 if self.normalizes else super().bound

    @property
    def reach(self) -> float:
        """1 for features of length 1."""
        return 1.0 if self.normalizes else super().reach

    @property
    def square(self) -> float:
        """Maximum square of the length of an example's features, with the one for the bias."""
        return self.reach**2 + self.has_bias

    def variances(self, features: int, classes: int) -> Floats:
        """The products of an example are at most as long as `square`, its other entries as the root
        of it; either has half of the budget."""
        size = features + self.has_bias
        squares = 2 * self.square**2 * triangle_variances(size)
        return np.concatenate([squares, np.full(size * classes, 2 * self.square)])

    def private_classifier(self, total: Floats, head: Arrays, noise: float) -> Arrays:
        """With the largest eigenvalue of V's noise as a ridge, 2·√l standard deviations: smaller
        eigenvalues of V are noise. Negative ones count as 0. λ counts V's trace, because the sums
        lack the number of examples; both are equal for features of length 1."""
        classes, dim = head["weight"].shape
        size = dim + self.has_bias
        split = triangle(size)
        gram = unpack_symmetric(total[:split], size)
        targets = total[split:].reshape(size, classes)
        deviation = noise * self.square
        trace = max(gram.trace(), 0)
        ridge = self.ridge * trace + 2 * size**0.5 * deviation
        return self._parameters(solve(gram, targets, ridge), head)

    def check(
        self, vector: Floats, examples: int, features: int, classes: int, noise: float = 0.0
    ) -> Sums:
        """V and U, if they are possible for this number of examples."""
        sums = Sums.unpack(vector, features + self.has_bias, classes, noise)
        sums.check(examples, noise)
        if self.normalizes:
            check_trace(sums.gram, examples)
        return sums

    def classifier(self, total: Floats, examples: int, head: Arrays, noise: float) -> Arrays:
        """The weight, and the bias if there is one; the sphere's classifier lacks one."""
        classes, dim = head["weight"].shape
        sums = self.check(total, examples, dim, classes, noise)
        return self._parameters(solve(sums.gram, sums.targets, self.ridge * examples, noise), head)

    def _parameters(self, solution: Floats, head: Arrays) -> Arrays:
        """The classifier's parameters by name, from their columns."""
        dtype = head["weight"].dtype
        if not self.has_bias:
            return {"weight": solution.astype(dtype)}
        weight = solution[:, :-1].astype(dtype)
        bias = solution[:, -1].astype(dtype)
        return {"weight": weight, "bias": bias}


class AffineForm(ClosedForm):
    """The closed form for the linear classifier of any method; its bias is that of a feature of 1,
    and features have their own lengths. The sums of that feature are the sizes of the classes."""

    has_bias = True
    counts_classes = True
    normalizes = False
    ridge = 0.0

    def check(
        self, vector: Floats, examples: int, features: int, classes: int, noise: float = 0.0
    ) -> Sums:
        """Also the number of the features of 1."""
        sums = super().check(vector, examples, features, classes, noise)
        if abs(sums.gram[-1, -1] - examples) > noise:
            raise CalibrationError(
                "the sum of the ones is not the number of examples", key="number-of-examples"
            )
        return sums
