"""Federated multi-task learning against its objective in NumPy, on both sides."""

import warnings

import numpy as np
import pytest
import torch
from errors import refuses
from scipy.linalg import LinAlgWarning, sqrtm
from tiny_learning import assert_near, descend, drawn, learner

from curvfed.extensions.baselines.methods.fedmtl import (
    RIDGE,
    FedMtlServer,
    Keys,
    learned_relations,
    mean_relations,
)
from curvfed.strategies.base.aggregation import AggregationError
from curvfed.strategies.base.statistics import Statistics

RATE = 0.3
EPOCHS = 2


def model(seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return {
        "w": rng.normal(size=(2, 3)).astype(dtype),
        "b": rng.normal(size=4).astype(dtype),
        "n.running_var": rng.uniform(size=2).astype(dtype),
    }


def vector(arrays):
    return np.concatenate([arrays[name].ravel() for name in ("w", "b")]).astype(np.float64)


def coupled(arrays):
    """The gradient Σ_j Ω_kj w_j that a client makes of what it is sent."""
    pulls = {
        name.removeprefix("pull/"): array
        for name, array in arrays.items()
        if name.startswith("pull/")
    }
    assert pulls.keys() == {"w", "b"}
    return arrays["pull-weight"][0] * vector(arrays) + vector(pulls)


def ridged(gram):
    """Ω by another way: a root by Schur's decomposition, and its inverse."""
    with (
        warnings.catch_warnings()
    ):  # of two equal columns the matrix is singular, which some processors' rounding shows
        warnings.simplefilter("ignore", LinAlgWarning)
        root = sqrtm(gram).real
    root += RIDGE * np.trace(root) / len(root) * np.eye(len(root))
    return np.linalg.inv(root / np.trace(root))


def server(relations, heard, clients=4, dtype=np.float64):
    aggregation = FedMtlServer(model(0, dtype), Keys(relations=relations), clients=range(clients))
    replies = {partition: Statistics(model(partition, dtype), 3) for partition in heard}
    aggregation.aggregate(replies)
    return aggregation


@pytest.mark.parametrize("relations", ["mean", "learned"])
@pytest.mark.parametrize("heard", [(1, 3, 6, 8), (1, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_client_is_sent_the_gradient_of_the_trace(relations, heard, dtype):
    """Of tr(W Ω Wᵀ)/2, by differences, exact but for rounding; two columns may be the start."""
    aggregation = server(relations, heard, dtype=dtype)
    columns = [vector(model(partition, dtype)) for partition in heard]
    columns += [vector(model(0, dtype))] * (4 - len(heard))
    matrix = np.stack(columns, axis=1)
    centre = np.eye(4) - np.full((4, 4), 0.25)
    omega = centre @ centre if relations == "mean" else ridged(matrix.T @ matrix)

    def coupling(moved):
        return np.trace(moved @ omega @ moved.T) / 2

    places = dict(zip(heard, range(4), strict=False)) | ({5: 3} if len(heard) < 4 else {})
    for partition, place in places.items():
        slopes = np.empty(len(matrix))
        for row in range(len(matrix)):
            step = np.zeros_like(matrix)
            step[row, place] = 1.0
            slopes[row] = (coupling(matrix + step) - coupling(matrix - step)) / 2
        # Of two equal columns the matrix is singular, and an error of eps in it is one of its root
        # in the root.
        if len(heard) == 4 or relations == "mean":
            relative = 2000 * np.finfo(dtype).eps
        else:
            relative = 10 * np.finfo(dtype).eps ** 0.5
        tolerance = relative * np.abs(omega).max()
        np.testing.assert_allclose(
            coupled(aggregation.sent_to(partition)), slopes, rtol=0, atol=tolerance
        )
        for name, array in model(partition if place < len(heard) else 0, dtype).items():
            np.testing.assert_array_equal(aggregation.sent_to(partition)[name], array)
            assert aggregation.sent_to(partition)[name].dtype == dtype


def test_the_learned_relations_are_of_least_trace_but_for_the_ridge(monkeypatch):
    """No other Ω with tr(Ω⁻¹) = 1 has a smaller tr(W Ω Wᵀ)."""
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(9, 4))
    gram = matrix.T @ matrix
    np.testing.assert_allclose(learned_relations(gram), ridged(gram), rtol=1e-9)
    of_equal_models = learned_relations(np.ones((4, 4)))
    bound = 4 * (1 + 1 / RIDGE)
    assert np.linalg.eigvalsh(of_equal_models).max() < bound * (1 + 1e-12)
    monkeypatch.setattr("curvfed.extensions.baselines.methods.fedmtl.RIDGE", 0.0)
    best = learned_relations(gram)
    assert np.trace(np.linalg.inv(best)) == pytest.approx(1)
    for _ in range(50):
        left_factor = 0.02 * rng.normal(size=(4, 4))
        change = left_factor @ np.diag([1, 0, 0, 0]) @ rng.normal(size=(4, 4))
        root = np.linalg.inv(best) + change
        rival = root @ root.T
        rival = np.linalg.inv(rival / np.trace(rival))
        smallest = np.trace(matrix @ best @ matrix.T)
        assert np.trace(matrix @ rival @ matrix.T) > smallest * (1 - 1e-12)


@pytest.mark.parametrize("relations", ["mean", "learned"])
def test_clients_without_examples_are_sent_the_mean_and_draw_nobody(relations):
    aggregation = server(relations, (1, 3), clients=3)
    aggregation.aggregate({8: Statistics(model(8), 0)})
    without = server(relations, (1, 3), clients=2)
    for partition in (1, 3):
        assert_near(aggregation.sent_to(partition), without.sent_to(partition), 0)
    expected = (vector(model(1)) + vector(model(3))) / 2
    np.testing.assert_allclose(vector(aggregation.sent_to(8)), expected, rtol=0, atol=1e-15)
    assert not coupled(aggregation.sent_to(8)).any()
    nobody = server(relations, (), clients=1)
    nobody.aggregate({0: Statistics(model(3), 0)})
    assert_near({name: nobody.sent_to(0)[name] for name in model(0)}, model(0), 0)


# --- The client


def sent_to(client, weight=0.75, seed=7):
    """What a server sends that sends what it likes."""
    rng = np.random.default_rng(seed)
    draw = drawn(client, rng)
    pulls = {f"pull/{name}": array for name, array in drawn(client, rng).items()}
    return draw | pulls | {"pull-weight": np.array([weight])}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_are_along_the_gradient_of_the_objective(dtype):
    client = learner(
        "fedmtl",
        dtype=dtype,
        learning_rate=RATE,
        local_epochs=EPOCHS,
        fedmtl__coupling=0.8,
        fedmtl__ridge=0.3,
    )
    for seed in (7, 8):
        arrays = sent_to(client, seed=seed)
        client.receive(arrays)
        start = {name: np.array(array) for name, array in client.share().items()}
        assert_near(start, {name: arrays[name] for name in start}, 0)
        client.train()
        expected = descend(
            start,
            client.local.task,
            RATE,
            EPOCHS,
            lambda w: {
                name: 0.8 * (0.75 * w[name] + arrays[f"pull/{name}"]) + 0.3 * w[name] for name in w
            },
        )
    assert_near(
        client.share(), expected, 1e-8 if dtype == torch.float64 else 100 * np.finfo(np.float32).eps
    )
    assert not client.local_state()


# --- Whole runs


def test_relations_before_anyone_replied_and_of_nothing():
    aggregation = FedMtlServer(model(0), Keys(relations="learned"), clients=range(4))
    np.testing.assert_allclose(coupled(aggregation.sent_to(2)), 4 * vector(model(0)), rtol=1e-14)
    np.testing.assert_array_equal(learned_relations(np.zeros((3, 3))), 3 * np.eye(3))
    by_mean = FedMtlServer(model(0), Keys(relations="mean"), clients=range(4))
    np.testing.assert_allclose(coupled(by_mean.sent_to(2)), np.zeros(10), atol=1e-15)
    assert mean_relations(1).tolist() == [[0.0]]


@pytest.mark.parametrize("relations", ["mean", "learned"])
def test_a_stored_state_goes_on_as_it_was(relations):
    undisturbed = server(relations, (1, 3), clients=5)
    replies = {4: Statistics(model(4), 0), 3: Statistics(model(9), 2)}
    undisturbed.aggregate(replies)
    resumed = FedMtlServer(model(7), Keys(relations=relations), clients=range(5))
    resumed.load(dict(reversed(undisturbed.state().items())))
    for partition in (0, 1, 3, 4):
        assert_near(resumed.sent_to(partition), undisturbed.sent_to(partition), 0)
        assert resumed.expected_reply(partition).keys() == model(0).keys()
    assert_near(resumed.state(), undisturbed.state(), 0)
    with refuses("parameters", error=AggregationError):
        replies = {1: Statistics({"w": np.zeros((2, 3))}, 1)}
        undisturbed.aggregate(replies)
