"""FedExP's step against a program of NumPy's that takes the paper's formula as it stands."""

import numpy as np
import pytest

from curvfed.strategies.base.statistics import Statistics
from curvfed_fedexp.method import PREVIOUS, FedExp, Keys

EPSILON = 1e-3


def arrays(rng, scale=1.0):
    shapes = {"first.weight": (3, 4), "first.bias": (3,), "norm.running_mean": (3,)}
    return {
        name: (scale * rng.standard_normal(shape)).astype(np.float32)
        for name, shape in shapes.items()
    }


def by_paper(start, models):
    """Algorithm 1 over one long vector per client, in float64: the next iterate, and its
    extrapolation."""
    names = ["first.weight", "first.bias"]
    w, *clients = (
        np.concatenate([model[name].ravel() for name in names]).astype(float)
        for model in (start, *models)
    )
    updates = [w - client for client in clients]
    mean = sum(updates) / len(updates)
    eta = max(
        1, sum(update @ update for update in updates) / (2 * len(updates) * (mean @ mean + EPSILON))
    )
    return w - eta * mean, eta


@pytest.mark.parametrize("disagreement", [0.05, 1.0, 30.0])
def test_a_step_is_the_papers(disagreement):
    rng = np.random.default_rng(0)
    start, common = arrays(rng), arrays(rng)
    models = [
        {
            name: start[name] + common[name] + noise
            for name, noise in arrays(rng, disagreement).items()
        }
        for _ in range(5)
    ]
    server = FedExp(start, Keys(epsilon=EPSILON))
    server.aggregate({number: Statistics(model, 1) for number, model in enumerate(models)})
    wanted, eta = by_paper(start, models)
    sent = server.sent_to(0)
    assert server.round_figures == {"extrapolation": pytest.approx(eta, rel=1e-5)}
    assert eta > 1 if disagreement > 1 else eta >= 1
    np.testing.assert_allclose(
        np.concatenate([sent["first.weight"].ravel(), sent["first.bias"]]),
        wanted,
        rtol=1e-5,
        atol=1e-5,
    )
    mean = np.mean([model["norm.running_mean"] for model in models], axis=0)
    np.testing.assert_allclose(sent["norm.running_mean"], mean, rtol=1e-6)
    halfway = (start["first.weight"] + sent["first.weight"]) / 2
    np.testing.assert_allclose(server.global_model()["first.weight"], halfway, rtol=1e-6)
    np.testing.assert_allclose(server.global_model()["norm.running_mean"], mean, rtol=1e-6)


def test_without_disagreement_it_is_the_average():
    rng = np.random.default_rng(1)
    start, model = arrays(rng), arrays(rng)
    server = FedExp(start, Keys(epsilon=EPSILON))
    server.aggregate({0: Statistics(model, 3), 1: Statistics(model, 5)})
    assert server.round_figures == {"extrapolation": 1.0}
    np.testing.assert_allclose(
        server.sent_to(0)["first.weight"], model["first.weight"], rtol=1e-6, atol=1e-6
    )


def test_nobody_has_examples():
    start = arrays(np.random.default_rng(2))
    server = FedExp(start, Keys(epsilon=EPSILON))
    server.aggregate({0: Statistics(arrays(np.random.default_rng(3)), 0)})
    assert all(np.array_equal(server.sent_to(0)[name], start[name]) for name in start)


def test_the_state_is_both_iterates():
    rng = np.random.default_rng(4)
    start = arrays(rng)
    server, other = FedExp(start, Keys(epsilon=EPSILON)), FedExp(start, Keys(epsilon=EPSILON))
    server.aggregate({0: Statistics(arrays(rng), 1), 1: Statistics(arrays(rng), 1)})
    other.load(server.state())
    assert {PREVIOUS + name for name in start} < server.state().keys()
    for name in start:
        assert np.array_equal(other.global_model()[name], server.global_model()[name])
