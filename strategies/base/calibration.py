"""Calibration: the server computes a new classifier from sums over the clients' training features.

Each client sends one vector. The server uses only the sum of the vectors, which can also be
computed by a secure sum.
"""

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curvfed.strategies.base.named_arrays import HEAD
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import Arrays, in_large_classes
from curvfed.tasks.errors import SafeError

Array = NDArray[np.float64]

SLACK = 1 + 1e-9
"""Factor that allows for rounding of sums in float64."""


class CalibrationError(SafeError, ValueError):
    """Sums from which no classifier can be computed; the text contains no values of the data."""

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

    def pack(self) -> Array:
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

    def __init__(self, keys: Any, run: RunKeys) -> None:
        self.keys = keys
        self.run = run

    @property
    def bound(self) -> float:
        """See the class."""
        return 0.0

    def of_client(self, model: Any, task: Any, min_class_size: int) -> tuple[Array, int]:
        """A client's sums over the classifier inputs of its training images, without those of
        smaller classes, and the number of images that are counted.

        Raises
        ------
        DataError
            If the data are not images.
        """
        total, features = self.collect(model, task, min_class_size)
        return total.pack(), self.num_counted(features)

    @classmethod
    def collect(cls, model: Any, task: Any, min_class_size: int = 1) -> tuple[Any, Any]:
        """The sums over the training images, without those of smaller classes, and the features
        (n, l)."""
        from curvfed.strategies.base.classifier_inputs import classifier_inputs

        features, labels = classifier_inputs(model, task)
        is_large = in_large_classes(labels.numpy(), min_class_size)
        features = features[is_large]
        classes, dim = model.get_parameter(f"{HEAD}weight").shape
        total = cls.sums.zeros(dim, classes)
        total.add(features, labels[is_large])
        return total, features

    def num_counted(self, features: Any) -> int:
        """The number of images with these features that are counted; by default all."""
        return len(features)

    @abstractmethod
    def check(self, vector: Array, examples: int, features: int, classes: int) -> object:
        """Refuse a vector that cannot be sums over this number of examples.

        Raises
        ------
        CalibrationError
        """

    @abstractmethod
    def classifier(self, total: Array, examples: int, head: Arrays, noise: float) -> Arrays:
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


def check_products(products: Array, noise: float = 0.0) -> None:
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


def triangle(features: int) -> int:
    """Number of entries of a packed symmetric matrix."""
    return features * (features + 1) // 2


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
    return np.triu_indices(features)  # cached: takes longer than using them


def check_vector(vector: Array, expected: int) -> None:
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
