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

RATE, EPOCHS = 0.3, 2
EPS = float(np.finfo(np.float32).eps)


def new(method="moon", **settings):
    return learner(method, **{"learning_rate": RATE, "local_epochs": EPOCHS} | settings)


def drawn(found, rng):
    return {
        name: rng.normal(0, 0.7, array.shape).astype(array.dtype)
        for name, array in found.share().items()
    }


def kept(found):
    return {
        name.removeprefix("previous/"): np.array(tensor.numpy(force=True))
        for name, tensor in found.local_state().items()
    }


def cosines(one, other):
    return (one * other).sum(axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)


def contrast(arrays, received, previous, x, tau):
    """The paper's Eq. 3, mean over the examples."""
    z, near, far = (features(one, x) for one in (arrays, received, previous))
    up, down = (np.exp(cosines(z, other) / tau) for other in (near, far))
    return float(-np.log(up / (up + down)).mean())


def descended(task, received, previous, mu, tau):
    """The model after a round, and the mean loss over its last pass."""
    found = {name: np.array(array, np.float64) for name, array in received.items()}
    for _ in range(EPOCHS):
        losses = []
        for x, labels in batches(task):

            def loss(a):
                contrasted = contrast(a, received, previous, x, tau)
                return softmax_loss(a, x, labels) + mu * contrasted

            slopes = gradient(loss, found)
            losses.append(loss(found))
            found = {name: array - RATE * slopes[name] for name, array in found.items()}
    return found, np.mean(losses)


@pytest.mark.parametrize(("mu", "tau"), [(0.0, 0.5), (1.0, 0.5), (3.0, 0.2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounds_of_a_client_are_those_of_the_paper(mu, tau, dtype):
    """At first its last model is the start, then the one that it ended its last round with."""
    found, rng = new(dtype=dtype, moon__mu=mu, moon__temperature=tau), np.random.default_rng(7)
    previous = state(found.scored)
    tolerance = 1e-7 if dtype == torch.float64 else 300 * EPS
    for _ in range(3):
        received = drawn(found, rng)
        assert_near(kept(found), previous, tolerance)
        found.receive(received)
        trained = found.train()
        previous, loss = descended(found.local.task, received, previous, mu, tau)
        assert_near(found.share(), previous, tolerance)
        assert trained.loss == pytest.approx(loss, abs=10 * tolerance)
        assert_near(kept(found), found.share(), 0)


def test_without_the_term_it_is_fedavg_to_the_bit_and_nothing_more_is_computed(monkeypatch):
    monkeypatch.setattr(moon, "_cosines", lambda *given: pytest.fail("a forward pass for nothing"))
    one, other = new(moon__mu=0.0), new("fedavg")
    rng = np.random.default_rng(3)
    for _ in range(2):
        sent = drawn(other, rng)
        for found in (one, other):
            found.receive(sent)
        assert one.train() == other.train()
        assert_near(one.share(), other.share(), 0)


def test_from_the_start_on_the_term_is_log_2_and_moves_nothing():
    """As long as the model received is the client's last: both are the start."""
    one, other = new(moon__mu=1.0), new("fedavg")
    for found in (one, other):
        found.receive(copied(found))
    assert one.train().loss == pytest.approx(other.train().loss + math.log(2), abs=1e-14)
    assert_near(one.share(), other.share(), 1e-14)


def test_features_of_length_0_have_no_direction_and_do_no_harm():
    found = new()
    sent = {name: np.zeros_like(array) for name, array in found.share().items()}
    found.receive(sent)
    assert math.isfinite(found.train().loss)
    assert all(np.isfinite(array).all() for array in found.share().values())


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
    one, other = new(), new()
    whole = other.local.task
    other.local = replace(other.local, task=Rows(whole.x, whole.train_labels, whole.batch_size))
    rng = np.random.default_rng(5)
    for _ in range(2):
        sent = drawn(one, rng)
        for found in (one, other):
            found.receive(sent)
        assert one.train().loss == pytest.approx(other.train().loss, abs=1e-13)
        assert_near(one.share(), other.share(), 1e-13)


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
    one = run(tmp_path, "moon", method="moon", moon__mu=0.0, **settings)
    other = run(tmp_path, "fedavg", method="fedavg", **settings)
    assert one.model.keys() == other.model.keys()
    assert all(one.model[name].tobytes() == array.tobytes() for name, array in other.model.items())
    assert one.figures["clients"] == other.figures["clients"]


@pytest.mark.parametrize("dataset", SMALL)
def test_the_first_round_of_a_run_is_fedavgs_whatever_the_term(dataset, tmp_path):
    """With the same draws of dropout: the models that are compared with draw none."""
    settings = SMALL[dataset] | {
        "dataset": dataset,
        "num_rounds": 1,
        "fine_tune_epochs": 0,
        "optimizer": "sgd",
    }
    one = run(tmp_path, "moon", method="moon", moon__mu=2.0, **settings)
    other = run(tmp_path, "fedavg", method="fedavg", **settings)
    for name, array in other.model.items():
        np.testing.assert_allclose(one.model[name], array, rtol=0, atol=1e-5)
    losses = [float(found.rounds[0]["loss"]) for found in (one, other)]
    assert losses[0] == pytest.approx(losses[1] + 2 * math.log(2), abs=1e-5)
