"""APPLE against its Algorithm 1 in NumPy, on both sides."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from app_runs import Recorder, array_names, run
from errors import refuses
from tiny_learning import (
    Arrays,
    assert_near,
    batches,
    gradient,
    learner,
    own_state,
    softmax_loss,
    state,
)

from curvfed.extensions.baselines.methods.apple import AppleServer, Keys
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.checks import MessageError

RATE = 0.3
EPOCHS = 2
OWN = 5
CLIENTS = (2, OWN, 7)
SMALL = {
    "dataset": "digits",
    "images__train_subset": 200,
    "images__test_subset": 50,
    "local_epochs": 2,
}


def apple_client(partitions=CLIENTS, partition=OWN, **settings):
    """The learner of client `partition` of these."""
    client = learner(
        "apple", **{"learning_rate": RATE, "local_epochs": EPOCHS, "num_rounds": 10} | settings
    )
    return type(client)(replace(client.local, partition=partition, partitions=partitions))


def messages(client, count, partitions=CLIENTS, chosen=CLIENTS):
    """Cores that a server sends that sends what it likes, and shares."""
    rng = np.random.default_rng(7)
    sent = []
    for _ in range(count):
        arrays = {
            f"core/{partition}/{name}": rng.normal(0, 0.7, array.shape).astype(array.dtype)
            for partition in chosen
            for name, array in client.share().items()
        }
        sizes = rng.integers(1, 9, len(partitions))
        sent.append(arrays | {"shares": sizes / sizes.sum()})
    return sent


def core(arrays: Arrays, partition: int) -> Arrays:
    prefix = f"core/{partition}/"
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def relations(client) -> np.ndarray:
    return np.array(client.local_state()["relations"].numpy(force=True))


def combined(cores: list[Arrays], weights) -> Arrays:
    return {
        name: sum(p * core[name].astype(np.float64) for p, core in zip(weights, cores, strict=True))
        for name in cores[0]
    }


def algorithm(cores, shares, apart, task, place, rate, penalty) -> tuple[Arrays, np.ndarray]:
    """The client's own core and p - p_0 after a round."""
    cores = [
        {name: np.array(array, np.float64) for name, array in arrays.items()} for arrays in cores
    ]
    apart = np.array(apart, np.float64)
    for _ in range(EPOCHS):
        for x, labels in batches(task):
            weights = shares + apart
            slopes = gradient(
                lambda moved: softmax_loss(moved, x, labels), combined(cores, weights)
            )
            products = np.array(
                [sum((slopes[name] * arrays[name]).sum() for name in slopes) for arrays in cores]
            )
            trained_core = cores[place]
            rate_of_core = RATE * len(cores) * weights[place]
            cores[place] = {
                name: trained_core[name] - rate_of_core * slopes[name] for name in trained_core
            }
            apart = apart - rate * (products + penalty * apart)
    return cores[place], apart


@pytest.mark.parametrize("number", [1, 2, 4, 5, 9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_core_and_relations_are_those_of_the_algorithm(number, dtype):
    """Of ten rounds the penalty counts in the first four, ever less."""
    if number <= 4:
        weight = (1 + math.cos(math.pi * (number - 1) / 4)) / 2
    else:
        weight = 0.0
    client = apple_client(dtype=dtype, apple__rate=0.05, apple__mu=4.0, apple__last=0.4)
    client.round = number
    apart = np.zeros(3)
    for arrays in messages(client, 2):
        client.receive(arrays)
        cores = [core(arrays, partition) for partition in CLIENTS]
        trained_core, apart = algorithm(
            cores, arrays["shares"], apart, client.local.task, 1, 0.05, 4.0 * weight
        )
        client.train()
    tolerance = 1e-8 if dtype == torch.float64 else 200 * np.finfo(np.float32).eps
    assert_near(client.share(), trained_core, tolerance)
    np.testing.assert_allclose(relations(client), apart, rtol=0, atol=tolerance)
    cores[1] = trained_core
    expected = combined(cores, arrays["shares"] + apart)
    assert_near(state(client.scored), expected, tolerance)
    assert_near(own_state(client, "own/"), expected, tolerance)


def test_before_training_the_model_is_what_came_by_the_relations_as_they_are():
    client = apple_client(apple__rate=0.05)
    first, second = messages(client, 2)
    client.receive(first)
    expected = combined([core(first, p) for p in CLIENTS], first["shares"])
    assert_near(state(client.scored), expected, 1e-14)
    client.train()
    client.receive(second)
    weights = second["shares"] + relations(client)
    assert_near(state(client.scored), combined([core(second, p) for p in CLIENTS], weights), 1e-14)
    assert np.abs(relations(client)).max() > 1e-3


def test_a_schedule_shortens_both_steps_and_moments_begin_at_rest():
    client, scheduled = (
        apple_client(momentum=0.9, apple__rate=rate, learning_rate=length)
        for rate, length in ((0.05, RATE), (0.1, 2 * RATE))
    )
    scheduled.local.optimizer.learning_rate = RATE
    first, second = messages(client, 2)
    for trainee in (client, scheduled):
        trainee.round = 1
        trainee.receive(first)
        trainee.train()
    assert_near(client.share(), scheduled.share(), 1e-15)
    np.testing.assert_allclose(relations(client), relations(scheduled), rtol=0, atol=1e-15)
    fresh = apple_client(momentum=0.9, apple__rate=0.05)
    fresh.round = 1
    with torch.no_grad():
        fresh.local_state()["relations"].copy_(client.local_state()["relations"])
    for trainee in (client, fresh):
        trainee.receive(second)
        trainee.train()
    assert_near(client.share(), fresh.share(), 0)


def test_of_a_few_cores_the_last_that_came_of_each_take_part():
    client = apple_client(apple__cores=1, apple__rate=0.0)
    start = {name: np.array(array) for name, array in client.share().items()}
    (first,), (second,) = (messages(client, 1, chosen=chosen) for chosen in ((2, OWN), (OWN, 7)))
    client.receive(first)
    expected = combined([core(first, 2), core(first, OWN), start], first["shares"])
    assert_near(state(client.scored), expected, 1e-14)
    client.receive(second)
    cores = [core(first, 2), core(second, OWN), core(second, 7)]
    assert_near(state(client.scored), combined(cores, second["shares"]), 1e-14)
    client.train()
    trained_core, _ = algorithm(
        cores, second["shares"], np.zeros(3), client.local.task, 1, 0.0, 0.0
    )
    assert_near(client.share(), trained_core)
    for name, array in trained_core.items():
        expected = np.stack([cores[0][name], array, cores[2][name]])
        np.testing.assert_allclose(
            client.local_state()[f"last/{name}"].numpy(force=True), expected, rtol=0, atol=1e-8
        )


def test_who_came_when_the_others_had_begun_is_refused():
    with refuses("new-client", "partition 4", "(2, 5, 7)", error=ConfigError):
        apple_client(partition=4)


# --- The server


def server(cores=0, partitions=CLIENTS, dtype=np.float32, seed=0):
    arrays = {"w": np.arange(6, dtype=dtype).reshape(2, 3), "b": np.zeros(2, dtype)}
    return AppleServer(arrays, Keys(cores=cores), RunKeys(seed=seed), partitions)


def update(value, examples=4):
    return Statistics(
        {"w": np.full((2, 3), value, np.float32), "b": np.full(2, value, np.float32)}, examples
    )


def test_a_reply_takes_the_place_of_the_clients_core_and_shares_go_by_examples():
    aggregation = server()
    start = aggregation.expected_reply(2)
    sent = aggregation.sent_to(2)
    cores = {f"core/{p}/{name}" for p in CLIENTS for name in ("w", "b")}
    assert sent.keys() == {"shares"} | cores
    assert all(np.array_equal(sent[f"core/{p}/w"], start["w"]) for p in CLIENTS)
    np.testing.assert_array_equal(sent["shares"], np.full(3, 1 / 3))
    aggregation.aggregate({2: update(1.0, 4), 5: update(2.0, 0)})
    sent = aggregation.sent_to(7)
    # that of 7 is not known: the mean of 4 and 0
    np.testing.assert_allclose(sent["shares"], np.array([4, 0, 2]) / 6)
    np.testing.assert_array_equal(sent["core/2/w"], np.full((2, 3), 1.0))
    np.testing.assert_array_equal(sent["core/5/w"], start["w"])  # it has learnt nothing
    aggregation.aggregate({7: update(3.0, 12)})
    sent = aggregation.sent_to(2)
    np.testing.assert_array_equal(sent["shares"], np.array([4, 0, 12]) / 16)
    np.testing.assert_array_equal(sent["core/2/w"], np.full((2, 3), 1.0))
    assert sent is aggregation.sent_to(5)  # encoded once
    resumed = server()
    resumed.load(aggregation.state())
    assert_near(resumed.sent_to(5), sent, 0)
    assert resumed.state().keys() == aggregation.state().keys()


def other_partitions(aggregation, partition):
    cores = [name for name in aggregation.sent_to(partition) if name.startswith("core/")]
    return {int(name.split("/")[1]) for name in cores} - {partition}


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_a_client_gets_a_few_cores_in_turn_and_loses_no_turn(cores):
    partitions = (0, 1, 2, 3, 4, 5, 6)
    aggregation = server(cores, partitions)
    neighbours = []
    for _ in range(12):
        neighbours.append(other_partitions(aggregation, 3))
        assert 1 <= len(neighbours[-1]) <= cores
        assert "core/3/w" in aggregation.sent_to(3)
        assert other_partitions(aggregation, 3) == neighbours[-1]
        aggregation.aggregate({5: update(0.5)})  # a round without it
        assert other_partitions(aggregation, 3) == neighbours[-1]
        resumed = server(cores, partitions)
        resumed.load(aggregation.state())
        assert other_partitions(resumed, 3) == neighbours[-1]
        aggregation.aggregate({3: update(1.0)})
    for first in range(0, 12, 6 // cores):
        turns = neighbours[first : first + 6 // cores]
        assert len(turns) < 6 // cores or set().union(*turns) == set(partitions) - {3}
    orders = {
        seed: [other_partitions(server(cores, partitions, seed=seed), p) for p in partitions]
        for seed in (0, 0, 1, 2)
    }
    assert orders[0] != orders[1] or orders[0] != orders[2]


# --- Whole runs


def test_clients_are_reported_who_the_others_are_by_no_other_method(tmp_path):
    for method, partitions in (("apple", [0, 1, 2]), ("ditto", [])):
        recorder = Recorder()
        run(tmp_path, method, intercept=recorder, **SMALL | {"method": method, "num_rounds": 1})
        assert {
            tuple(request["facts"]["partitions"]) for request in recorder.requests("train")
        } == {tuple(partitions)}
        assert all("relations" not in array_names(reply) for reply in recorder.replies())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"core/7/head.bias": None}, r"missing \['core/7/head.bias'\]"),
        ({"core/9/head.bias": np.zeros(3)}, r"unexpected \['core/9/head.bias'\]"),
        (
            {"core/2/head.bias": np.zeros(4)},
            r"core/2/head.bias is float64\[4\], expected float64\[3\]",
        ),
        (
            {"core/2/head.bias": np.full(3, math.nan)},
            "core/2/head.bias has values that are not finite",
        ),
        ({"shares": np.full(2, 0.5)}, r"shares is float64\[2\], expected float64\[3\]"),
        ({"shares": np.array([1.5, -0.5, 0.0])}, "shares has values below 0"),
        ({"relations": np.zeros(3)}, r"unexpected \['relations'\]"),
    ],
)
@pytest.mark.parametrize("cores", [0, 1])
def test_messages_that_do_not_fit_are_refused(change, reason, cores):
    client = apple_client(apple__cores=cores)
    (arrays,) = messages(client, 1)
    arrays = {name: array for name, array in (arrays | change).items() if array is not None}
    with pytest.raises(MessageError, match=reason):
        client.receive(arrays)
