"""Intervals of shares and of means over clients."""

import math
from typing import Any

from curvfed.server_app.directory import is_number

Z = 1.959964
"""Standard normal quantile of two-sided intervals of 95%."""


def wilson(right: int, total: int) -> tuple[float, float]:
    """The 95% interval of a binomial share (Wilson, 1927), which holds for few points and for
    shares of 0 and 1 too.

    Examples
    --------
    >>> [round(bound, 3) for bound in wilson(8, 10)]
    [0.49, 0.943]
    """
    square = Z * Z
    middle = (right + square / 2) / (total + square)
    variance = right * (total - right) / total + square / 4
    half = Z * math.sqrt(variance) / (total + square)
    return max(0.0, middle - half), min(1.0, middle + half)


def mean_interval(mean: float, deviation: Any, count: int) -> tuple[float, float] | None:
    """The 95% interval by Student's t of the mean of `count` clients' shares; their deviation
    divides by `count`. None for a single client, or without a deviation."""
    if count < 2 or not is_number(deviation):
        return None
    from scipy.special import stdtrit

    # The error of the mean divides by the root of n - 1, as the deviation divides by n.
    half = float(stdtrit(count - 1, 0.975)) * deviation / math.sqrt(count - 1)
    return max(0.0, mean - half), min(1.0, mean + half)
