"""Split aggregation: the shared parameters are averaged by data size, the personal ones never come."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


class AggregationError(ValueError):
    """Replies that cannot be aggregated."""


def split_average(
    current: Mapping[str, NDArray[Any]], replies: Sequence[tuple[int, Mapping[str, NDArray[Any]]]]
) -> Arrays:
    """Average of the shared parameters over those who took part, weighted by their numbers of examples.

    FlatLand's step S3 with the misplaced factor put right: Σ_c (N_c/N) θ_c, N = Σ_c N_c over the c that replied. With
    nothing personal this is FedAvg (McMahan et al., 2017, Algorithm 1).

    Parameters
    ----------
    current : mapping of str to array
        The shared parameters as they stand; they decide the names, shapes and dtypes, and are the answer where no reply
        has examples.
    replies : sequence of (number of examples, mapping of str to array)
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
    for _, arrays in replies:
        if arrays.keys() != current.keys():
            odd = sorted(arrays.keys() ^ current.keys())
            raise AggregationError(f"parameters {odd} are not those that are shared: {sorted(current)}")
    total = sum(examples for examples, _ in replies)
    if total == 0:
        return {name: array.copy() for name, array in current.items()}
    averaged: Arrays = {}
    for name, array in current.items():
        mean = np.zeros(array.shape)
        for examples, arrays in replies:
            if examples:
                mean += np.multiply(arrays[name], examples / total, dtype=np.float64)
        averaged[name] = mean.astype(array.dtype)
    return averaged
