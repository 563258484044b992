"""CCVR (Luo et al., NeurIPS 2021): FedAvg, then the classifier is trained further on virtual
features.

Each client sends one vector with sums of its features by class. From their total the server
computes the mean and covariance of each class over all clients' features (Eqs. 3 and 4), draws
features from these Gaussians, and trains the classifier further on them. Tukey's transform, which
the paper tries on features that are not negative, is left out.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from pydantic import Field
from torch.nn.functional import cross_entropy

from curvfed.geometry.arrays import Floats, Integers
from curvfed.strategies.base.calibration import (
    SLACK,
    Calibration,
    CalibrationError,
    check_products,
    check_vector,
    moment_variances,
    pack_symmetric,
    plausible_moments,
    triangle,
    unpack_symmetric,
)
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.method import IMAGES, Method, Network
from curvfed.strategies.base.statistics import Arrays


class Keys(Table):
    """Keys of CCVR."""

    per_class: int = Field(default=500, ge=1, le=1_000_000)
    """number of virtual features drawn for each class"""
    learning_rate: Rate = Field(default=0.01, gt=0)
    """learning rate of SGD on the virtual features"""
    epochs: int = Field(default=10, ge=1, le=10_000)
    """passes over the virtual features"""


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Σ 1, Σ z and Σ z zᵀ over the examples of every class, features z in l dimensions, C classes.

    Attributes
    ----------
    counts : array (C,), float64
    sums : array (C, l), float64
    moments : array (C, l(l + 1)/2), float64
        Upper triangles, by rows.
    """

    counts: Floats
    sums: Floats
    moments: Floats

    @classmethod
    def zeros(cls, features: int, classes: int) -> "ClassSums":
        """The sums over no examples."""
        return cls(
            np.zeros(classes),
            np.zeros((classes, features)),
            np.zeros((classes, triangle(features))),
        )

    def add(self, features: ArrayLike, labels: ArrayLike) -> None:
        """Add a batch; see `FeatureSums.add`."""
        z = np.asarray(features, np.float64)
        y = np.asarray(labels)
        for label in np.unique(y):
            features_of_class = z[y == label]
            self.counts[label] += len(features_of_class)
            self.sums[label] += features_of_class.sum(axis=0)
            self.moments[label] += pack_symmetric(features_of_class.T @ features_of_class)

    def pack(self) -> Floats:
        """Counts, sums and moments in one vector: (`length`,)."""
        return np.concatenate([self.counts, self.sums.ravel(), self.moments.ravel()])

    @classmethod
    def unpack(cls, vector: Floats, features: int, classes: int, noise: float = 0.0) -> "ClassSums":
        """Inverse of `pack`; views of the vector. `noise` is a bound on the absolute error of its
        entries.

        Raises
        ------
        CalibrationError
            If the vector has another length or dtype or is not finite, if a count is negative or
            not whole, or if sums and moments contradict each other.
        """
        check_vector(vector, length(features, classes))
        counts, sums, moments = np.split(vector, [classes, classes * (1 + features)])
        whole_counts = np.round(counts)
        counts = np.where(np.abs(counts - whole_counts) <= noise, whole_counts, counts)
        if (counts < 0).any() or (counts != np.round(counts)).any():
            raise CalibrationError(
                "numbers of examples that are negative or not whole", key="counts"
            )
        class_sums = cls(
            counts, sums.reshape(classes, features), moments.reshape(classes, triangle(features))
        )
        for count, total, packed in zip(counts, class_sums.sums, class_sums.moments, strict=True):
            products = unpack_symmetric(packed, features)
            check_products(products, noise)
            if (
                np.abs(total) > np.sqrt(count * (products.diagonal() + noise)) * SLACK + noise
            ).any():
                raise CalibrationError(
                    "sums of a class that are too long for their sums of squares",
                    key="sums-too-long",
                )
        return class_sums

    def gaussian(self, label: int) -> tuple[Floats, Floats]:
        """Mean (l,) and covariance (l, l) of a class with examples; divided by N − 1, and 0 for a
        single example.

        The covariance is a difference of moments; its error is a few eps times the square of the
        mean.
        """
        count = self.counts[label]
        mean = self.sums[label] / self.counts[label]
        moment = unpack_symmetric(self.moments[label], mean.size)
        if count < 2:
            return mean, np.zeros_like(moment)
        return mean, (moment - count * np.outer(mean, mean)) / (count - 1)


def length(features: int, classes: int) -> int:
    """Length of the packed sums."""
    return classes * (1 + features + triangle(features))


def _by_kind(moments: Floats, features: int) -> Floats:
    """Moments (C, 1 + l + l(l + 1)/2) in the order of `ClassSums.pack`."""
    pieces = np.split(moments, [1, 1 + features], axis=1)
    return np.concatenate([piece.ravel() for piece in pieces])


def sample(sums: ClassSums, per_class: int, seed: int) -> tuple[NDArray[np.float32], Integers]:
    """Virtual features of all classes with examples.

    Parameters
    ----------
    sums : ClassSums
        Over all clients.
    per_class : int
    seed : int
        The features of a class depend only on the seed, its label and its own sums.

    Returns
    -------
    features : array (n, l)
    labels : array (n,)
        Ascending.
    """
    present = np.flatnonzero(sums.counts)
    size = sums.sums.shape[1]
    features = np.empty((present.size, per_class, size), np.float32)
    for label, out in zip(present.tolist(), features, strict=True):
        mean, covariance = sums.gaussian(label)
        values, vectors = np.linalg.eigh(covariance)
        # The symmetric root does not depend on the signs of the eigenvectors, which differ between
        # machines.
        root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
        out[:] = (
            mean + np.random.default_rng([seed, label]).standard_normal((per_class, size)) @ root
        )
    return features.reshape(-1, size), np.repeat(present, per_class)


def retrain(
    weight: NDArray[np.float32],
    bias: NDArray[np.float32],
    features: NDArray[np.float32],
    labels: Integers,
    learning_rate: float,
    epochs: int,
    batch_size: int,
    seed: int,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Train a linear head further by plain SGD on the cross-entropy.

    Parameters
    ----------
    weight : array (C, l)
    bias : array (C,)
        The head to start from.
    features : array (n, l)
    labels : array (n,)
    learning_rate : float
    epochs : int
    batch_size : int
        0 for all features in every step.
    seed : int
        Seed of the batches.

    Returns
    -------
    weight, bias
        New arrays.
    """
    head = [torch.tensor(weight, requires_grad=True), torch.tensor(bias, requires_grad=True)]
    inputs = torch.from_numpy(features)
    targets = torch.from_numpy(labels)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for batch in torch.randperm(len(inputs), generator=generator).split(
            batch_size or max(len(inputs), 1)
        ):
            loss = cross_entropy(
                inputs[batch] @ head[0].T + head[1], targets[batch], reduction="sum"
            )
            with torch.no_grad():  # torch.optim takes seconds to import
                for parameter, gradient in zip(head, torch.autograd.grad(loss, head), strict=True):
                    parameter -= learning_rate / max(len(batch), 1) * gradient
    return head[0].numpy(force=True), head[1].numpy(force=True)


class VirtualFeatures(Calibration):
    """CCVR's Algorithm 1. Its sums contain the sizes of the classes, in the open or over all
    clients of a secure sum."""

    keys: Keys
    phase = "ccvr"
    sums = ClassSums
    counts_classes = True

    def check(
        self, vector: Floats, examples: int, features: int, classes: int, noise: float = 0.0
    ) -> ClassSums:
        """The sums by class, if they are possible for this number of examples."""
        sums = ClassSums.unpack(vector, features, classes, noise)
        if sums.counts.sum() != examples:
            raise CalibrationError(
                "the counts of the classes do not add up to the number of examples", key="counts"
            )
        return sums

    def classifier(self, total: Floats, examples: int, head: Arrays, noise: float) -> Arrays:
        """Weight and bias, trained further on features drawn from the Gaussians of the classes."""
        classes, dim = head["weight"].shape
        return self._retrained(self.check(total, examples, dim, classes, noise), head)

    def variances(self, features: int, classes: int) -> Floats:
        """See `moment_variances`."""
        return _by_kind(moment_variances(features, classes, self.reach), features)

    def private_classifier(self, total: Floats, head: Arrays, noise: float) -> Arrays:
        """Weight and bias as from `classifier`, by plausible moments."""
        classes, dim = head["weight"].shape
        pieces = np.split(total, [classes, classes * (1 + dim)])
        noisy = np.concatenate([piece.reshape(classes, -1) for piece in pieces], axis=1)
        moments = plausible_moments(noisy, dim, noise, self.reach)
        if not moments[:, 0].any():
            raise CalibrationError("ccvr: the noise leaves no class", key="only-noise")
        sums = ClassSums.unpack(_by_kind(moments, dim), dim, classes)
        return self._retrained(sums, head)

    def _retrained(self, sums: ClassSums, head: Arrays) -> Arrays:
        keys = self.keys
        features, labels = sample(sums, keys.per_class, self.run.seed)
        steps = (keys.learning_rate, keys.epochs, self.run.batch_size, self.run.seed)
        weight, bias = retrain(head["weight"], head["bias"], features, labels, *steps)
        return {"weight": weight, "bias": bias}


METHODS = {
    "ccvr": Method(
        "fedavg, then a classifier retrained on features drawn from class-wise Gaussians (Luo et"
        " al., 2021)",
        space="flat",
        network=Network(calibration=VirtualFeatures),
        tasks=IMAGES,
        keys={"ccvr": Keys},
    ),
}
