"""MOON against its loss in NumPy."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_learning import (
    Examples,
    assert_near,
    batches,
    drawn,
    features,
    gradient,
    learner,
    own_state,
    softmax_loss,
    state,
)

from curvfed.tasks.task import Batch

RATE = 0.3
EPOCHS = 2
EPS = float(np.finfo(np.float32).eps)


def new(method="moon", **settings):
    return learner(method, **{"learning_rate": RATE, "local_epochs": EPOCHS} | settings)


def cosines(first, second):
    return (
        (first * second).sum(axis=1)
        / np.linalg.norm(first, axis=1)
        / np.linalg.norm(second, axis=1)
    )


def contrast(arrays, received, previous, x, tau):
    """The paper's Eq. 3, mean over the examples."""
    z, near, far = (features(weights, x) for weights in (arrays, received, previous))
    up, down = (np.exp(cosines(z, opposite) / tau) for opposite in (near, far))
    return float(-np.log(up / (up + down)).mean())


def descended(task, received, previous, mu, tau):
    """The model after a round, and the mean loss over its last pass."""
    model = {name: np.array(array, np.float64) for name, array in received.items()}
    for _ in range(EPOCHS):
        losses = []
        for x, labels in batches(task):

            def loss(a):
                contrasted = contrast(a, received, previous, x, tau)
                return softmax_loss(a, x, labels) + mu * contrasted

            slopes = gradient(loss, model)
            losses.append(loss(model))
            model = {name: array - RATE * slopes[name] for name, array in model.items()}
    return model, np.mean(losses)


@pytest.mark.parametrize(("mu", "tau"), [(0.0, 0.5), (1.0, 0.5), (3.0, 0.2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounds_of_a_client_are_those_of_the_paper(mu, tau, dtype):
    """At first its last model is the start, then the one that it ended its last round with."""
    client = new(dtype=dtype, moon__mu=mu, moon__temperature=tau)
    rng = np.random.default_rng(7)
    previous = state(client.scored)
    tolerance = 1e-7 if dtype == torch.float64 else 300 * EPS
    for _ in range(3):
        received = drawn(client, rng)
        assert_near(own_state(client, "previous/"), previous, tolerance)
        client.receive(received)
        trained = client.train()
        previous, loss = descended(client.local.task, received, previous, mu, tau)
        assert_near(client.share(), previous, tolerance)
        assert trained.loss == pytest.approx(loss, abs=10 * tolerance)
        assert_near(own_state(client, "previous/"), client.share(), 0)


def test_features_of_length_0_have_no_direction_and_do_no_harm():
    client = new()
    sent = {name: np.zeros_like(array) for name, array in client.share().items()}
    client.receive(sent)
    assert math.isfinite(client.train().loss)
    assert all(np.isfinite(array).all() for array in client.share().values())


class Rows(Examples):
    """The same examples as rows of one whole that the model computes, as with nodes of a graph."""

    def batches(self, model):
        for start in range(0, self.num_examples, self.batch_size):
            rows = torch.arange(start, min(start + self.batch_size, self.num_examples))
            yield Batch(self.x, self.train_labels[rows], rows)

    def loss(self, model, batch):
        return torch.nn.functional.cross_entropy(batch.select(model(batch.inputs)), batch.labels)


def test_where_examples_are_rows_of_a_whole_the_others_do_not_count():
    separate = new()
    in_rows = new()
    task = in_rows.local.task
    in_rows.local = replace(in_rows.local, task=Rows(task.x, task.train_labels, task.batch_size))
    rng = np.random.default_rng(5)
    for _ in range(2):
        sent = drawn(separate, rng)
        for client in (separate, in_rows):
            client.receive(sent)
        assert separate.train().loss == pytest.approx(in_rows.train().loss, abs=1e-13)
        assert_near(separate.share(), in_rows.share(), 1e-13)
