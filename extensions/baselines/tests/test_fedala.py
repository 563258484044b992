"""FedALA against its Algorithm 1 in NumPy."""

from itertools import count

import numpy as np
import pytest
from tiny_learning import (
    assert_near,
    batches,
    descend,
    drawn,
    gradient,
    learner,
    softmax_loss,
    state,
)

from curvfed.extensions.baselines.methods import fedala

RATE = 0.3
EPOCHS = 2
ETA = 2.0
HEAD = ("head.weight", "head.bias")
BATCHES = 2
"""Of four: half of a pass."""


def mixed(own_model, received, weights, names):
    start = dict(received)
    for name in names:
        start[name] = own_model[name] + (received[name] - own_model[name]) * weights[name]
    return start


def learn(own_model, received, weights, names, task, passes):
    """The weights after passes over the first batches."""
    for _ in range(passes):
        for x, labels in batches(task)[:BATCHES]:
            start = mixed(own_model, received, weights, names)
            slopes = gradient(lambda a: softmax_loss(a, x, labels), start)
            weights = {
                name: np.clip(
                    weights[name] - ETA * slopes[name] * (received[name] - own_model[name]), 0, 1
                )
                for name in names
            }
    return weights


@pytest.mark.parametrize(("layers", "names"), [(1, HEAD), (9, ("body.0.weight", *HEAD))])
def test_rounds_of_a_client_are_those_of_the_algorithm(layers, names, monkeypatch):
    """The first round starts from what is received, whatever the start of the client; the first
    search for the weights ends after eleven passes, and each later round has one."""
    monkeypatch.setattr(fedala, "SPREAD", 1e3)
    client = learner(
        "fedala",
        learning_rate=RATE,
        local_epochs=EPOCHS,
        fedala__layers=layers,
        fedala__rate=ETA,
        fedala__sample=0.5,
    )
    task = client.local.task
    rng = np.random.default_rng(7)
    own_model = state(client.scored)
    weights = {name: np.ones_like(own_model[name]) for name in names}
    for passes in (0, 11, 1):
        received = drawn(client, rng)
        weights = learn(own_model, received, weights, names, task, passes)
        start = mixed(own_model, received, weights, names)
        own_model = descend(start if passes else received, task, RATE, EPOCHS)
        client.receive(received)
        client.train()
        assert_near(client.share(), own_model, 1e-6)
        assert_near(state(client.scored), own_model, 1e-6)
    assert 0 < min(weight.min() for weight in weights.values()) + 1 < 2  # not all are 1


def test_all_passes_of_a_search_are_over_the_same_batches(monkeypatch):
    monkeypatch.setattr(fedala, "SPREAD", 1e3)
    settings = {"fedala__rate": ETA, "fedala__sample": 0.5}
    clients = [learner("fedala", learning_rate=RATE, **settings) for _ in range(2)]
    rng = np.random.default_rng(8)
    sent = [drawn(clients[0], rng) for _ in range(2)]
    for client in clients:
        client.receive(sent[0])
        client.train()
    task = clients[1].local.task
    whole_pass = list(task.batches(clients[1].own))
    passes = count()

    def rotated(model):
        first = next(passes) % len(whole_pass)
        return iter(whole_pass[first:] + whole_pass[:first])

    monkeypatch.setattr(task, "batches", rotated)
    weights = []
    for client in clients:
        client.receive(sent[1])
        client.train()
        weights.append(client.local_state()["weight/head.weight"].numpy(force=True))
    assert weights[0].min() < 1
    assert_near({"weight": weights[1]}, {"weight": weights[0]}, 0)
