"""Calibration: the server computes a new classifier from sums over the clients' training features.

Each client sends one vector. The server uses only the sum of the vectors, which can also be
computed by a secure sum.
"""

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from curvfed.geometry.arrays import Floats, Indices
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import Privacy
from curvfed.strategies.base.statistics import HEAD, Arrays, Leaving
from curvfed.tasks.errors import SafeError

SLACK = 1 + 1e-9
"""Factor that allows for rounding of sums in float64."""

GRID = 2.0**-12
"""Step of features in differentially private sums: sums of their products are exact in float64."""

BATCH = 64
"""Images per batch of features in such sums."""

MAX_REACH = 16.0
"""Maximum length of such features: 2^20 products of them are below 2^53 steps."""


class CalibrationError(SafeError, ValueError):
    """Sums that do not give a classifier; the text contains no values of the data."""

    area = "calibration"


class FeatureSums(Protocol):
    """Sums over examples with features in l dimensions and C classes."""

    @classmethod
    def zeros(cls, features: int, classes: int) -> Self:
        """The sums over no examples."""
        ...

    def add(self, features: ArrayLike, labels: ArrayLike) -> None:
        """Add a batch: features (b, l), an array or a tensor on the CPU without gradient; labels
        (b,), 0 to C - 1."""

    def pack(self) -> Floats:
        """All sums in one vector."""
        ...


class Calibration(ABC):
    """How a method computes the new classifier; used at the server and at the clients.

    Parameters
    ----------
    keys : Table
        The method's own keys.
    run : RunKeys
        The keys of every run, with their defaults resolved.
    privacy : Privacy
        With a unit, the sums are differentially private.

    Attributes
    ----------
    phase : str
        "calibrate" or "ccvr": the phase that asks the clients for their sums.
    sums : type of FeatureSums
        The sums that a client computes.
    counts_classes : bool
        Whether the sums contain the sizes of classes, which leave a client only as statistics, or
        in a secure sum.
    bound : float
        Maximum that one example adds to an entry of the sums; 0 if `secure.clip` is the bound.
    """

    phase: str
    sums: type[FeatureSums]
    counts_classes = False

    def __init__(self, keys: Any, run: RunKeys, privacy: Privacy) -> None:
        self.keys = keys
        self.run = run
        self.is_private = privacy.unit != "none"
        self.max_length = privacy.clip

    @property
    def bound(self) -> float:
        """See the class."""
        return max(1.0, self.reach**2) if self.is_private else 0.0

    @property
    def reach(self) -> float:
        """Maximum length of features in differentially private sums; longer ones are shortened to
        it."""
        return self.max_length

    def of_client(self, model: Any, task: Any, leaving: Leaving) -> tuple[Floats, int]:
        """A client's sums over the classifier inputs of its training images, without those of
        classes that stay, and the number of images that are counted.

        Differentially private sums have all classes, since an image must not add or remove others,
        and say alone how many images they count: 0 here.

        Raises
        ------
        DataError
            If the data are not images.
        """
        if self.is_private:
            total, _ = self.collect(model, task, reach=self.reach)
            return total.pack(), 0
        total, features = self.collect(model, task, leaving)
        return total.pack(), self.num_counted(features)

    @classmethod
    def collect(
        cls, model: Any, task: Any, leaving: Leaving | None = None, reach: float | None = None
    ) -> tuple[Any, Any]:
        """The sums over the training images, without those of classes that stay, and the features
        (n, l), shortened to `reach`."""
        from curvfed.tasks.images.client_task import classifier_inputs

        features, labels = classifier_inputs(model, task, 0 if reach is None else BATCH)
        leaves = (leaving or Leaving()).examples(labels.numpy())
        features = features[leaves]
        classes, dim = model.get_parameter(f"{HEAD}weight").shape
        total = cls.sums.zeros(dim, classes)
        total.add(features if reach is None else on_grid(features, reach), labels[leaves])
        return total, features

    @abstractmethod
    def variances(self, features: int, classes: int) -> Floats:
        """Variances of the noise on the entries of differentially private sums, for a noise
        multiplier of 1: an example's entries, squared and divided by them, add up to at most 1.
        """

    @abstractmethod
    def private_classifier(self, total: Floats, head: Arrays, noise: float) -> Arrays:
        """`classifier` from differentially private sums.

        Parameters
        ----------
        noise : float
            The root of the factor of `variances` in the total's noise.

        Raises
        ------
        CalibrationError
            If the sums are lost in the noise.
        """

    def num_counted(self, features: Any) -> int:
        """The number of images with these features that are counted; by default all."""
        return len(features)

    @abstractmethod
    def check(self, vector: Floats, examples: int, features: int, classes: int) -> object:
        """Refuse a vector that cannot be sums over this number of examples.

        Raises
        ------
        CalibrationError
        """

    @abstractmethod
    def classifier(self, total: Floats, examples: int, head: Arrays, noise: float) -> Arrays:
        """The classifier's new parameters, by name.

        Parameters
        ----------
        total : array
            The sum of the clients' vectors.
        head : dict of str to array
            The present parameters: "weight" (C, l), and "bias" (C,) if there is one.
        noise : float
            Bound on the absolute error of the total's entries, from the fixed-point numbers of a
            secure sum.

        Raises
        ------
        CalibrationError
            If the total cannot be sums over this number of examples.
        """


def check_products(products: Floats, noise: float = 0.0) -> None:
    """Refuse a matrix that is not a sum of z zᵀ: negative squares, or products that violate
    Cauchy-Schwarz.

    `noise` is a bound on the absolute error of the entries.

    Raises
    ------
    CalibrationError
    """
    squares = products.diagonal() + noise
    if (squares < 0).any():
        raise CalibrationError("sums with a negative sum of squares", key="negative-squares")
    lengths = np.sqrt(squares)
    if (np.abs(products) > np.outer(lengths, lengths) * SLACK + noise).any():
        raise CalibrationError(
            "sums of products that are larger than their squares allow", key="products-too-large"
        )


def on_grid(features: ArrayLike, reach: float) -> Floats:
    """Features (n, l) shortened to a length of at most `reach`, and each entry to a multiple of
    `GRID`, towards 0, so that nothing grows. The sums of their products are then exact: an example
    changes them by its own products alone, in whatever order they are added. An entry that is not a
    number counts as 0: an example must not decide whether the sums are finite."""
    numbers = np.nan_to_num(np.asarray(features, np.float64), posinf=np.inf, neginf=-np.inf)
    z = np.clip(numbers, -1e100, 1e100)  # with finite squares
    lengths = np.linalg.norm(z, axis=1, keepdims=True)
    # The last factor is more than the rounding of all the lengths and squares.
    shrinkage = reach / np.maximum(lengths, 1e-300) * (1 - 2.0**-40)
    short = z * np.minimum(1, shrinkage)
    return np.trunc(short / GRID) * GRID


def triangle_variances(features: int) -> Floats:
    """Variances for the products of an example of length 1, packed: 1 for squares, 1/2 for the
    others, which each stand for two entries of the matrix."""
    return pack_symmetric((1 + np.eye(features)) / 2)


def triangle(features: int) -> int:
    """Number of entries of a packed symmetric matrix."""
    return features * (features + 1) // 2


def pack_symmetric(matrix: Floats) -> Floats:
    """The upper triangle of (l, l) by rows."""
    return matrix[_upper(len(matrix))]


def unpack_symmetric(packed: Floats, features: int) -> Floats:
    """Inverse of `pack_symmetric`."""
    matrix = np.zeros((features, features))
    matrix[_upper(features)] = packed
    return matrix + np.triu(matrix, 1).T


@lru_cache(maxsize=4)
def _upper(features: int) -> tuple[Indices, Indices]:
    return np.triu_indices(features)  # cached: takes longer than using them


def check_vector(vector: Floats, expected: int) -> None:
    """Refuse anything but a finite float64 vector of the expected length.

    Raises
    ------
    CalibrationError
    """
    if vector.shape != (expected,) or vector.dtype != np.float64:
        raise CalibrationError(
            f"sums are {vector.dtype}{list(vector.shape)}, expected float64[{expected}]",
            key="shape",
        )
    if not np.isfinite(vector).all():
        raise CalibrationError("sums that are not finite", key="not-finite")


FAINT = 3.0
"""A class with a number below this many standard deviations of its noise counts as absent."""


def moment_variances(features: int, classes: int, reach: float) -> Floats:
    """Variances of the noise on (classes, 1 + l + l(l + 1)/2) moments, for a noise multiplier of 1.

    A vector of length `reach` adds 1, its entries and their products to one class; each of the
    three has a third of the budget.
    """
    products = reach**4 * triangle_variances(features)
    row = np.concatenate([[1.0], np.full(features, reach**2), products])
    return np.tile(3 * row, (classes, 1))


def pool_products(moments: Floats, features: int) -> Floats:
    """The moments with the products of all classes in the row of the first, and none elsewhere."""
    pooled = moments.copy()
    split = 1 + features
    pooled[:, split:] = 0
    pooled[0, split:] = moments[:, split:].sum(axis=0)
    return pooled


def plausible_moments(
    noisy: Floats, features: int, noise: float, reach: float, pooled: bool = False
) -> Floats:
    """Moments that vectors of length `reach` can have, near the noisy ones.

    Numbers are whole, and 0 for classes that are lost in the noise; means are at most `reach` long;
    the eigenvalues of a scatter matrix are at least the largest of its noise, 2·√l standard
    deviations, since smaller ones are noise.

    Parameters
    ----------
    noisy : array (C, 1 + l + l(l + 1)/2)
    noise : float
        The root of the factor of `moment_variances` in the noise.
    pooled : bool
        Whether they are of `pool_products`; then all classes get the same covariance.
    """
    numbers = np.rint(noisy[:, 0])
    numbers[numbers < max(1.0, FAINT * noise * 3**0.5)] = 0
    means = noisy[:, 1 : 1 + features] / np.maximum(numbers, 1)[:, None]
    lengths = np.linalg.norm(means, axis=1)
    means *= np.minimum(1, reach / np.maximum(lengths, 1e-300))[:, None]
    means[numbers == 0] = 0
    products = numbers[:, None, None] * means[:, :, None] * means[:, None]
    raw = np.stack([unpack_symmetric(row, features) for row in noisy[:, 1 + features :]])
    floor = 2 * (features * 1.5) ** 0.5 * noise * reach**2
    if pooled:
        scatter = at_least(raw[0] - products.sum(axis=0), floor)
        scatters = numbers[:, None, None] * scatter / max(numbers.sum(), 1)
    else:
        scatters = np.stack([at_least(matrix, floor) for matrix in raw - products])
        scatters[numbers == 0] = 0
    packed = np.stack([pack_symmetric(matrix) for matrix in scatters + products])
    return np.concatenate([numbers[:, None], numbers[:, None] * means, packed], axis=1)


def at_least(matrix: Floats, floor: float) -> Floats:
    """The symmetric matrix with its eigenvalues raised to the floor."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.maximum(values, floor) @ vectors.T
