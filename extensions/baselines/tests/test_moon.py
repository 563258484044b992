"""MOON against its loss in NumPy, and what it becomes in its limits."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from app_runs import run
from tiny_learning import (
    Examples,
    assert_near,
    batches,
    copied,
    features,
    gradient,
    learner,
    softmax_loss,
    state,
)

from curvfed.extensions.baselines.methods import moon
from curvfed.tasks.task import Batch

RATE = 0.3
EPOCHS = 2
EPS = float(np.finfo(np.float32).eps)


def new(method="moon", **settings):
    return learner(method, **{"learning_rate": RATE, "local_epochs": EPOCHS} | settings)


def drawn(client, rng):
    return {
        name: rng.normal(0, 0.7, array.shape).astype(array.dtype)
        for name, array in client.share().items()
    }


def previous_model(client):
    return {
        name.removeprefix("previous/"): np.array(tensor.numpy(force=True))
        for name, tensor in client.local_state().items()
    }


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
        assert_near(previous_model(client), previous, tolerance)
        client.receive(received)
        trained = client.train()
        previous, loss = descended(client.local.task, received, previous, mu, tau)
        assert_near(client.share(), previous, tolerance)
        assert trained.loss == pytest.approx(loss, abs=10 * tolerance)
        assert_near(previous_model(client), client.share(), 0)


def test_without_the_term_it_is_fedavg_to_the_bit_and_nothing_more_is_computed(monkeypatch):
    monkeypatch.setattr(
        moon, "_cosines", lambda *arguments: pytest.fail("a forward pass for nothing")
    )
    plain = new(moon__mu=0.0)
    fedavg = new("fedavg")
    rng = np.random.default_rng(3)
    for _ in range(2):
        sent = drawn(fedavg, rng)
        for client in (plain, fedavg):
            client.receive(sent)
        assert plain.train() == fedavg.train()
        assert_near(plain.share(), fedavg.share(), 0)


def test_from_the_start_on_the_term_is_log_2_and_moves_nothing():
    """As long as the model received is the client's last: both are the start."""
    contrasted = new(moon__mu=1.0)
    fedavg = new("fedavg")
    for client in (contrasted, fedavg):
        client.receive(copied(client))
    assert contrasted.train().loss == pytest.approx(fedavg.train().loss + math.log(2), abs=1e-14)
    assert_near(contrasted.share(), fedavg.share(), 1e-14)


def test_features_of_length_0_have_no_direction_and_do_no_harm():
    client = new()
    sent = {name: np.zeros_like(array) for name, array in client.share().items()}
    client.receive(sent)
    assert math.isfinite(client.train().loss)
    assert all(np.isfinite(array).all() for array in client.share().values())


class Rows(Examples):
    """The same examples as rows of one whole that the model always computes, as with the nodes of a
    graph."""

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


# --- Whole runs
# -------------------------------------------------------------------------------------------------------

SMALL = {
    "digits": {
        "images__train_subset": 240,
        "images__test_subset": 100,
        "batch_size": 32,
        "local_epochs": 2,
    },
    "trees": {"local_epochs": 2},
}


@pytest.mark.parametrize("dataset", SMALL)
def test_a_run_without_the_term_is_a_run_of_fedavg_to_the_bit(dataset, tmp_path):
    settings = SMALL[dataset] | {"dataset": dataset, "num_rounds": 3}
    plain = run(tmp_path, "moon", method="moon", moon__mu=0.0, **settings)
    fedavg = run(tmp_path, "fedavg", method="fedavg", **settings)
    assert plain.model.keys() == fedavg.model.keys()
    assert all(
        plain.model[name].tobytes() == array.tobytes() for name, array in fedavg.model.items()
    )
    assert plain.figures["clients"] == fedavg.figures["clients"]


@pytest.mark.parametrize("dataset", SMALL)
def test_the_first_round_of_a_run_is_fedavgs_whatever_the_term(dataset, tmp_path):
    """With the same draws of dropout: the models that are compared with draw none."""
    settings = SMALL[dataset] | {
        "dataset": dataset,
        "num_rounds": 1,
        "fine_tune_epochs": 0,
        "optimizer": "sgd",
    }
    contrasted = run(tmp_path, "moon", method="moon", moon__mu=2.0, **settings)
    fedavg = run(tmp_path, "fedavg", method="fedavg", **settings)
    for name, array in fedavg.model.items():
        np.testing.assert_allclose(contrasted.model[name], array, rtol=0, atol=1e-5)
    losses = [float(result.rounds[0]["loss"]) for result in (contrasted, fedavg)]
    assert losses[0] == pytest.approx(losses[1] + 2 * math.log(2), abs=1e-5)
