"""FedDyn against its authors' form and its paper's Algorithm 1 in NumPy."""

import numpy as np
import pytest
import torch
from app_runs import Recorder, run
from tiny_learning import assert_near, copied, descend, drawn, learner, own_state

from curvfed.extensions.baselines.methods.feddyn import FedDynServer
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.wire.codec import decode_arrays

RATE = 0.3
EPOCHS = 2
CLIENTS = 3
EPS = float(np.finfo(np.float32).eps)


def new(method="feddyn", **settings):
    return learner(method, **{"learning_rate": RATE, "local_epochs": EPOCHS} | settings)


def change(after, before):
    return {name: after[name].astype(np.float64) - before[name] for name in before}


def mean(models):
    return {name: np.mean([arrays[name] for arrays in models], axis=0) for name in models[0]}


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounds_of_a_client_are_those_of_the_authors(alpha, dtype):
    client = new(dtype=dtype, feddyn__alpha=alpha)
    rng = np.random.default_rng(7)
    drift = {name: np.zeros(array.shape) for name, array in client.share().items()}
    tolerance = 1e-8 if dtype == torch.float64 else 100 * EPS
    for _ in range(3):
        sent = drawn(client, rng)
        client.receive(sent)
        client.train()
        pull = lambda a: {name: alpha * (drift[name] + a[name] - sent[name]) for name in a}  # noqa: E731
        model = descend(sent, client.local.task, RATE, EPOCHS, pull)
        drift = {name: drift[name] + model[name] - sent[name] for name in drift}
        assert_near(client.share(), model, tolerance)
        assert_near(own_state(client, "drift/"), drift, tolerance)


def test_a_round_without_training_moves_no_drift():
    client = new()
    arrays = {name: array + 1 for name, array in copied(client).items()}
    client.receive(arrays)
    client.train()
    before = own_state(client, "drift/")
    assert all(array.any() for array in before.values())
    arrays = {name: array - 1 for name, array in copied(client).items()}
    client.receive(arrays)
    assert_near(own_state(client, "drift/"), before, 0)


def cohort(number):
    """Who takes part in a round: one, two or three of three."""
    return [(0, 1, 2), (1,), (0, 2), (1, 2)][number % 4]


def federation(rounds, method="feddyn", **settings):
    """The starts of the rounds of learners of different data under this server."""
    learners = [new(method, seed=k, **settings) for k in range(CLIENTS)]
    server = FedDynServer(copied(learners[0]), clients=range(CLIENTS))
    starts = [server.sent_to(0)]
    for number in range(rounds):
        replies = {}
        for k in cohort(number):
            learners[k].receive(server.sent_to(k))
            learners[k].train()
            replies[k] = Statistics(copied(learners[k]), 1)
        server.aggregate(replies)
        starts.append(server.sent_to(0))
    return starts, learners


def test_both_halves_together_are_algorithm_1_of_the_paper():
    """With the gradients ∇L_k that clients keep there, and the h of the server."""
    alpha = 0.2
    rounds = 6
    starts, learners = federation(rounds, feddyn__alpha=alpha)
    theta = starts[0]
    gradients = [
        {name: np.zeros(array.shape) for name, array in theta.items()} for _ in range(CLIENTS)
    ]
    h = gradients[0]
    for number in range(rounds):
        models = []
        for k in cohort(number):
            kept_gradient = gradients[k]
            start = theta
            pull = lambda a: {n: alpha * (a[n] - start[n]) - kept_gradient[n] for n in a}  # noqa: E731
            models.append(descend(theta, learners[k].local.task, RATE, EPOCHS, pull))
            moved = change(models[-1], theta)
            gradients[k] = {name: gradients[k][name] - alpha * moved[name] for name in theta}
        total = {name: sum(change(model, theta)[name] for model in models) for name in theta}
        h = {name: h[name] - alpha * total[name] / CLIENTS for name in theta}
        theta = {name: array - h[name] / alpha for name, array in mean(models).items()}
        assert_near(starts[number + 1], theta, 1e-6)


# --- The server


def arrays_of(rng, dtype=np.float64):
    shapes = {"body.weight": (3, 2), "body.running_var": (2,), "head.bias": (4,)}
    return {name: rng.normal(size=shape).astype(dtype) for name, shape in shapes.items()}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("examples", [(1, 1, 1), (7, 1, 2), (5, 0, 3), (0, 2, 0)])
def test_the_server_adds_the_mean_and_all_drift(examples, dtype):
    rng = np.random.default_rng(5)
    clients = 6
    theta = arrays_of(rng, dtype)
    server = FedDynServer(theta, clients=range(clients))
    drift = {name: np.zeros(array.shape) for name, array in theta.items()}
    shares = np.array(examples) / sum(examples)
    taking = np.count_nonzero(examples)
    for _ in range(3):
        came = [arrays_of(rng, dtype) for _ in examples]
        replies = {
            2 * k: Statistics(arrays, n)
            for k, (n, arrays) in enumerate(zip(examples, came, strict=True))
        }
        server.aggregate(replies)
        average = {
            n: sum(p * arrays[n].astype(np.float64) for p, arrays in zip(shares, came, strict=True))
            for n in theta
        }
        for name in ("body.weight", "head.bias"):
            drift[name] = drift[name] + taking / clients * (average[name] - theta[name])
        theta = {name: average[name] + drift[name] for name in theta}
        assert_near(server.sent_to(1), theta, 20 * np.finfo(dtype).eps)
        assert {array.dtype for array in server.state().values()} == {np.dtype(dtype)}


# --- Whole runs

SMALL = {
    "dataset": "digits",
    "images__train_subset": 240,
    "images__test_subset": 100,
    "batch_size": 32,
    "local_epochs": 2,
    "fine_tune_epochs": 0,
}


def sent_and_come(recorder):
    """By round: what all clients were sent, and what came back."""
    by_round = {}
    for request, reply in recorder.pairs:
        if request["header"]["phase"] == "train":
            both = by_round.setdefault(
                request["header"]["round"], (decode_arrays(request["arrays"]), [])
            )
            both[1].append(decode_arrays(reply["arrays"]))
    return [by_round[number] for number in sorted(by_round)]


def test_a_run_goes_by_the_unweighted_mean_and_all_drift(tmp_path):
    recorder = Recorder()
    settings = SMALL | {"num_rounds": 4, "clients": 4, "fraction_train": 0.5}
    result = run(tmp_path, method="feddyn", feddyn__alpha=0.1, intercept=recorder, **settings)
    rounds = sent_and_come(recorder)
    past = {
        name: np.zeros(array.shape)
        for name, array in result.model.items()
        if not name.startswith("drift/")
    }
    starts = [start for start, _ in rounds[1:]] + [{name: result.model[name] for name in past}]
    for (start, came), after in zip(rounds, starts, strict=True):
        models = [
            {name: array.astype(np.float64) for name, array in arrays.items()} for arrays in came
        ]
        step = change(mean(models), start)
        past = {name: past[name] + 2 / 4 * step[name] for name in past}
        expected = {name: start[name] + step[name] + past[name] for name in past}
        assert_near(after, expected, 20 * EPS)
