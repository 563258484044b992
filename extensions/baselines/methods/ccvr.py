"""CCVR (Luo et al., NeurIPS 2021): FedAvg, then the classifier is trained further on virtual
features.

Each client sends one vector with sums of its features by class. From their total the server
computes the mean and covariance of each class over all clients' features (Eqs. 3 and 4), draws
features from these Gaussians, and trains the classifier further on them. Tukey's transform, which
the paper tries on features that are not negative, is left out.
"""

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from pydantic import Field
from torch.nn.functional import cross_entropy

from curvfed.geometry.arrays import Floats, Integers
from curvfed.strategies.base.calibration import Calibration, CalibrationError
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.method import IMAGES, Method, Network
from curvfed.strategies.base.moments import (
    check_products,
    check_vector,
    class_moments,
    features_of,
    gaussians,
    moment_variances,
    moments_length,
    plausible_moments,
    unpack_symmetric,
)
from curvfed.strategies.base.statistics import Arrays


class Keys(Table):
    """Keys of CCVR."""

    retired = (("epochs", 10),)

    per_class: int = Field(default=500, ge=1, le=1_000_000)
    """number of virtual features drawn for each class"""
    learning_rate: Rate = Field(default=0.01, gt=0)
    """learning rate of SGD on the virtual features"""


EPOCHS = 10
"""Passes over the virtual features."""


def sample(rows: Floats, per_class: int, seed: int) -> tuple[NDArray[np.float32], Integers]:
    """Virtual features of all classes with examples.

    Parameters
    ----------
    rows : array (C, 1 + l + l(l + 1)/2)
        `class_moments` of the features of all clients.
    per_class : int
    seed : int
        The features of a class depend only on the seed, its label and its own moments.

    Returns
    -------
    features : array (n, l)
    labels : array (n,)
        Ascending.
    """
    present = np.flatnonzero(rows[:, 0])
    size = features_of(rows)
    features = np.empty((present.size, per_class, size), np.float32)
    for label, out in zip(present.tolist(), features, strict=True):
        mean, covariance = gaussian(rows[label])
        values, vectors = np.linalg.eigh(covariance)
        # The symmetric root does not depend on the signs of the eigenvectors, which differ between
        # machines.
        root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
        out[:] = (
            mean + np.random.default_rng([seed, label]).standard_normal((per_class, size)) @ root
        )
    return features.reshape(-1, size), np.repeat(present, per_class)


def gaussian(row: Floats) -> tuple[Floats, Floats]:
    """Mean (l,) and covariance (l, l) of a class with examples; divided by N − 1, and 0 for a
    single example."""
    number, mean, scatter = gaussians(row)
    if number < 2:
        return mean, np.zeros_like(scatter)
    return mean, scatter / (number - 1)


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
    counts_classes = True

    @classmethod
    def length(cls, features: int, classes: int) -> int:
        """Of the moments of all classes."""
        return classes * moments_length(features)

    @classmethod
    def summed(cls, features: ArrayLike, labels: ArrayLike, classes: int) -> Floats:
        """See `class_moments`."""
        return class_moments(features, labels, classes).ravel()

    def check(
        self, vector: Floats, examples: int, features: int, classes: int, noise: float = 0.0
    ) -> Floats:
        """The rows of moments, with whole numbers, if they are possible for this number of
        examples."""
        check_vector(vector, self.length(features, classes))
        rows = vector.reshape(classes, -1).copy()
        numbers = np.rint(rows[:, 0])
        if (numbers < 0).any() or (np.abs(rows[:, 0] - numbers) > noise).any():
            raise CalibrationError(
                "numbers of examples that are negative or not whole", key="counts"
            )
        rows[:, 0] = numbers
        for row in rows:
            check_products(unpack_symmetric(row, 1 + features), noise)
        if numbers.sum() != examples:
            raise CalibrationError(
                "the counts of the classes do not add up to the number of examples", key="counts"
            )
        return rows

    def classifier(self, total: Floats, examples: int, head: Arrays, noise: float) -> Arrays:
        """Weight and bias, trained further on features drawn from the Gaussians of the classes."""
        classes, dim = head["weight"].shape
        return self._retrained(self.check(total, examples, dim, classes, noise), head)

    def variances(self, features: int, classes: int) -> Floats:
        """See `moment_variances`."""
        return moment_variances(features, classes, self.reach).ravel()

    def private_classifier(self, total: Floats, head: Arrays, noise: float) -> Arrays:
        """Weight and bias as from `classifier`, by plausible moments."""
        classes = len(head["weight"])
        rows = plausible_moments(total.reshape(classes, -1), noise, self.reach)
        if not rows[:, 0].any():
            raise CalibrationError("ccvr: the noise leaves no class", key="only-noise")
        return self._retrained(rows, head)

    def _retrained(self, rows: Floats, head: Arrays) -> Arrays:
        keys = self.keys
        features, labels = sample(rows, keys.per_class, self.config.seed)
        steps = (keys.learning_rate, EPOCHS, self.config.batch_size, self.config.seed)
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
