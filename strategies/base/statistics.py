"""What clients contribute to a phase: named arrays, a weight, and figures."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

Vector = NDArray[np.float64]


def in_large_classes(labels: NDArray[np.int64], minimum: int) -> NDArray[np.bool_]:
    """Whether the class of each example has at least this many examples, (n,)."""
    return np.asarray(np.bincount(labels)[labels] >= minimum)


@dataclass(frozen=True, eq=False)
class Statistics:
    """The contribution of a client, or of several clients together.

    Attributes
    ----------
    arrays : dict of str to array
        The shared parameters after local training, or sums over the examples.
    weight : int
        Number of training examples, 0 or more, or what the aggregation uses in its place.
    figures : mapping of str to float
        Figures about the client, by name; a figure that is not reported is left out.
    clients : int
        Number of clients; more than one after a secure sum.
    error : float
        Bound on the absolute error of the arrays' entries, from the fixed-point numbers of a secure
        sum.
    noise : float
        The root of the factor of the variances of differentially private sums; 0 for sums without
        noise.

    Examples
    --------
    >>> both = Statistics({"w": np.ones(2)}, 3) + Statistics({"w": np.zeros(2)}, 1)
    >>> both.arrays["w"], both.weight, both.clients
    (array([1., 1.]), 4, 2)
    >>> (Statistics({}, noise=3.0) + Statistics({}, noise=4.0)).noise
    5.0
    """

    arrays: Arrays
    weight: int = 0
    figures: Mapping[str, float] = field(default_factory=dict)
    clients: int = 1
    error: float = 0.0
    noise: float = 0.0

    @property
    def steps(self) -> int:
        """Number of optimiser steps; 0 if it is not reported."""
        return int(self.figures.get("steps", 0))

    @property
    def loss(self) -> float:
        """Mean loss of the last pass; NaN if it is not reported."""
        return self.figures.get("loss", math.nan)

    def __add__(self, other: "Statistics") -> "Statistics":
        """Both contributions together, whose noise is independent; their figures are not kept."""
        arrays = {name: array + other.arrays[name] for name, array in self.arrays.items()}
        return Statistics(
            arrays,
            self.weight + other.weight,
            clients=self.clients + other.clients,
            error=self.error + other.error,
            noise=math.hypot(self.noise, other.noise),
        )

    def flatten(self) -> Vector:
        """All entries in one float64 vector, in the order of the arrays' names: a checkpoint has
        another order than a model."""
        pieces = [np.ravel(array).astype(np.float64) for _, array in sorted(self.arrays.items())]
        return np.concatenate([np.zeros(0), *pieces])

    def unflatten(self, vector: Vector) -> "Statistics":
        """The entries of a vector in arrays of the names and shapes of this contribution's, in
        float64; the inverse of `flatten`."""
        return replace(self, arrays=dict(_split(vector, self.arrays)))


def _split(vector: Vector, like: Mapping[str, NDArray[Any]]) -> Iterator[tuple[str, Vector]]:
    begin = 0
    for name, array in sorted(like.items()):
        yield name, vector[begin : begin + array.size].reshape(array.shape)
        begin += array.size


def total(contributions: Sequence[Statistics]) -> Statistics:
    """The sum of contributions, added in this order.

    Parameters
    ----------
    contributions : sequence of Statistics
        At least one.
    """
    first, *others = contributions
    summed = first
    for contribution in others:
        summed = summed + contribution
    return summed
