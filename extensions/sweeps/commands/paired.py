"""The mean difference of paired scores, with its interval and p of the paired t-test."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr
from scipy.stats import t

from curvfed.geometry.arrays import Floats

LEVEL = 0.95
"""Joint probability of the intervals."""

MIN_PAIRS = 3
"""Minimum number of pairs for an interval: with one degree of freedom it reaches 13 standard errors
to either side, and 76 if six intervals are to hold together."""


class Difference(NamedTuple):
    """A mean difference.

    Attributes
    ----------
    mean : float
        NaN without a pair.
    low, high : float
        The interval's ends; NaN below `MIN_PAIRS`, unless all differences are equal.
    p : float
        Of the two-sided test that the mean is 0, for this difference alone; NaN without an
        interval.
    pairs : int
    """

    mean: float
    low: float
    high: float
    p: float
    pairs: int


def paired_difference(
    scores: Sequence[float] | Floats,
    references: Sequence[float] | Floats | float = 0.0,
    number: float = 1,
) -> Difference:
    """The mean difference of paired scores, with its interval of the paired t-test.

    The differences are rounded to 12 decimals, which removes the noise of equal results: the
    interval of a difference that is the same in every pair is that difference, and its p is 0, or
    1 if the difference is 0.

    Parameters
    ----------
    scores, references : sequence of float
        One score per seed, in the same order; a pair with a NaN is left out. By default `scores`
        are differences already.
    number : float
        The number of differences whose intervals are to hold together with probability `LEVEL`,
        by Bonferroni's correction.

    Examples
    --------
    >>> difference = paired_difference([0.75, 0.875, 0.75], [0.5, 0.5, 0.625])
    >>> [round(value, 3) for value in difference]
    [0.25, -0.061, 0.561, 0.074, 3]
    """
    differences = np.round(np.asarray(scores, float) - np.asarray(references, float), 12)
    differences = differences[~np.isnan(differences)]
    pairs = len(differences)
    if pairs < 2:
        mean = float(differences[0]) if pairs else np.nan
        return Difference(mean, np.nan, np.nan, np.nan, pairs)
    mean = float(differences.mean())
    if np.ptp(differences) == 0:
        mean = float(differences[0])
        return Difference(mean, mean, mean, float(mean == 0), pairs)
    if pairs < MIN_PAIRS:
        return Difference(mean, np.nan, np.nan, np.nan, pairs)
    error = differences.std(ddof=1) / np.sqrt(pairs)
    quantile = t.ppf(1 - (1 - LEVEL) / number / 2, pairs - 1)
    half = float(quantile * error)
    p = float(2 * stdtr(pairs - 1, -abs(mean / error)))
    return Difference(mean, mean - half, mean + half, p, pairs)
