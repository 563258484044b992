"""What one record changes in the sums, by brute force, and what a server makes of noisy sums."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tiers import examples

from curvfed.extensions.baselines.methods import ccvr
from curvfed.extensions.cells.methods import discriminant
from curvfed.strategies.base.calibration import (
    GRID,
    moment_variances,
    on_grid,
    plausible_moments,
    pool_products,
)
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import Privacy
from curvfed.strategies.methods import spherefed

PRIVATE = Privacy(unit="record", epsilon=1.0, clip=2.0)
REACH = 4.0
CLASSES = 3
NUMBERS = st.one_of(
    st.floats(-8, 8, width=32),
    st.sampled_from([0.0, 1e-300, 1e300, 2.0**-13, -(2.0**-12), np.nan, np.inf, -np.inf]),
)


def calibrated(kind, keys):
    calibration = kind(keys, RunKeys(), PRIVATE)

    def sums(features, labels):
        total = calibration.sums.zeros(features.shape[1], CLASSES)
        total.add(on_grid(features, calibration.reach), labels)
        return total.pack()

    return sums, lambda size: calibration.variances(size, CLASSES)


def moments(is_pooled):
    def sums(features, labels):
        total = discriminant.class_moments(on_grid(features, REACH), labels, CLASSES)
        rows = total.reshape(CLASSES, -1)
        return (pool_products(rows, features.shape[1]) if is_pooled else rows).ravel()

    return sums, lambda size: moment_variances(size, CLASSES, REACH).ravel()


KINDS = {
    "spherefed": calibrated(spherefed.ClosedForm, spherefed.Keys()),
    "not normalised": calibrated(spherefed.ClosedForm, spherefed.Keys(normalize=False)),
    "ccvr": calibrated(ccvr.VirtualFeatures, ccvr.Keys()),
    "qda": moments(is_pooled=False),
    "lda": moments(is_pooled=True),
}


@pytest.mark.parametrize("kind", KINDS)
@examples(45)
@given(st.integers(1, 6), st.integers(1, 5), st.data())
def test_a_record_changes_the_sums_by_no_more_than_the_noise_is_for(kind, num, size, data):
    sums, variances = KINDS[kind]
    features = data.draw(arrays(np.float64, (num, size), elements=NUMBERS))
    labels = data.draw(arrays(np.int64, num, elements=st.integers(0, CLASSES - 1)))
    order = data.draw(st.permutations(range(num)))
    left = [position for position in order if position != num - 1]
    change = sums(features, labels) - sums(features[left], labels[left])
    assert np.square(change / np.sqrt(variances(size))).sum() <= 1 + 1e-12
    np.testing.assert_array_equal(change, np.round(change / GRID**2) * GRID**2)
    alone = sums(features[-1:], labels[-1:])
    np.testing.assert_array_equal(change, alone, "whatever the other records are")


@pytest.mark.parametrize("kind", KINDS)
def test_some_record_changes_them_by_nearly_as_much(kind):
    sums, variances = KINDS[kind]
    alone = sums(np.array([[100.0, 0.0]]), np.array([1]))
    assert np.square(alone / np.sqrt(variances(2))).sum() > 0.99


def features_on_grid(num, size):
    rng = np.random.default_rng(0)
    return on_grid(rng.normal(size=(num, size)), 1.0), rng.integers(0, CLASSES - 1, num)


def test_without_noise_the_classifier_is_that_of_plain_sums():
    """To the bit; the last class has no example."""
    features, labels = features_on_grid(60, 4)
    keys = spherefed.Keys(normalize=False, ridge=0.0)
    total = spherefed.Sums.zeros(4, CLASSES)
    total.add(features, labels)
    head = {"weight": np.zeros((CLASSES, 4), np.float32)}
    plain = spherefed.ClosedForm(keys, RunKeys(), Privacy())
    private = spherefed.ClosedForm(keys, RunKeys(), PRIVATE)
    np.testing.assert_array_equal(
        private.private_classifier(total.pack(), head, 0.0)["weight"],
        plain.classifier(total.pack(), 60, head, 0.0)["weight"],
    )


@pytest.mark.parametrize("is_pooled", [False, True])
def test_without_noise_moments_are_what_they_were(is_pooled):
    features, labels = features_on_grid(60, 2)
    rows = discriminant.class_moments(features, labels, CLASSES).reshape(CLASSES, -1)
    kind = "lda" if is_pooled else "qda"
    noisy = pool_products(rows, 2) if is_pooled else rows
    plausible = plausible_moments(noisy, 2, 0.0, REACH, is_pooled)
    for now, before in zip(
        discriminant.scores(plausible.ravel(), 2, kind),
        discriminant.scores(rows.ravel(), 2, kind),
        strict=True,
    ):
        np.testing.assert_allclose(now, before, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("noise", [1.0, 30.0])
def test_noisy_moments_become_possible_ones(noise):
    """Also those of a class without examples, and of an empty client alone."""
    features, labels = features_on_grid(200, 3)
    total = ccvr.ClassSums.zeros(3, CLASSES)
    total.add(features, labels)
    calibration = ccvr.VirtualFeatures(ccvr.Keys(epochs=1), RunKeys(batch_size=0), PRIVATE)
    deviations = noise * np.sqrt(calibration.variances(3, CLASSES))
    noisy = total.pack() + deviations * np.random.default_rng(1).normal(size=len(deviations))
    head = {"weight": np.zeros((CLASSES, 3), np.float32), "bias": np.zeros(CLASSES, np.float32)}
    if noise > 10:
        with pytest.raises(ccvr.CalibrationError, match="the noise leaves no class"):
            calibration.private_classifier(noisy, head, noise)
        return
    assert np.isfinite(calibration.private_classifier(noisy, head, noise)["weight"]).all()
