"""Ditto against its Algorithm 1 in NumPy."""

import numpy as np
import pytest
import torch
from app_runs import QUICK, run
from tiers import only
from tiny_learning import assert_near, descend, drawn, learner, own_state, state

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
        arrays = drawn(client, rng)
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
    assert_near(own_state(client, "own/"), personal, tolerance)


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
