"""The lengths of the clients' updates, and the bound beyond which an update is left out."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.base.aggregation import Aggregation, Replies
from curvfed.strategies.base.robust import BOUND_ROBUST, RobustAggregation
from curvfed.strategies.base.statistics import is_buffer

FEWEST = 3
"""Minimum number of updates that are compared: of two, none is longer than usual."""

BOUND = 100.0
"""The key `update-bound` without a value, for aggregations that are not robust."""

_BLOCK = 65_536  # entries of a sum of squares in the arrays' own precision


def update_lengths(model: Aggregation, replies: Replies) -> dict[int, float]:
    """Length of each client's update, divided by the median over the clients that moved.

    The lengths of the trained arrays, of the running statistics and of arrays beside the model, as
    changes of SCAFFOLD's variates are, are compared separately; the largest quotient counts. Arrays
    that the client was not sent, and those beside the model, count as they are.

    Returns
    -------
    dict of int to float
        By partition; infinite if a square exceeds the dtype. Empty with fewer than `FEWEST` updates
        that moved.
    """
    if len(replies) < FEWEST:
        return {}
    lengths = {}
    for partition, update in replies.items():
        start = model.sent_to(partition)
        squares = np.zeros(3)
        for name, array in model.compared(update.arrays).items():
            if "/" in name:
                squares[2] += _square(array, None)
            else:
                squares[int(is_buffer(name))] += _square(array, start.get(name))
        lengths[partition] = np.sqrt(squares)
    table = np.array(list(lengths.values()))
    if (table.max(axis=1, initial=0) > 0).sum() < FEWEST:
        return {}
    medians = [np.median(column[column > 0]) if column.any() else math.inf for column in table.T]
    return {partition: float((row / medians).max()) for partition, row in lengths.items()}


def _square(array: NDArray[Any], start: NDArray[Any] | None) -> float:
    """Squared length of array − start, in blocks of the array's dtype."""
    flat = array.reshape(-1)
    origin = np.zeros_like(flat) if start is None else start.reshape(-1)
    total = 0.0
    for begin in range(0, flat.size, _BLOCK):
        block = flat[begin : begin + _BLOCK] - origin[begin : begin + _BLOCK]
        total += float(np.einsum("i,i->", block, block))
    return total


def within_bound(model: Aggregation, replies: Replies, lengths: Mapping[int, float]) -> Replies:
    """The replies without the updates beyond the key `update-bound`.

    Parameters
    ----------
    lengths : mapping of int to float
        As `update_lengths` gives them.
    """
    bound = update_bound(model) or math.inf
    return {p: update for p, update in replies.items() if lengths.get(p, 0.0) <= bound}


def update_bound(model: Aggregation) -> float:
    """The value of the key `update-bound`; 0 for none."""
    bound = model.run.update_bound
    if bound is None:
        return BOUND_ROBUST if isinstance(model, RobustAggregation) else BOUND
    return bound
