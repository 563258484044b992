"""SCAFFOLD against its Algorithm 1 in NumPy, client and server."""

import numpy as np
import pytest
import torch
from app_runs import Recorder, run
from errors import refuses
from tiny_learning import (
    assert_near,
    batches,
    copied,
    drawn,
    gradient,
    learner,
    own_state,
    softmax_loss,
    state,
)

from curvfed.extensions.baselines.methods.scaffold import Keys, ScaffoldServer
from curvfed.server_app.callbacks.long_updates import update_lengths
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.codec import decode_arrays

RATE = 0.3
EPOCHS = 2
EPS = float(np.finfo(np.float32).eps)


def new(**settings):
    return learner("scaffold", **{"learning_rate": RATE, "local_epochs": EPOCHS} | settings)


def own_variate(client):
    return own_state(client, "own-variate/")


def split(arrays):
    """Parameters and variates."""
    variates = {
        name.removeprefix("variate/"): array
        for name, array in arrays.items()
        if name.startswith("variate/")
    }
    return {name: array for name, array in arrays.items() if name in variates}, variates


def corrected(task, x, common, variate, rate, momentum, decay=0.0):
    """y after EPOCHS passes of heavy-ball SGD on the corrected gradients, and the mean of the
    gradients that were met, each weighed by what it did to y."""
    y = {name: np.array(array, np.float64) for name, array in x.items()}
    speed = {name: np.zeros(array.shape) for name, array in x.items()}
    met = []
    for _ in range(EPOCHS):
        for inputs, labels in batches(task):
            slopes = gradient(lambda moved: softmax_loss(moved, inputs, labels), y)
            met.append({name: slope + decay * y[name] for name, slope in slopes.items()})
            for name in y:
                old_speed = momentum * speed[name]
                speed[name] = old_speed + met[-1][name] - variate[name] + common[name]
                y[name] = y[name] - rate * speed[name]
    weights = [sum(momentum**later for later in range(len(met) - step)) for step in range(len(met))]
    mean = {
        name: np.average([slopes_met[name] for slopes_met in met], axis=0, weights=weights)
        for name in y
    }
    return y, mean


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounds_of_a_client_are_those_of_the_algorithm(dtype, momentum):
    """Its variate is a mean of its own gradients, whatever the server's was."""
    client = new(dtype=dtype, momentum=momentum, weight_decay=0.01)
    rng = np.random.default_rng(7)
    variate = {name: np.zeros(array.shape) for name, array in state(client.scored).items()}
    tolerance = 1e-7 if dtype == torch.float64 else 300 * EPS
    for rate in (RATE, RATE, RATE / 4):  # the last as by a schedule
        sent = drawn(client, rng, 0.5)
        x, common = split(sent)
        client.receive(sent)
        client.local.optimizer.reset()
        client.local.optimizer.learning_rate = rate
        client.train()
        y, mean = corrected(client.local.task, x, common, variate, rate, momentum, decay=0.01)
        model, change = split(client.share())
        assert_near(model, y, tolerance)
        assert_near(change, {name: mean[name] - variate[name] for name in mean}, tolerance)
        assert_near(own_variate(client), mean, tolerance)
        variate = own_variate(client)


def test_a_round_without_training_moves_no_variate():
    client = new()
    rng = np.random.default_rng(1)
    client.receive(drawn(client, rng))
    client.train()
    variate = own_variate(client)
    sent = drawn(client, rng)
    assert any(array.any() for array in variate.values())
    client.receive(sent)
    model, change = split(client.share())
    assert_near(model, split(sent)[0], 0)
    assert not any(array.any() for array in change.values())
    assert_near(own_variate(client), variate, 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"variate/head.bias": None}, "missing ['variate/head.bias']"),
        ({"variate/other": np.zeros(3)}, "unexpected ['variate/other']"),
        (
            {"variate/head.bias": np.zeros(4)},
            "variate/head.bias is float64[4], expected float64[3]",
        ),
        (
            {"variate/head.bias": np.zeros(3, np.float32)},
            "variate/head.bias is float32[3], expected float64[3]",
        ),
        (
            {"variate/head.bias": np.array([0, np.nan, 0])},
            "variate/head.bias has values that are not finite",
        ),
    ],
)
def test_a_client_refuses_other_variates(change, words):
    client = new()
    before = copied(client)
    arrays = {name: array for name, array in (before | change).items() if array is not None}
    with pytest.raises(MessageError) as caught:
        client.receive(arrays)
    assert words in str(caught.value)
    assert_near(copied(client), before, 0)


# --- The server

NAMES = ("body.weight", "body.running_mean", "head.bias")


def arrays_of(rng, dtype=np.float64, variates=False):
    shapes = dict(zip(NAMES, ((3, 2), (2,), (4,)), strict=True))
    arrays = {name: rng.normal(size=shape).astype(dtype) for name, shape in shapes.items()}
    if variates:
        arrays |= {
            f"variate/{n}": rng.normal(size=s).astype(dtype)
            for n, s in shapes.items()
            if "running" not in n
        }
    return arrays


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("examples", [(1, 1, 1), (7, 1, 2), (5, 0, 3), (0, 2, 0)])
def test_the_server_steps_to_the_mean_and_averages_variates(examples, dtype):
    rng = np.random.default_rng(5)
    clients = 6
    rate = 0.7
    x = arrays_of(rng, dtype)
    server = ScaffoldServer(x, Keys(learning_rate=rate), clients=range(clients))
    assert {name for name in server.sent_to(0) if name.startswith("variate/")} == {
        "variate/body.weight",
        "variate/head.bias",
    }
    assert not any(
        array.any() for name, array in server.sent_to(0).items() if name.startswith("variate/")
    )
    c = {name: np.zeros(x[name].shape) for name in ("body.weight", "head.bias")}
    shares = np.array(examples) / sum(examples)
    taking = np.count_nonzero(examples)
    for _ in range(3):
        came = [arrays_of(rng, dtype, variates=True) for _ in examples]
        replies = {
            2 * k: Statistics(arrays, n, {"steps": 4})
            for k, (n, arrays) in enumerate(zip(examples, came, strict=True))
        }
        server.aggregate(replies)
        for name in x:
            step = sum(
                p * (arrays[name].astype(np.float64) - x[name])
                for p, arrays in zip(shares, came, strict=True)
            )
            x[name] = x[name] + (1 if "running" in name else rate) * step
        for name in c:
            mean = sum(
                p * arrays[f"variate/{name}"].astype(np.float64)
                for p, arrays in zip(shares, came, strict=True)
            )
            c[name] = c[name] + taking / clients * mean
        tolerance = 20 * np.finfo(dtype).eps
        assert_near(server.global_model(), x, tolerance)
        expected = x | {f"variate/{name}": array for name, array in c.items()}
        assert_near(server.sent_to(1), expected, tolerance)
        assert {array.dtype for array in server.sent_to(0).values()} == {np.dtype(dtype)}


# --- Both together


def federation(rounds, participants, clients=3):
    """A few learners of different data and a server of plain means, after full-batch rounds."""
    learners = [new(seed=k, batch_size=8, weight_decay=0.2, local_epochs=5) for k in range(clients)]
    server = ScaffoldServer(
        state(learners[0].scored), Keys(learning_rate=1.0), clients=range(clients)
    )
    for number in range(rounds):
        replies = {}
        for k in participants(number):
            learners[k].receive(server.sent_to(k))
            learners[k].train()
            replies[k] = Statistics(copied(learners[k]), 1)
        server.aggregate(replies)
    return server, learners


def test_the_servers_variate_is_the_mean_of_the_clients_whoever_took_part():
    server, learners = federation(7, lambda number: {number % 3, (number // 2) % 3})
    means = {
        name: np.mean([own_variate(client)[name] for client in learners], axis=0)
        for name in own_variate(learners[0])
    }
    assert_near(split(server.sent_to(0))[1], means, 1e-14)


# --- Whole runs

IMAGES = {
    "dataset": "digits",
    "images__train_subset": 240,
    "images__test_subset": 100,
    "batch_size": 32,
    "local_epochs": 2,
    "learning_rate": 0.02,
    "fine_tune_epochs": 0,
}


@pytest.mark.parametrize("weights", ["auto", "examples"])
def test_the_mean_of_a_run_is_unweighted_unless_reported(weights, tmp_path):
    recorder = Recorder()
    result = run(
        tmp_path, method="scaffold", weights=weights, num_rounds=1, intercept=recorder, **IMAGES
    )
    replies = recorder.replies("train")
    sizes = np.array([reply["header"]["num_examples"] for reply in replies], float)
    assert len(set(sizes)) > 1
    if weights == "auto":
        shares = np.full(3, 1 / 3)
    else:
        shares = sizes / sizes.sum()
    came = [decode_arrays(reply["arrays"]) for reply in replies]
    for name, array in result.model.items():
        mean = sum(
            share * arrays[name].astype(np.float64)
            for share, arrays in zip(shares, came, strict=True)
        )
        np.testing.assert_allclose(array, mean, rtol=0, atol=4 * EPS)


SGD_REFUSED = "optimizer-with-optimizer-state-with-method"


@pytest.mark.parametrize("keys", [{"optimizer": "adam"}, {"optimizer-state": "kept"}])
def test_it_is_for_sgd_from_rest_alone(keys):
    for dataset in ("digits", "trees"):
        with refuses(SGD_REFUSED, *keys.values(), "scaffold", error=ConfigError):
            parse({"method": "scaffold", "dataset": dataset} | keys)


def test_running_statistics_have_no_variate(tmp_path):
    recorder = Recorder()
    settings = IMAGES | {
        "images__norm": "batch",
        "model": "convnet",
        "num_rounds": 1,
        "local_epochs": 1,
    }
    result = run(tmp_path, method="scaffold", intercept=recorder, **settings)
    names = decode_arrays(recorder.replies("train")[0]["arrays"]).keys()
    running = {name for name in names if name.endswith(("running_mean", "running_var"))}
    assert len(running) == 14
    variates = {f"variate/{name}" for name in names if "variate/" not in name}
    assert variates - names == {f"variate/{name}" for name in running}
    assert result.summary["status"] == "completed"


def test_large_arrays_beside_the_model_hide_no_long_update():
    """Control variates are far longer than a round's steps."""
    server = ScaffoldServer({"w": np.zeros(2, np.float32)}, clients=range(4))
    server.load(server.state() | {"variate/w": np.full(2, 50, np.float32)})
    replies = {
        partition: Statistics(
            {"w": np.array([step, 0], np.float32), "variate/w": np.ones(2, np.float32)}, 1
        )
        for partition, step in enumerate([1, 1, 1, -10])
    }
    assert update_lengths(server, replies) == pytest.approx({0: 1, 1: 1, 2: 1, 3: 10})
