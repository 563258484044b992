"""Calibration: the server computes a new classifier from sums over the clients' training features.

Each client sends one vector. The server uses only the sum of the vectors, which can also be
computed by a secure sum.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.guard import Guard
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import HEAD, Arrays, Leaving
from curvfed.tasks.errors import SafeError

GRID = 2.0**-12
"""Step of features in differentially private sums: sums of their products are exact in float64."""

BATCH = 64
"""Images per batch of features in such sums."""

MAX_REACH = 16.0
"""Maximum length of such features: 2^20 products of them are below 2^53 steps."""


class CalibrationError(SafeError, ValueError):
    """Sums that do not give a classifier; the text contains no values of the data."""

    area = "calibration"


class Calibration(ABC):
    """How a method computes the new classifier; used at the server and at the clients.

    Parameters
    ----------
    keys : Table
        The method's own keys.
    config : RunKeys
        The keys of every run, with their defaults resolved.
    guard : Guard
        If it hides something, the sums are differentially private.

    Attributes
    ----------
    counts_classes : bool
        Whether the sums contain the sizes of classes, which leave a client only as statistics, or
        in a secure sum.
    bound : float
        Maximum that one example adds to an entry of the sums; 0 if `secure.clip` is the bound.
    """

    counts_classes = False

    def __init__(self, keys: Any, config: RunKeys, guard: Guard) -> None:
        self.keys = keys
        self.config = config
        self.is_private = guard.is_private
        self.max_length = guard.clip

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
            return total, 0
        total, features = self.collect(model, task, leaving)
        return total, self.num_counted(features)

    @classmethod
    def collect(
        cls, model: Any, task: Any, leaving: Leaving | None = None, reach: float | None = None
    ) -> tuple[Floats, Any]:
        """The sums over the training images, without those of classes that stay, and the features
        (n, l), shortened to `reach`."""
        from curvfed.tasks.images.client_task import classifier_inputs

        features, labels = classifier_inputs(model, task, 0 if reach is None else BATCH)
        leaves = (leaving or Leaving()).examples(labels.numpy())
        features = features[leaves]
        classes = len(model.get_parameter(f"{HEAD}weight"))
        inputs = features if reach is None else on_grid(features, reach)
        return cls.summed(inputs, labels[leaves], classes), features

    @classmethod
    @abstractmethod
    def length(cls, features: int, classes: int) -> int:
        """Length of a client's vector."""

    @classmethod
    @abstractmethod
    def summed(cls, features: ArrayLike, labels: ArrayLike, classes: int) -> Floats:
        """The sums over examples with features (n, l), an array or a tensor on the CPU without
        gradient, and labels (n,), 0 to C - 1: one vector (`length`,)."""

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
