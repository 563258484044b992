"""FedDBE against its loss in NumPy, and the mean that its server keeps."""

import numpy as np
import pytest
import torch
from tiny_learning import (
    assert_near,
    batches,
    cross_entropy,
    drawn,
    features,
    gradient,
    learner,
    state,
)

from curvfed.extensions.baselines.methods.feddbe import MEAN, OFFSET, FedDbeServer
from curvfed.strategies.base.statistics import Statistics

RATE = 0.3
EPOCHS = 2


def algorithm(arrays, offset, common, task, kappa, momentum):
    """Shared parameters, offset and moving mean after a round; with no common mean as FedAvg."""
    moved = arrays | {OFFSET: offset}
    mean = np.zeros(2)
    for _ in range(EPOCHS):
        for x, labels in batches(task):

            def loss(a):
                z = features(a, x)
                if common is None:
                    return cross_entropy(z @ a["head.weight"].T + a["head.bias"], labels)
                logits = (z + a[OFFSET]) @ a["head.weight"].T + a["head.bias"]
                moving = (1 - momentum) * mean + momentum * z.mean(axis=0)
                return cross_entropy(logits, labels) + kappa * np.square(moving - common).mean() / 2

            slopes = gradient(loss, moved)
            mean = (1 - momentum) * mean + momentum * features(moved, x).mean(axis=0)
            moved = {name: array - RATE * slopes[name] for name, array in moved.items()}
    offset = moved.pop(OFFSET)
    return moved, offset, mean


@pytest.mark.parametrize(("kappa", "momentum"), [(2.0, 1.0), (0.5, 0.3)])
def test_rounds_of_a_client_are_those_of_the_loss(kappa, momentum):
    client = learner(
        "feddbe",
        learning_rate=RATE,
        local_epochs=EPOCHS,
        feddbe__kappa=kappa,
        feddbe__momentum=momentum,
    )
    common = np.array([0.4, -0.3])
    offset = np.zeros(2)
    rng = np.random.default_rng(5)
    for _ in range(2):
        sent = drawn(client, rng)
        sent[MEAN] = common
        client.receive(sent)
        client.train()
        del sent[MEAN]
        arrays, offset, _ = algorithm(sent, offset, common, client.local.task, kappa, momentum)
        assert_near(client.share(), arrays | {MEAN: common}, 1e-7)
    assert_near({OFFSET: client.local_state()[OFFSET].numpy(force=True)}, {OFFSET: offset}, 1e-7)
    x = client.local.task.x
    z = features(arrays, x.numpy())
    expected = (z + offset) @ arrays["head.weight"].T + arrays["head.bias"]
    stored = {OFFSET: offset}
    for model in (client.scored, client.restored(client.local.model, stored)):
        np.testing.assert_allclose(model(x).numpy(force=True), expected, rtol=0, atol=1e-6)


def test_without_a_common_mean_a_client_trains_as_in_fedavg():
    client, plain = (
        learner(method, learning_rate=RATE, local_epochs=EPOCHS) for method in ("feddbe", "fedavg")
    )
    start = state(plain.local.model)
    assert client.train() == plain.train()
    *_, mean = algorithm(start, np.zeros(2), None, client.local.task, 0.0, 1.0)
    assert_near({MEAN: client.share()[MEAN]}, {MEAN: mean}, 1e-7)
    assert_near(state(client.local.model), state(plain.local.model), 0)
    assert not torch.count_nonzero(client.local_state()[OFFSET])


def test_the_server_keeps_the_mean_of_the_first_round():
    start = {"head.weight": np.zeros((3, 2), np.float32)}
    server = FedDbeServer(start)

    def reply(value, weight):
        mean = np.full(2, value, np.float32)
        return Statistics(start | {MEAN: mean}, weight)

    server.aggregate({0: reply(1.0, 3), 1: reply(5.0, 1)})
    assert server.sent_to(0)[MEAN].tolist() == [2, 2]
    resumed = FedDbeServer(start)
    resumed.load(server.state())
    for continued in (server, resumed):
        continued.aggregate({0: reply(7.0, 1)})
        assert continued.sent_to(1)[MEAN].tolist() == [2, 2]
    assert MEAN not in server.global_model()
