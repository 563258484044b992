"""Accuracy and ROC-AUC against scikit-learn."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from curvfed.tasks.task import roc_auc, score

scores = st.floats(-1e300, 1e300) | st.integers(-3, 3).map(float)  # the latter for ties
examples = st.lists(st.tuples(scores, st.booleans()), min_size=2, max_size=60)


def tensors(pairs):
    return torch.tensor([pair[0] for pair in pairs], dtype=torch.float64), torch.tensor(
        [pair[1] for pair in pairs]
    )


@given(examples)
def test_roc_auc_is_the_share_of_pairs_in_order(pairs):
    values, positive = tensors(pairs)
    upper, lower = values[positive].tolist(), values[~positive].tolist()
    won = sum((high > low) + (high == low) / 2 for high in upper for low in lower)
    expected = won / (len(upper) * len(lower)) if upper and lower else None
    assert roc_auc(values, positive) == (
        None if expected is None else pytest.approx(expected, abs=1e-14)
    )


@given(st.integers(2, 6), st.integers(1, 50), st.integers(0, 2**32 - 1))
def test_accuracy_is_that_of_scikit_learn(classes, number, seed):
    from sklearn.metrics import accuracy_score

    rng = np.random.default_rng(seed)
    logits, labels = (
        rng.normal(size=(number, classes)).astype(np.float32),
        rng.integers(classes, size=number),
    )
    expected = accuracy_score(labels, logits.argmax(axis=1))
    assert score("accuracy", torch.from_numpy(logits), torch.from_numpy(labels)) == pytest.approx(
        expected, abs=1e-15
    )


def test_roc_auc_of_logits_takes_the_second_class_as_positive():
    logits = torch.tensor([[2.0, 0.0], [0.0, 0.5], [1.0, 1.0], [0.0, 3.0]])
    assert score("roc_auc", logits, torch.tensor([0, 0, 1, 1])) == 0.75
    assert score("roc_auc", logits, torch.tensor([1, 1, 0, 0])) == 0.25


@pytest.mark.parametrize("metric", ["accuracy", "roc_auc"])
def test_no_examples_have_no_score(metric):
    assert score(metric, torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64)) is None


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_logits_that_are_not_finite_are_wrong(bad):
    logits, labels = torch.tensor([[bad, 0.0], [0.0, 1.0], [0.0, bad]]), torch.tensor([0, 1, 1])
    assert score("accuracy", logits, labels) == pytest.approx(1 / 3)
    assert score("roc_auc", logits, labels) is None
