"""Closed-form calibration against least squares on pooled features, however divided."""

import numpy as np
import pytest
import torch
from errors import refuses
from hypothesis import given
from hypothesis import strategies as st

from curvfed.strategies.base.calibration import CalibrationError
from curvfed.strategies.base.guard import Guard
from curvfed.strategies.base.least_squares import AffineForm, Sums, check_trace, length, solve
from curvfed.strategies.base.run_keys import RunKeys


def data(rng, num, size, classes, dtype=np.float32):
    """Features of unit length that lean towards a direction of their class, and labels."""
    labels = rng.integers(0, classes, num)
    features = rng.standard_normal((num, size)) + 2 * rng.standard_normal((classes, size))[labels]
    return (features / np.linalg.norm(features, axis=1, keepdims=True)).astype(dtype), labels


def packed(features, labels, classes, batch=7):
    total = Sums.of(features[:0], labels[:0], classes).pack()
    for begin in range(0, len(features), batch):
        batch_slice = slice(begin, begin + batch)
        total += Sums.of(features[batch_slice], labels[batch_slice], classes).pack()
    return total


def calibrated(parts, size, classes, ridge):
    total = Sums.unpack(sum(packed(*examples, classes) for examples in parts), size, classes)
    return solve(total.gram, total.targets, ridge)


def centralised(features, labels, classes, ridge):
    """Least squares by the singular values of the features themselves; ridge as further rows."""
    z, y = features.astype(float), np.eye(classes)[labels]
    rows = np.concatenate([z, np.sqrt(ridge) * np.eye(z.shape[1])])
    return np.linalg.lstsq(rows, np.concatenate([y, np.zeros((z.shape[1], classes))]), rcond=1e-8)[
        0
    ].T


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ridge", [0, 1e-3, 1.0])
@pytest.mark.parametrize(
    ("size", "classes", "num"), [(20, 10, 600), (5, 30, 400), (1, 2, 10), (8, 1, 50), (1, 1, 3)]
)
def test_equals_a_centralised_solve(size, classes, num, ridge, dtype):
    rng = np.random.default_rng(size)
    features, labels = data(rng, num, size, classes, dtype)
    cuts = np.sort(rng.integers(0, num, 4))  # some client may be empty
    parts = list(zip(np.split(features, cuts), np.split(labels, cuts), strict=True))
    head = calibrated(parts, size, classes, ridge)
    assert head.shape == (classes, size)
    np.testing.assert_allclose(
        head, centralised(features, labels, classes, ridge), rtol=0, atol=1e-8
    )


def test_with_a_bias_it_is_the_least_squares_fit_of_pooled_features_and_a_one():
    """A client is empty, and nobody has class 3."""
    rng = np.random.default_rng(3)
    features, labels = data(rng, 200, 6, 3, np.float64)
    features *= rng.uniform(0.5, 4, (200, 1))
    form = AffineForm(None, RunKeys(), Guard(None))
    vectors = []
    for rows in (slice(0, 0), slice(0, 50), slice(50, 200)):
        vectors.append(form.summed(features[rows], labels[rows], 4))
        form.check(vectors[-1], len(labels[rows]), 6, 4)
    head = {"weight": np.zeros((4, 6), np.float64), "bias": np.zeros(4)}
    solved = form.classifier(sum(vectors), 200, head, 0.0)
    extended = np.hstack([features, np.ones((200, 1))])
    expected = np.linalg.lstsq(extended, np.eye(4)[labels], rcond=None)[0].T
    np.testing.assert_allclose(solved["weight"], expected[:, :-1], atol=1e-9)
    np.testing.assert_allclose(solved["bias"], expected[:, -1], atol=1e-9)
    assert not solved["weight"][3].any()
    with refuses("number-of-examples", error=CalibrationError):
        form.check(vectors[1], 49, 6, 4)


@pytest.mark.parametrize("num", [12, 300])
def test_features_of_low_rank_get_the_head_of_least_norm(num):
    """Fewer examples than dimensions, and features in a subspace."""
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.standard_normal((40, 40)))[0][:6]
    coordinates, labels = data(rng, num, 6, 4, np.float64)
    features = coordinates @ basis if num > 40 else data(rng, num, 40, 4, np.float64)[0]
    head = calibrated([(features, labels)], 40, 4, 0)
    np.testing.assert_allclose(head, centralised(features, labels, 4, 0), atol=1e-8)
    np.testing.assert_allclose(head, np.eye(4)[labels].T @ np.linalg.pinv(features).T, atol=1e-8)
    near = calibrated([(features, labels)], 40, 4, 1e-6)
    np.testing.assert_allclose(near, head, atol=1e-3)


def test_no_example_at_all_is_a_head_of_zeros():
    for ridge in (0, 1.0):
        np.testing.assert_array_equal(
            calibrated([(np.zeros((0, 3)), np.zeros(0, int))], 3, 2, ridge), np.zeros((2, 3))
        )


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 9))
def test_packing_there_and_back(size, classes, seed):
    rng = np.random.default_rng(seed)
    square, targets = rng.standard_normal((size, size)), rng.standard_normal((size, classes))
    vector = Sums(square @ square.T, targets).pack()
    assert vector.shape == (length(size, classes),) == (size * (size + 1) // 2 + size * classes,)
    back = Sums.unpack(vector, size, classes)
    np.testing.assert_array_equal(back.gram, back.gram.T)
    np.testing.assert_allclose(back.gram, square @ square.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(back.targets, targets)
    np.testing.assert_array_equal(back.pack(), vector)


@pytest.mark.parametrize("size", [1, 2, 20, 512])
def test_the_trace_of_normalised_features_is_their_number(size):
    """In float32, 1e-9 to 1e15 long; one example less, or one not normalised, is seen."""
    generator = torch.Generator().manual_seed(size)
    raw = torch.randn(1000, size, generator=generator) * 10 ** torch.linspace(-9, 15, 1000)[:, None]
    features = torch.nn.functional.normalize(raw).numpy()
    labels = np.zeros(1000, int)
    gram = Sums.unpack(packed(features, labels, 1), size, 1).gram
    check_trace(gram, 1000)
    for wrong in (999, 1001, 0):
        with refuses("trace", error=CalibrationError):
            check_trace(gram, wrong)
    features[0] *= 1.2
    with refuses("trace", error=CalibrationError):
        check_trace(Sums.unpack(packed(features, labels, 1), size, 1).gram, 1000)
    check_trace(np.zeros((size, size)), 0)


def test_bad_vectors_are_refused_without_their_values():
    good = packed(*data(np.random.default_rng(5), 10, 3, 2), 2)
    assert Sums.unpack(good, 3, 2).gram.shape == (3, 3)
    spoilt = {
        "float64\\[13\\], expected float64\\[12\\]": np.append(good, 0.0),
        "float32\\[12\\]": good.astype(np.float32),
        "float64\\[1, 12\\]": good[None],
        "not finite": np.where(np.arange(12) == 4, np.nan, good),
        "negative": np.where(np.arange(12) == 5, -1e-9, good),  # the last of the diagonal
    }
    for reason, vector in spoilt.items():
        with pytest.raises(CalibrationError, match=reason):
            Sums.unpack(vector, 3, 2)
