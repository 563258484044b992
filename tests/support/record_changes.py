"""What one record changes in sums of features by class, relative to the noise."""

from collections.abc import Callable
from typing import Any

import numpy as np
from guards import hiding
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from curvfed.strategies.base.calibration import GRID, on_grid
from curvfed.strategies.base.run_keys import RunKeys

CLASSES = 3
NUMBERS = st.one_of(
    st.floats(-8, 8, width=32),
    st.sampled_from([0.0, 1e-300, 1e300, 2.0**-13, -(2.0**-12), np.nan, np.inf, -np.inf]),
)

Sums = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""The sums of features (n, size) with labels (n,)."""

Variances = Callable[[int], np.ndarray]
"""For a size of features the variances of the noise, over that of a sum of length 1."""


PRIVATE = hiding(clip=2.0)


def private_sums(calibration: type, keys: Any) -> tuple[Sums, Variances]:
    """The sums of a calibration for private runs, and the variances of their noise."""
    half = calibration(keys, RunKeys(), PRIVATE)

    def sums(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
        total: np.ndarray = half.summed(on_grid(features, half.reach), labels, CLASSES)
        return total

    return sums, lambda size: half.variances(size, CLASSES)


def check_bound(sums: Sums, variances: Variances, num: int, size: int, data: Any) -> None:
    """The last of some drawn records changes the sums by no more than the noise is for, whatever
    the other records are."""
    features = data.draw(arrays(np.float64, (num, size), elements=NUMBERS))
    labels = data.draw(arrays(np.int64, num, elements=st.integers(0, CLASSES - 1)))
    order = data.draw(st.permutations(range(num)))
    left = [position for position in order if position != num - 1]
    change = sums(features, labels) - sums(features[left], labels[left])
    assert np.square(change / np.sqrt(variances(size))).sum() <= 1 + 1e-12
    np.testing.assert_array_equal(change, np.round(change / GRID**2) * GRID**2)
    alone = sums(features[-1:], labels[-1:])
    np.testing.assert_array_equal(change, alone, "whatever the other records are")


def largest_change(sums: Sums, variances: Variances) -> float:
    """The change by a long record, over the bound."""
    alone = sums(np.array([[100.0, 0.0]]), np.array([1]))
    return float(np.square(alone / np.sqrt(variances(2))).sum())


def features_on_grid(num: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (num, size) and their labels; no record has the last class."""
    rng = np.random.default_rng(0)
    return on_grid(rng.normal(size=(num, size)), 1.0), rng.integers(0, CLASSES - 1, num)
