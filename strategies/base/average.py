"""Split aggregation: the shared parameters are averaged by data size, the personal ones never come."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

_BLOCK = 65_536  # entries: two rows of float64 of this length stay in the cache


@dataclass(frozen=True)
class Update:
    """What one client brings to a round's aggregation.

    Attributes
    ----------
    examples : int
        Its number of training examples, 0 or more.
    arrays : dict of str to array
        The shared parameters after local training.
    steps : int
        The optimiser's steps that led there.
    loss : float
        The mean loss of its last pass; NaN where it told none.
    """

    examples: int
    arrays: Arrays
    steps: int = 0
    loss: float = math.nan


class AggregationError(ValueError):
    """Replies that cannot be aggregated."""


def check_names(arrays: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse a reply that has other arrays than those it should have, such as a personal parameter.

    Raises
    ------
    AggregationError
    """
    if arrays.keys() != expected.keys():
        odd = sorted(arrays.keys() ^ expected.keys())
        raise AggregationError(f"parameters {odd} are not those that are shared: {sorted(expected)}")


def split_average(current: Mapping[str, NDArray[Any]], updates: Sequence[Update]) -> Arrays:
    """Average of the shared parameters over those who took part, weighted by their numbers of examples.

    FlatLand's step S3 with the misplaced factor put right: Σ_c (N_c/N) θ_c, N = Σ_c N_c over the c that replied. With
    nothing personal this is FedAvg (McMahan et al., 2017, Algorithm 1).

    Parameters
    ----------
    current : mapping of str to array
        The shared parameters as they stand; they decide the names, shapes and dtypes, and are the answer where no reply
        has examples.
    updates : sequence of Update
        In a fixed order: the sum is made in it, in float64, so that equal replies give equal bits.

    Returns
    -------
    dict of str to array
        Relative error of a weighted sum of one sign ≤ eps of the arrays' dtype.

    Raises
    ------
    AggregationError
        If a reply has other names than `current`, such as a personal parameter.
    """
    for update in updates:
        check_names(update.arrays, current)
    total = sum(update.examples for update in updates)
    if total == 0:
        return {name: array.copy() for name, array in current.items()}
    weighted = [(update.arrays, update.examples / total) for update in updates if update.examples]
    return {
        name: weighted_sum(array, [(arrays[name], weight) for arrays, weight in weighted])
        for name, array in current.items()
    }


def weighted_sum(like: NDArray[Any], terms: Sequence[tuple[NDArray[Any], float]]) -> NDArray[Any]:
    """Σ weight · array, in float64 and rounded once.

    Parameters
    ----------
    like : array
        Of the shape and the dtype of the result and of the terms.
    terms : sequence of (array, float)
        Summed in their order, in blocks that stay in the cache: it takes no more memory than the result.
    """
    found = np.empty(like.shape, like.dtype)
    rows, out = [(array.reshape(-1), weight) for array, weight in terms], found.reshape(-1)
    width = min(_BLOCK, out.size)
    term, sums = np.empty(width), np.empty(width)
    for begin in range(0, out.size, _BLOCK):
        part = slice(begin, min(begin + _BLOCK, out.size))
        product, total = (buffer[: part.stop - begin] for buffer in (term, sums))
        total.fill(0)
        for row, weight in rows:
            np.copyto(product, row[part])  # apart from the arithmetic: to cast within it takes longer
            product *= weight
            total += product
        out[part] = total
    return found
