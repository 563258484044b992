"""The average of shared parameters, weighted by numbers of examples. Personal parameters are never
sent."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.tasks.errors import KeyedError

_BLOCK = 65_536  # entries: two rows of float64 of this length fit into the cache


class AggregationError(KeyedError, ValueError):
    """Replies that cannot be aggregated."""

    area = "aggregation"


def check_names(arrays: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse a reply with other arrays than the expected ones, such as a personal parameter.

    Raises
    ------
    AggregationError
    """
    if arrays.keys() != expected.keys():
        unmatched = sorted(arrays.keys() ^ expected.keys())
        raise AggregationError(
            f"parameters {unmatched} do not match the shared ones: {sorted(expected)}",
            key="parameters",
        )


def split_average(current: Mapping[str, NDArray[Any]], updates: Sequence[Statistics]) -> Arrays:
    """Average of the shared parameters over the clients that replied, weighted by their numbers of
    examples.

    FlatLand's step S3 with its misplaced factor corrected: Σ_c (N_c/N) θ_c, where N = Σ_c N_c over
    the clients c that replied. Without personal parameters this is FedAvg (McMahan et al., 2017,
    Algorithm 1).

    Parameters
    ----------
    current : mapping of str to array
        The present shared parameters. They set names, shapes and dtypes, and are returned if no
        reply has examples.
    updates : sequence of Statistics
        In a fixed order: the sum is computed in this order and in float64, so that equal replies
        give equal bits.

    Returns
    -------
    dict of str to array
        Relative error ≤ eps of the arrays' dtype, if all terms have one sign.

    Raises
    ------
    AggregationError
        If a reply has other names than `current`, such as a personal parameter.
    """
    for update in updates:
        check_names(update.arrays, current)
    total = sum(update.weight for update in updates)
    if total == 0:
        return {name: array.copy() for name, array in current.items()}
    weighted = [(update.arrays, update.weight / total) for update in updates if update.weight]
    averages: Arrays = {}
    for name, array in current.items():
        terms = [(arrays[name], weight) for arrays, weight in weighted]
        averages[name] = weighted_sum(array, terms)
    return averages


def weighted_sum(like: NDArray[Any], terms: Sequence[tuple[NDArray[Any], float]]) -> NDArray[Any]:
    """Σ weight · array, computed in float64 and rounded once.

    Parameters
    ----------
    like : array
        Has the shape and the dtype of the terms and of the result.
    terms : sequence of (array, float)
        Added in this order, in blocks that fit into the cache, so that only the result needs
        memory.
    """
    result = np.empty(like.shape, like.dtype)
    terms_flat = [(array.reshape(-1), weight) for array, weight in terms]
    out = result.reshape(-1)
    width = min(_BLOCK, out.size)
    term = np.empty(width)
    sums = np.empty(width)
    for begin in range(0, out.size, _BLOCK):
        block = slice(begin, min(begin + _BLOCK, out.size))
        product, total = (buffer[: block.stop - begin] for buffer in (term, sums))
        total.fill(0)
        for row, weight in terms_flat:
            np.copyto(product, row[block])  # casting within the multiplication takes longer
            product *= weight
            total += product
        out[block] = total
    return result
