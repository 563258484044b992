"""What one record changes in the sums, by brute force, and what a server makes of noisy sums."""

import numpy as np
import pytest
from guards import hiding
from hypothesis import given
from hypothesis import strategies as st
from record_changes import CLASSES, check_bound, features_on_grid, largest_change
from tiers import examples

from curvfed.extensions.baselines.methods import ccvr
from curvfed.strategies.base.calibration import on_grid
from curvfed.strategies.base.guard import Guard
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.methods import spherefed

PRIVATE = hiding(clip=2.0)


def calibrated(kind, keys):
    calibration = kind(keys, RunKeys(), PRIVATE)

    def sums(features, labels):
        total = calibration.sums.zeros(features.shape[1], CLASSES)
        total.add(on_grid(features, calibration.reach), labels)
        return total.pack()

    return sums, lambda size: calibration.variances(size, CLASSES)


KINDS = {
    "spherefed": calibrated(spherefed.ClosedForm, spherefed.Keys()),
    "not normalised": calibrated(spherefed.ClosedForm, spherefed.Keys(normalize=False)),
    "ccvr": calibrated(ccvr.VirtualFeatures, ccvr.Keys()),
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
    total = spherefed.Sums.zeros(4, CLASSES)
    total.add(features, labels)
    head = {"weight": np.zeros((CLASSES, 4), np.float32)}
    plain = spherefed.ClosedForm(keys, RunKeys(), Guard(None))
    private = spherefed.ClosedForm(keys, RunKeys(), PRIVATE)
    np.testing.assert_array_equal(
        private.private_classifier(total.pack(), head, 0.0)["weight"],
        plain.classifier(total.pack(), 60, head, 0.0)["weight"],
    )


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
