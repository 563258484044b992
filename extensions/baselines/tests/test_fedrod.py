"""Fed-RoD against its two losses in NumPy, and what it becomes in its limits."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_learning import (
    CLASSES,
    Examples,
    assert_near,
    batches,
    cross_entropy,
    features,
    gradient,
    learner,
    softmax_loss,
    state,
)

RATE, EPOCHS = 0.3, 2
SOME = torch.tensor([0, 1, 1, 0, 1, 2, 1, 1])
LACKING = torch.tensor([0, 2, 2, 0, 2, 2, 2, 0])
EVEN = torch.tensor([0, 1, 2, 0, 1, 2])


def with_labels(labels, method="fedrod", **settings):
    """A learner whose examples have these labels."""
    found = learner(method, **{"learning_rate": RATE, "local_epochs": EPOCHS} | settings)
    task = Examples(found.local.task.x[: len(labels)], labels, found.local.task.batch_size)
    return type(found)(replace(found.local, task=task))


def own_head(found):
    return {
        name.removeprefix("own-head/"): np.array(tensor.numpy(force=True))
        for name, tensor in found.local_state().items()
    }


def algorithm(shared, own, task, rounds=1, rate=RATE):
    """Shared parameters and own head after steps of both on the same logits."""
    shared, own = (
        {name: np.array(array, np.float64) for name, array in one.items()} for one in (shared, own)
    )
    with np.errstate(divide="ignore"):
        prior = np.log(np.bincount(task.train_labels.numpy(force=True), minlength=CLASSES))
    for _ in range(rounds * EPOCHS):
        for x, labels in batches(task):

            def balanced(moved):
                logits = features(moved, x) @ moved["head.weight"].T + moved["head.bias"]
                return cross_entropy(logits + prior, labels)

            z = features(shared, x)
            generic = z @ shared["head.weight"].T + shared["head.bias"]
            slopes = gradient(balanced, shared)
            own_slopes = gradient(
                lambda moved: cross_entropy(
                    generic + z @ moved["weight"].T + moved["bias"], labels
                ),
                own,
            )
            shared = {name: array - rate * slopes[name] for name, array in shared.items()}
            own = {name: array - rate * own_slopes[name] for name, array in own.items()}
    return shared, own


@pytest.mark.parametrize("labels", [SOME, LACKING, torch.zeros(8, dtype=torch.int64)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_heads_and_the_body_are_those_of_the_losses(labels, dtype):
    found = with_labels(labels, dtype=dtype)
    start, task = {name: np.array(array) for name, array in found.share().items()}, found.local.task
    found.receive(start)
    found.train()
    shared, own = algorithm(start, own_head(with_labels(labels)), task)
    tolerance = 1e-8 if dtype == torch.float64 else 50 * np.finfo(np.float32).eps
    assert_near(found.share(), shared, tolerance)
    assert_near(own_head(found), own, tolerance)
    found.receive(start)
    found.train()
    # it goes on from where it was
    assert_near(own_head(found), algorithm(start, own, task)[1], 2 * tolerance)


def test_the_loss_is_the_sum_of_both():
    found = with_labels(SOME, local_epochs=1, batch_size=8)
    start = {name: np.array(array) for name, array in found.share().items()}
    ((x, labels),) = batches(found.local.task)
    logits = features(start, x) @ start["head.weight"].T + start["head.bias"]
    balanced = cross_entropy(logits + np.log(np.bincount(labels)), labels)
    trained = found.train()
    # the own head is still 0
    assert trained.loss == pytest.approx(balanced + softmax_loss(start, x, labels))
    assert trained.steps == 1


def test_a_class_that_the_client_lacks_leaves_its_row_of_the_generic_head_alone():
    found = with_labels(LACKING)
    before = {name: np.array(array) for name, array in found.share().items()}
    found.train()
    for name in ("head.weight", "head.bias"):
        np.testing.assert_array_equal(found.share()[name][1], before[name][1])
        assert np.abs(found.share()[name][[0, 2]] - before[name][[0, 2]]).max() > 1e-3
    assert own_head(found)["bias"][1] < 0  # which the own head learns


def test_where_all_classes_are_as_frequent_what_is_shared_is_fedavgs():
    found, fedavg = with_labels(EVEN), with_labels(EVEN, "fedavg")
    found.train(), fedavg.train()
    assert_near(found.share(), fedavg.share(), 1e-15)
    uneven, plain = with_labels(SOME), with_labels(SOME, "fedavg")
    uneven.train(), plain.train()
    assert np.abs(uneven.share()["head.bias"] - plain.share()["head.bias"]).max() > 1e-3


def test_what_is_scored_is_the_sum_and_begins_as_the_generic_model():
    found = with_labels(SOME)
    x, shared = found.local.task.x, state(found.local.model)
    generic = features(shared, x.numpy(force=True)) @ shared["head.weight"].T + shared["head.bias"]
    np.testing.assert_allclose(found.scored(x).numpy(force=True), generic, rtol=0, atol=1e-14)
    found.train()
    shared, own = state(found.local.model), own_head(found)
    z = features(shared, x.numpy(force=True))
    expected = z @ (shared["head.weight"] + own["weight"]).T + shared["head.bias"] + own["bias"]
    np.testing.assert_allclose(found.scored(x).numpy(force=True), expected, rtol=0, atol=1e-14)
    assert found.share().keys() == shared.keys()
    kept = {
        name: np.array(tensor.numpy(force=True)) for name, tensor in found.local_state().items()
    }
    np.testing.assert_array_equal(
        type(found).restored(found.local.model, kept)(x).numpy(force=True),
        found.scored(x).numpy(force=True),
    )
    generic = z @ shared["head.weight"].T + shared["head.bias"]
    # whose head is as it was
    np.testing.assert_allclose(found.local.model(x).numpy(force=True), generic, rtol=0, atol=1e-14)


def test_its_own_optimiser_begins_every_round_at_rest():
    """Momentum left over from the first round would show in the second."""
    one, other = with_labels(SOME, momentum=0.9), with_labels(SOME, momentum=0.9)
    one.train()
    with torch.no_grad():
        for name, tensor in other.local_state().items():
            tensor.copy_(one.local_state()[name])
    start = {name: np.array(array) for name, array in one.share().items()}
    for found in (one, other):
        found.local.optimizer.reset()
        found.receive(start)
        found.train()
    assert_near(own_head(one), own_head(other), 0)
