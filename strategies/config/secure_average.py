"""Averages by a secure sum: parameters times numbers of examples, as whole numbers that add up without overflow."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.base.average import Arrays
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME, FixedPoint

MOST_EXAMPLES = 2**20
"""Training examples that one client may have: what it adds must be bounded before it is known."""


def parameter_sums(clip: float, num_clients: int) -> FixedPoint:
    """For the sum of n·θ over the clients: |θ| is clipped at `clip`, n is at most `MOST_EXAMPLES`."""
    return FixedPoint(clip * MOST_EXAMPLES, num_clients, SUM_PRIME)


def feature_sums(num_clients: int) -> FixedPoint:
    """For sums over a client's examples of products of features at unit length: of n examples at most n."""
    return FixedPoint(float(MOST_EXAMPLES), num_clients, SUM_PRIME)


def check_examples(num_examples: int) -> None:
    """Refuse a client too large to be summed.

    Raises
    ------
    SecureSumError
    """
    if num_examples > MOST_EXAMPLES:
        raise SecureSumError(
            f"a client with more than {MOST_EXAMPLES} training examples cannot take part in a secure sum"
        )


def weighted(arrays: Mapping[str, NDArray[Any]], num_examples: int, clip: float) -> tuple[NDArray[np.float64], int]:
    """All parameters in one vector, by the order of their names, clipped, times the number of examples; and how many were
    clipped.

    Raises
    ------
    SecureSumError
        If there are more examples than can be summed, or a parameter is not finite.
    """
    check_examples(num_examples)
    # Not in the order in which they come: a checkpoint has another than a model.
    flat = np.concatenate([np.zeros(0), *(np.ravel(arrays[name]).astype(np.float64) for name in sorted(arrays))])
    if not np.isfinite(flat).all():
        raise SecureSumError("parameters that are not finite cannot take part in a secure sum")
    return np.clip(flat, -clip, clip) * num_examples, int((np.abs(flat) > clip).sum())


def mean(total: NDArray[np.float64], num_examples: int, like: Arrays) -> Arrays:
    """The parameters' mean from the sum, in the names, shapes and dtypes of `like`; `like` itself where nobody has
    examples."""
    if num_examples == 0:
        return dict(like)
    names = sorted(like)
    ends = np.cumsum([like[name].size for name in names])
    pieces = dict(zip(names, np.split(total / num_examples, ends[:-1]), strict=True))
    return {name: pieces[name].reshape(array.shape).astype(array.dtype) for name, array in like.items()}
