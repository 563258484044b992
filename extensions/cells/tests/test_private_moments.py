"""What one record changes in moments of classes, and what the server makes of noisy ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_changes import CLASSES, check_bound, features_on_grid, largest_change
from tiers import examples

from curvfed.extensions.cells.methods import discriminant
from curvfed.strategies.base.calibration import on_grid
from curvfed.strategies.base.moments import (
    class_moments,
    moment_variances,
    plausible_moments,
)

REACH = 4.0


def moments(is_pooled):
    def sums(features, labels):
        rows = class_moments(on_grid(features, REACH), labels, CLASSES)
        return (discriminant.pool_products(rows) if is_pooled else rows).ravel()

    return sums, lambda size: moment_variances(size, CLASSES, REACH).ravel()


KINDS = {"qda": moments(is_pooled=False), "lda": moments(is_pooled=True)}


@pytest.mark.parametrize("kind", KINDS)
@examples(45)
@given(st.integers(1, 6), st.integers(1, 5), st.data())
def test_a_record_changes_the_sums_by_no_more_than_the_noise_is_for(kind, num, size, data):
    check_bound(*KINDS[kind], num, size, data)


@pytest.mark.parametrize("kind", KINDS)
def test_some_record_changes_them_by_nearly_as_much(kind):
    assert largest_change(*KINDS[kind]) > 0.99


@pytest.mark.parametrize("is_pooled", [False, True])
def test_without_noise_moments_are_what_they_were(is_pooled):
    features, labels = features_on_grid(60, 2)
    rows = class_moments(features, labels, CLASSES)
    kind = "lda" if is_pooled else "qda"
    noisy = discriminant.pool_products(rows) if is_pooled else rows
    plausible = plausible_moments(noisy, 0.0, REACH, is_pooled)
    for now, before in zip(
        discriminant.scores(plausible, kind), discriminant.scores(rows, kind), strict=True
    ):
        np.testing.assert_allclose(now, before, rtol=1e-9, atol=1e-9)
