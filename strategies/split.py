"""Split aggregation: the shared parameters are averaged by data size, the personal ones never come."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


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
    """

    examples: int
    arrays: Arrays
    steps: int = 0


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
    averaged: Arrays = {}
    for name, array in current.items():
        mean = np.zeros(array.shape)
        for update in updates:
            if update.examples:
                mean += np.multiply(update.arrays[name], update.examples / total, dtype=np.float64)
        averaged[name] = mean.astype(array.dtype)
    return averaged
