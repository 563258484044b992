"""Ditto against its Algorithm 1 in NumPy, and what it becomes in its limits."""

import numpy as np
import pytest
import torch
from app_runs import QUICK, run
from tiers import only
from tiny_learning import assert_near, descend, learner, state

RATE = 0.3
EPOCHS = 2


def trained(method: str = "ditto", rounds: int = 2, dtype: torch.dtype = torch.float64, **settings):
    """A learner after rounds in which the server sends what it likes, and what that was."""
    client = learner(
        method, dtype=dtype, **{"learning_rate": RATE, "local_epochs": EPOCHS} | settings
    )
    rng = np.random.default_rng(7)
    sent = []
    for _ in range(rounds):
        arrays = {
            name: rng.normal(0, 0.7, array.shape).astype(array.dtype)
            for name, array in client.share().items()
        }
        client.receive(arrays)
        client.train()
        sent.append(arrays)
    return client, sent


@pytest.mark.parametrize("mu", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_models_are_those_of_the_algorithm(mu, dtype):
    personal = state(learner("ditto", dtype=dtype).scored)
    client, sent = trained(dtype=dtype, ditto__mu=mu, ditto__epochs=3)
    for received in sent:
        personal = descend(
            personal,
            client.local.task,
            RATE,
            3,
            lambda v: {name: mu * (v[name] - received[name]) for name in v},
        )
    shared = descend(sent[-1], client.local.task, RATE, EPOCHS)
    tolerance = 1e-8 if dtype == torch.float64 else 50 * np.finfo(np.float32).eps
    assert_near(state(client.scored), personal, tolerance)
    assert_near(client.share(), shared, tolerance)
    stored = {
        name.removeprefix("own/"): tensor.numpy(force=True)
        for name, tensor in client.local_state().items()
    }
    assert_near(stored, personal, tolerance)


def test_what_is_shared_is_fedavgs_whatever_the_own_models_do():
    ditto, _ = trained(ditto__mu=1.5)
    fedavg, _ = trained("fedavg")
    assert_near(ditto.share(), fedavg.share(), 0)


def test_without_a_pull_the_own_model_is_trained_alone():
    ditto, _ = trained(ditto__mu=0.0, ditto__epochs=EPOCHS)
    local = learner("local", learning_rate=RATE, local_epochs=EPOCHS)
    for _ in range(2):
        local.train()
    assert_near(state(ditto.scored), state(local.scored), 0)


@pytest.mark.parametrize("dataset", ["digits", "trees"])
def test_a_run_of_ditto_shares_what_a_run_of_fedavg_does(dataset, tmp_path):
    """On graphs without dropout, whose draws the own models' training would shift."""
    settings = {
        "dataset": dataset,
        "num_rounds": 3,
        "dropout": 0.0,
        "fine_tune_epochs": 0,
        "batch_size": 0,
    }
    ditto = run(tmp_path, "ditto", method="ditto", optimizer_state="fresh", **settings)
    fedavg = run(tmp_path, "fedavg", method="fedavg", optimizer_state="fresh", **settings)
    assert ditto.model.keys() == fedavg.model.keys()
    for name, array in fedavg.model.items():
        np.testing.assert_allclose(ditto.model[name], array, rtol=0, atol=1e-5)
    assert ditto.summary["global_accuracy"] == pytest.approx(
        fedavg.summary["global_accuracy"], abs=0.01
    )
    assert ditto.summary["personal_accuracy_mean"] != fedavg.summary["personal_accuracy_mean"]


@pytest.mark.parametrize("method", only(["ditto", "fedrod"], "ditto".__eq__))
def test_the_second_optimiser_keeps_its_moments_if_asked_to(method, tmp_path):
    settings = QUICK["images"] | {"method": method, "num_rounds": 3}
    stored = run(tmp_path, "kept", optimizer_state="kept", **settings)
    fresh = run(tmp_path, "fresh", optimizer_state="fresh", **settings)
    assert stored.rounds[0]["loss"] == fresh.rounds[0]["loss"]
    assert stored.summary["personal_accuracy_mean"] != fresh.summary["personal_accuracy_mean"]
    run(tmp_path, "half", optimizer_state="kept", **settings | {"num_rounds": 2})
    half = run(tmp_path, "half", optimizer_state="kept", resume=True, **settings)
    assert half.rounds[-1]["loss"] == stored.rounds[-1]["loss"]
    assert half.summary["personal_accuracy_mean"] == stored.summary["personal_accuracy_mean"]


def test_a_strong_pull_leaves_the_own_model_where_the_shared_one_was():
    """With λη = 1 a step lands on θ, but for the gradient's part; θ is the last one received."""
    ditto, sent = trained(ditto__mu=1e4, learning_rate=1e-4)
    for name, array in state(ditto.scored).items():
        np.testing.assert_allclose(array, sent[-1][name], rtol=0, atol=1e-3)
