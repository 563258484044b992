"""Fed-RoD against its two losses in NumPy."""

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
    own_state,
    state,
)

RATE = 0.3
EPOCHS = 2
SOME = torch.tensor([0, 1, 1, 0, 1, 2, 1, 1])
LACKING = torch.tensor([0, 2, 2, 0, 2, 2, 2, 0])


def with_labels(labels, method="fedrod", **settings):
    """A learner whose examples have these labels."""
    client = learner(method, **{"learning_rate": RATE, "local_epochs": EPOCHS} | settings)
    task = Examples(client.local.task.x[: len(labels)], labels, client.local.task.batch_size)
    return type(client)(replace(client.local, task=task))


def own_head(client):
    return own_state(client, "own-head/")


def algorithm(shared, head, task, rounds=1, rate=RATE):
    """Shared parameters and own head after steps of both on the same logits."""
    shared, head = (
        {name: np.array(array, np.float64) for name, array in arrays.items()}
        for arrays in (shared, head)
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
                head,
            )
            shared = {name: array - rate * slopes[name] for name, array in shared.items()}
            head = {name: array - rate * own_slopes[name] for name, array in head.items()}
    return shared, head


@pytest.mark.parametrize("labels", [SOME, LACKING, torch.zeros(8, dtype=torch.int64)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_heads_and_the_body_are_those_of_the_losses(labels, dtype):
    client = with_labels(labels, dtype=dtype)
    start = {name: np.array(array) for name, array in client.share().items()}
    task = client.local.task
    client.receive(start)
    client.train()
    shared, head = algorithm(start, own_head(with_labels(labels)), task)
    tolerance = 1e-8 if dtype == torch.float64 else 50 * np.finfo(np.float32).eps
    assert_near(client.share(), shared, tolerance)
    assert_near(own_head(client), head, tolerance)
    client.receive(start)
    client.train()
    # it goes on from where it was
    assert_near(own_head(client), algorithm(start, head, task)[1], 2 * tolerance)


def test_what_is_scored_is_the_sum_and_begins_as_the_generic_model():
    client = with_labels(SOME)
    x = client.local.task.x
    shared = state(client.local.model)
    generic = features(shared, x.numpy(force=True)) @ shared["head.weight"].T + shared["head.bias"]
    np.testing.assert_allclose(client.scored(x).numpy(force=True), generic, rtol=0, atol=1e-14)
    client.train()
    shared = state(client.local.model)
    head = own_head(client)
    z = features(shared, x.numpy(force=True))
    weight = shared["head.weight"] + head["weight"]
    expected = z @ weight.T + shared["head.bias"] + head["bias"]
    np.testing.assert_allclose(client.scored(x).numpy(force=True), expected, rtol=0, atol=1e-14)
    assert client.share().keys() == shared.keys()
    restored = type(client).restored(client.local.model, own_state(client, ""))
    np.testing.assert_array_equal(restored(x).numpy(force=True), client.scored(x).numpy(force=True))
    generic = z @ shared["head.weight"].T + shared["head.bias"]
    # whose head is as it was
    np.testing.assert_allclose(client.local.model(x).numpy(force=True), generic, rtol=0, atol=1e-14)


def test_its_own_optimiser_begins_every_round_at_rest():
    """Momentum left over from the first round would show in the second."""
    trained = with_labels(SOME, momentum=0.9)
    fresh = with_labels(SOME, momentum=0.9)
    trained.train()
    with torch.no_grad():
        for name, tensor in fresh.local_state().items():
            tensor.copy_(trained.local_state()[name])
    start = {name: np.array(array) for name, array in trained.share().items()}
    for client in (trained, fresh):
        client.local.optimizer.reset()
        client.receive(start)
        client.train()
    assert_near(own_head(trained), own_head(fresh), 0)
