"""What one record changes in the sums, by brute force, and what a server makes of noisy sums."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_changes import (
    CLASSES,
    PRIVATE,
    check_bound,
    features_on_grid,
    largest_change,
    private_sums,
)
from tiers import examples

from curvfed.strategies.base import least_squares
from curvfed.strategies.base.guard import Guard
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.methods import spherefed

KINDS = {
    "spherefed": private_sums(least_squares.ClosedForm, spherefed.Keys()),
    "not normalised": private_sums(least_squares.ClosedForm, spherefed.Keys(normalize=False)),
}


@pytest.mark.parametrize("kind", KINDS)
@examples(45)
@given(st.integers(1, 6), st.integers(1, 5), st.data())
def test_a_record_changes_the_sums_by_no_more_than_the_noise_is_for(kind, num, size, data):
    check_bound(*KINDS[kind], num, size, data)


@pytest.mark.parametrize("kind", KINDS)
def test_some_record_changes_them_by_nearly_as_much(kind):
    assert largest_change(*KINDS[kind]) > 0.99


def test_without_noise_the_classifier_is_that_of_plain_sums():
    """To the bit; the last class has no example."""
    features, labels = features_on_grid(60, 4)
    keys = spherefed.Keys(normalize=False, ridge=0.0)
    total = least_squares.ClosedForm.summed(features, labels, CLASSES)
    head = {"weight": np.zeros((CLASSES, 4), np.float32)}
    plain = least_squares.ClosedForm(keys, RunKeys(), Guard(None))
    private = least_squares.ClosedForm(keys, RunKeys(), PRIVATE)
    np.testing.assert_array_equal(
        private.private_classifier(total, head, 0.0)["weight"],
        plain.classifier(total, 60, head, 0.0)["weight"],
    )
