"""Exponents of curves, and where a curve is steeper than it should be."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

LEAST_BYTES = 2_000_000
"""Less is what the system's own accounts of a process come and go by."""
LEAST_SECONDS = 1e-3
"""What takes less is too quick to bend: what it shows is the price of a call."""
STEEPER = 0.3
"""Above the expected exponent: a factor of 1.4 between sizes that differ by 3, more than one point's noise."""


def exponent(sizes: Sequence[int], values: Sequence[float | None], memory: bool = False) -> float | None:
    """The p of value = a·size^p, by least squares on the logarithms of the upper half of the sizes, at least three.

    Parameters
    ----------
    values : sequence of float or None
        Where one is None, or with `memory` below `LEAST_BYTES`, the point is left out.
    memory : bool

    Returns
    -------
    float or None
        None for fewer than two points.
    """
    least = LEAST_BYTES if memory else 0
    kept = [(size, value) for size, value in zip(sizes, values, strict=True) if value is not None and value > least]
    upper = kept[-max(3, (len(kept) + 1) // 2) :]
    if len(upper) < 2:
        return None
    x, y = np.log(np.array(upper, dtype=np.float64)).T
    x = x - x.mean()
    return float(x @ y / (x @ x))


def steep(sizes: Sequence[int], seconds: Sequence[float], expected: float) -> list[tuple[int, int]]:
    """From which size to which the time grows faster than by the expected exponent; neighbouring ranges are one."""
    found: list[tuple[int, int]] = []
    for (left, before), (right, after) in pairwise(zip(sizes, seconds, strict=True)):
        if after < LEAST_SECONDS or np.log(after / before) <= (expected + STEEPER) * np.log(right / left):
            continue
        if found and found[-1][1] == left:
            found[-1] = found[-1][0], right
        else:
            found.append((left, right))
    return found
