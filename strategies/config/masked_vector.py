"""A client's vector in a secure sum: what is added up, its weight, and figures about the client,
all as coordinates.

The server sees none of them but as sums over the cohort.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.figures import SUMMED
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME, FixedPoint

MOST_EXAMPLES = 2**20
"""Training examples that one client may have: what it adds must be bounded before it is known."""

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Total:
    """The sum of the clients' vectors.

    Attributes
    ----------
    values : array (n,)
    weight : int
        Sum of the clients' weights, their numbers of examples in most runs.
    figures : dict of str to (float, int)
        Of each figure that a client told: the mean over those who did, and their number.
    error : float
        Bound on the absolute error of the entries of `values`.
    """

    values: Vector
    weight: int
    figures: dict[str, tuple[float, int]]
    error: float

    @classmethod
    def decode(cls, residues: NDArray[np.uint64], encoding: FixedPoint) -> "Total":
        """From the sum of the residues of vectors that `packed` made."""
        values, weight, sums, counts = np.split(
            encoding.decode(residues), [-1 - 2 * len(SUMMED), -2 * len(SUMMED), -len(SUMMED)]
        )
        told = {
            name: (float(total / count), int(count))
            for name, total, count in zip(SUMMED, sums, np.rint(counts), strict=True)
            if count
        }
        return cls(values, int(np.rint(weight[0])), told, encoding.error)


def encoding(bound: float, clients: int) -> FixedPoint:
    """For sums over `clients` vectors whose entries are at most `bound` times `MOST_EXAMPLES`."""
    return FixedPoint(bound * MOST_EXAMPLES, clients, SUM_PRIME)


def length(values: int) -> int:
    """The length of a vector with this number of values."""
    return values + 1 + 2 * len(SUMMED)


def packed(values: Vector, weight: int, figures: Mapping[str, float], bound: float) -> Vector:
    """The vector: values, weight, figures, and which of these there are.

    Raises
    ------
    SecureSumError
        If the weight or a value is larger than can be summed, or a value is not finite.
    """
    if weight > MOST_EXAMPLES:
        raise SecureSumError(
            f"a client with more than {MOST_EXAMPLES} training examples cannot take part in a"
            " secure sum"
        )
    if not np.isfinite(values).all():
        raise SecureSumError("parameters that are not finite cannot take part in a secure sum")
    if np.abs(values).max(initial=0.0) > bound * MOST_EXAMPLES:
        raise SecureSumError(
            f"values above {bound:g} x {MOST_EXAMPLES} cannot take part in a secure sum"
            " (secure.clip)"
        )
    told = [figures.get(name, np.nan) for name in SUMMED]
    there = np.isfinite(told)
    return np.concatenate([values, [weight], np.where(there, told, 0.0), there])


def weighted_update(
    arrays: Mapping[str, NDArray[Any]],
    received: Mapping[str, NDArray[Any]],
    weight: int,
    limit: float,
) -> tuple[Vector, float]:
    """A client's change of what it received, by the order of the names, times its weight.

    A change longer than `limit` is shortened to it, so that no client moves the average further
    than its share of that. What is no parameter (FedNova's length of a step, SCAFFOLD's change of a
    variate) is taken as it is.

    Returns
    -------
    vector : array (n,)
    norm : float
        Of the change, before it was shortened.
    """
    names = sorted(arrays)  # not as they come: a checkpoint has another order than a model
    change = {name: np.ravel(arrays[name]).astype(np.float64) for name in names}
    moves = parameters(received)
    for name in moves:
        change[name] -= np.ravel(received[name])
    norm = float(np.sqrt(sum(np.square(change[name]).sum() for name in moves)))
    scale = limit / norm if norm > limit else 1.0
    pieces = [change[name] * (weight * scale if name in moves else weight) for name in names]
    return np.concatenate([np.zeros(0), *pieces]), norm


def parameters(received: Mapping[str, NDArray[Any]]) -> Arrays:
    """The model's own parameters among what was sent; other arrays have a prefix, such as
    SCAFFOLD's variates."""
    return {name: array for name, array in received.items() if "/" not in name}


def mean_update(total: Total, like: Arrays, sent: Arrays) -> Arrays:
    """What was sent plus the clients' mean change, in the names, shapes and dtypes of `like`;
    `sent` itself where the weight is 0."""
    if total.weight == 0:
        return dict(sent)
    names = sorted(like)
    ends = np.cumsum([like[name].size for name in names])
    changes = dict(zip(names, np.split(total.values / total.weight, ends[:-1]), strict=True))
    starts = parameters(sent)
    return {
        name: (changes[name].reshape(array.shape) + starts.get(name, 0)).astype(array.dtype)
        for name, array in like.items()
    }
