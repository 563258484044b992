"""Paired differences are those of scipy, with a sure answer where there is nothing to test by."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import ttest_rel

from curvfed.extensions.sweeps.commands.paired import LEVEL, paired_difference

SCORES = arrays(float, st.tuples(st.just(2), st.integers(3, 8)), elements=st.floats(0, 100))


@given(SCORES, st.integers(1, 30))
def test_interval_and_p_are_scipys_at_the_corrected_level(scores, number):
    differences = np.subtract(*scores)
    if differences.std() < 1e-6:
        return
    ours = paired_difference(*scores, number)
    test = ttest_rel(*scores)
    interval = test.confidence_interval(1 - (1 - LEVEL) / number)
    assert ours.mean == pytest.approx(differences.mean(), abs=1e-11)
    assert (ours.low, ours.high) == pytest.approx(tuple(interval), rel=1e-6, abs=1e-9)
    assert ours.p == pytest.approx(test.pvalue, rel=1e-5, abs=1e-12)
    assert ours == paired_difference(differences, number=number)


def test_a_pair_without_a_value_is_left_out_as_by_scipy():
    scores = [0.5, math.nan, 0.75, 0.625, 0.875]
    references = [0.25, 0.5, 0.5, math.nan, 0.25]
    ours = paired_difference(scores, references)
    assert ours == paired_difference([0.5, 0.75, 0.875], [0.25, 0.5, 0.25])
    assert ours.pairs == 3
    test = ttest_rel(scores, references, nan_policy="omit")
    assert ours[1:4] == pytest.approx((*test.confidence_interval(LEVEL), test.pvalue))


@pytest.mark.parametrize(
    ("scores", "references", "expected"),
    [
        ([], [], (math.nan, math.nan, math.nan, math.nan, 0)),
        ([math.nan], [0.5], (math.nan, math.nan, math.nan, math.nan, 0)),
        ([0.75], [0.5], (0.25, math.nan, math.nan, math.nan, 1)),
        ([0.75, 1.0], [0.5, 0.5], (0.375, math.nan, math.nan, math.nan, 2)),
        ([0.3, 0.6, 0.7], [0.3, 0.6, 0.7], (0.0, 0.0, 0.0, 1.0, 3)),
        # 0.1 + 0.2 is not 0.3, by rounding alone
        ([0.1 + 0.2, 0.3], [0.3, 0.3], (0.0, 0.0, 0.0, 1.0, 2)),
        ([0.3, 0.4, 0.5], [0.2, 0.3, 0.4], (0.1, 0.1, 0.1, 0.0, 3)),
    ],
)
def test_without_spread_or_with_too_few_pairs_nothing_is_guessed(scores, references, expected):
    assert tuple(paired_difference(scores, references)) == pytest.approx(
        expected, nan_ok=True, abs=0
    )
