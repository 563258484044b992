"""CCVR by other programs: pooled statistics, the Gaussians, and the head trained on draws."""

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

from curvfed.extensions.baselines.methods.ccvr import (
    Keys,
    VirtualFeatures,
    gaussian,
    retrain,
    sample,
)
from curvfed.strategies.base.calibration import CalibrationError
from curvfed.strategies.base.guard import Guard
from curvfed.strategies.base.moments import class_moments
from curvfed.strategies.base.run_keys import RunKeys


def data(seed, num, size, classes):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, num)
    mixing = rng.standard_normal((size, size))
    spread = rng.standard_normal((num, size)) @ mixing
    features = spread + 5 * rng.standard_normal((classes, size))[labels]
    return features.astype(np.float32), labels


def packed(features, labels, classes, batch=16):
    rows = class_moments(features[:0], labels[:0], classes)
    for begin in range(0, len(features), batch):
        batch_slice = slice(begin, begin + batch)
        rows += class_moments(features[batch_slice], labels[batch_slice], classes)
    return rows.ravel()


def summed(parts, size, classes):
    total = sum(packed(*examples, classes) for examples in parts)
    calibration = VirtualFeatures(Keys(), RunKeys(), Guard(None))
    return calibration.check(total, sum(len(labels) for _, labels in parts), size, classes)


def divided(features, labels, owner, clients):
    return [(features[owner == k], labels[owner == k]) for k in range(clients)]


@given(st.lists(st.integers(0, 2), min_size=40, max_size=40), st.integers(0, 9))
def test_gaussians_are_those_of_the_pooled_features(owner, seed):
    features, labels = data(seed, 40, 4, 5)
    sums = summed(divided(features, labels, np.array(owner), 3), 4, 5)
    np.testing.assert_array_equal(sums[:, 0], np.bincount(labels, minlength=5))
    for label in np.unique(labels):
        members = features[labels == label].astype(float)
        mean, covariance = gaussian(sums[label])
        np.testing.assert_allclose(mean, members.mean(axis=0), rtol=1e-12, atol=1e-12)
        if len(members) > 1:
            expected = np.cov(members, rowvar=False)
        else:
            expected = np.zeros((4, 4))
        np.testing.assert_allclose(covariance, expected, rtol=0, atol=1e-11)


def test_virtual_features_have_the_class_statistics():
    features, labels = data(2, 500, 4, 3)
    sums = summed([(features, labels)], 4, 3)
    drawn, classes = sample(sums, 40_000, 0)
    assert drawn.dtype == np.float32
    assert classes.dtype == np.int64
    np.testing.assert_array_equal(classes, np.repeat([0, 1, 2], 40_000))
    for label in range(3):
        mean, covariance = gaussian(sums[label])
        spread = np.sqrt(covariance.diagonal())
        members = drawn[classes == label].astype(float)
        # five standard errors of the mean
        assert (np.abs(members.mean(axis=0) - mean) < 5 * spread / 200).all()
        assert (
            np.abs(np.cov(members, rowvar=False) - covariance)
            < 5 * np.sqrt(2) * np.outer(spread, spread) / 200
        ).all()


def test_draws_depend_on_the_seed_and_the_class_alone():
    features, labels = data(3, 200, 4, 3)
    sums = summed([(features, labels)], 4, 3)
    third_class = summed([(features[labels == 2], labels[labels == 2])], 4, 3)
    drawn, classes = sample(sums, 10, 7)
    np.testing.assert_array_equal(sample(sums, 10, 7)[0], drawn)
    assert (sample(sums, 10, 8)[0] != drawn).any()
    alone, labels_alone = sample(third_class, 10, 7)  # classes without examples are left out
    np.testing.assert_array_equal(labels_alone, [2] * 10)
    np.testing.assert_allclose(alone, drawn[classes == 2], rtol=1e-6, atol=1e-6)


def test_a_single_example_is_drawn_as_it_is_and_few_stay_in_their_span():
    lone = np.array([[1.0, -2, 3]], np.float32)
    drawn, _ = sample(summed([(lone, np.array([1]))], 3, 2), 5, 0)
    np.testing.assert_allclose(drawn, np.repeat(lone, 5, axis=0), rtol=1e-6)
    pair = np.array([[1.0, 0, 0], [0, 1, 0]], np.float32)
    drawn, _ = sample(summed([(pair, np.array([0, 0]))], 3, 1), 50, 0)
    np.testing.assert_allclose(drawn.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(drawn[:, 2], 0, atol=1e-6)


def test_no_examples_draw_nothing_and_leave_the_head():
    drawn, labels = sample(np.zeros((2, 10)), 5, 0)
    assert drawn.shape == (0, 3)
    assert labels.shape == (0,)
    weight = np.ones((2, 3), np.float32)
    bias = np.zeros(2, np.float32)
    for batch_size in (0, 4):
        head = retrain(weight, bias, drawn, labels, 0.1, 2, batch_size, 0)
        np.testing.assert_array_equal(head[0], weight)
        np.testing.assert_array_equal(head[1], bias)


def descent(weight, bias, features, labels, rate, steps):
    """Full gradient descent on the cross-entropy, in float64."""
    w = weight.astype(float)
    b = bias.astype(float)
    z = features.astype(float)
    y = np.eye(len(bias))[labels]
    for _ in range(steps):
        logits = z @ w.T + b
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        error = (shares / shares.sum(axis=1, keepdims=True) - y) / len(z)
        w = w - rate * error.T @ z
        b = b - rate * error.sum(axis=0)
    return w, b


def head_of(seed, size, classes):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((classes, size)).astype(np.float32), rng.standard_normal(
        classes
    ).astype(np.float32)


def test_retraining_in_one_batch_is_gradient_descent():
    features, labels = data(4, 100, 4, 3)
    weight, bias = head_of(4, 4, 3)
    before = weight.copy()
    for batch_size in (0, 100, 500):
        head = retrain(weight, bias, features, labels, 0.05, 8, batch_size, 1)
        for array, expected in zip(
            head, descent(weight, bias, features, labels, 0.05, 8), strict=True
        ):
            np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(weight, before)


def test_retraining_in_batches_lowers_the_loss_and_follows_its_seed():
    features, labels = data(5, 300, 4, 3)
    weight, bias = head_of(5, 4, 3)

    def right(w, b):
        return np.mean((features @ w.T + b).argmax(axis=1) == labels)

    head = retrain(weight, bias, features, labels, 0.01, 20, 16, 1)
    assert right(*head) > max(right(weight, bias), 0.9)
    for array, repeated in zip(
        head, retrain(weight, bias, features, labels, 0.01, 20, 16, 1), strict=True
    ):
        np.testing.assert_array_equal(array, repeated)
    assert (retrain(weight, bias, features, labels, 0.01, 20, 16, 2)[0] != head[0]).any()


def test_bad_vectors_are_refused():
    good = packed(*data(6, 30, 3, 2), 2)
    calibration = VirtualFeatures(Keys(), RunKeys(), Guard(None))
    assert good.shape == (calibration.length(3, 2),) == (2 * (1 + 3 + 6),)
    np.testing.assert_array_equal(calibration.check(good, 30, 3, 2).ravel(), good)
    for reason, vector in {
        "expected float64": good[:-1],
        "not finite": np.where(np.arange(20) == 9, np.inf, good),
        "negative or not whole": np.where(np.arange(20) == 10, -1, good),
        "not whole": np.where(np.arange(20) == 0, 1.5, good),
    }.items():
        with pytest.raises(CalibrationError, match=reason):
            calibration.check(vector, 30, 3, 2)


# --- Private runs


@examples(45)
@given(st.integers(1, 6), st.integers(1, 5), st.data())
def test_a_record_changes_the_sums_by_no_more_than_the_noise_is_for(num, size, data):
    check_bound(*private_sums(VirtualFeatures, Keys()), num, size, data)


def test_some_record_changes_them_by_nearly_as_much():
    assert largest_change(*private_sums(VirtualFeatures, Keys())) > 0.99


@pytest.mark.parametrize("noise", [1.0, 30.0])
def test_noisy_moments_become_possible_ones(noise):
    """Also those of a class without examples, and of an empty client alone."""
    features, labels = features_on_grid(200, 3)
    total = class_moments(features, labels, CLASSES).ravel()
    calibration = VirtualFeatures(Keys(), RunKeys(batch_size=0), PRIVATE)
    deviations = noise * np.sqrt(calibration.variances(3, CLASSES))
    noisy = total + deviations * np.random.default_rng(1).normal(size=len(deviations))
    head = {"weight": np.zeros((CLASSES, 3), np.float32), "bias": np.zeros(CLASSES, np.float32)}
    if noise > 10:
        with pytest.raises(CalibrationError, match="the noise leaves no class"):
            calibration.private_classifier(noisy, head, noise)
        return
    assert np.isfinite(calibration.private_classifier(noisy, head, noise)["weight"]).all()
