"""pFedMe against its Algorithm 1 in NumPy, on both sides."""

import numpy as np
import pytest
import torch
from errors import refuses
from tiny_learning import (
    Arrays,
    assert_near,
    batches,
    drawn,
    gradient,
    learner,
    softmax_loss,
    state,
)

from curvfed.extensions.baselines.methods.pfedme import Keys, PFedMeServer
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.checks import MessageError

RATE = 0.3
EPOCHS = 2


def rounds_of(client, count=2):
    """What a server sends that sends what it likes, each trained on."""
    rng = np.random.default_rng(7)
    sent = []
    for _ in range(count):
        arrays = drawn(client, rng)
        sent.append(arrays)
        client.receive(arrays)
        client.train()
    return sent


def algorithm(
    received: Arrays, task, penalty, steps, rate, epochs=EPOCHS, inner=RATE
) -> tuple[Arrays, Arrays]:
    """θ and w after a round."""
    shared = {name: np.array(array, np.float64) for name, array in received.items()}
    personal = dict(shared)
    for _ in range(epochs):
        for x, labels in batches(task):
            for _ in range(steps):
                slopes = gradient(lambda moved: softmax_loss(moved, x, labels), personal)
                personal = {
                    name: personal[name]
                    - inner * (slopes[name] + penalty * (personal[name] - shared[name]))
                    for name in personal
                }
            shared = {
                name: shared[name] - rate * penalty * (shared[name] - personal[name])
                for name in personal
            }
    return personal, shared


@pytest.mark.parametrize(
    ("penalty", "steps", "rate"), [(1.0, 5, 0.3), (0.5, 2, 1.0), (2.0, 1, 0.01)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_models_are_those_of_the_algorithm(penalty, steps, rate, dtype):
    client = learner(
        "pfedme",
        dtype=dtype,
        learning_rate=RATE,
        local_epochs=EPOCHS,
        pfedme__penalty=penalty,
        pfedme__steps=steps,
        pfedme__rate=rate,
    )
    sent = rounds_of(client)
    personal, shared = algorithm(sent[-1], client.local.task, penalty, steps, rate)
    tolerance = 1e-8 if dtype == torch.float64 else 100 * np.finfo(np.float32).eps
    assert_near(state(client.scored), personal, tolerance)
    assert_near(client.share(), shared, tolerance)
    assert max(np.abs(personal[name] - shared[name]).max() for name in personal) > 1e-3


def test_loss_and_steps_are_those_of_the_own_and_of_the_shared_model():
    client = learner("pfedme", learning_rate=RATE, local_epochs=1, batch_size=8, pfedme__steps=3)
    start = {name: np.array(array) for name, array in client.share().items()}
    losses = []
    for done in range(3):
        personal, _ = algorithm(start, client.local.task, 1.0, done, 0.0, epochs=1)
        losses.append(softmax_loss(personal, *batches(client.local.task)[0]))
    trained = client.train()
    assert trained.loss == pytest.approx(np.mean(losses), abs=1e-8)
    assert trained.steps == 1


def test_steps_are_plain_at_the_rate_of_the_round_whatever_the_optimiser():
    settings = {"local_epochs": EPOCHS, "learning_rate": RATE, "clip_norm": 0.4}
    plain = learner("pfedme", **settings)
    rounds_of(plain)
    for optimiser in ({"momentum": 0.9}, {"optimizer": "adam"}):
        client = learner("pfedme", **settings | optimiser)
        rounds_of(client)
        assert_near(client.share(), plain.share(), 0)
    slower = learner("pfedme", **settings | {"learning_rate": 1.0})
    slower.local.optimizer.learning_rate = RATE  # as a schedule sets it
    rounds_of(slower)
    assert_near(slower.share(), plain.share(), 0)


def replies(dtype, sizes=(3, 0, 5)):
    rng = np.random.default_rng(3)
    models = [
        {
            "w": rng.normal(size=(2, 3)).astype(dtype),
            "n.running_var": rng.uniform(size=2).astype(dtype),
        }
        for _ in sizes
    ]
    return {
        2 * place: Statistics(model, size)
        for place, (size, model) in enumerate(zip(sizes, models, strict=True))
    }


@pytest.mark.parametrize("beta", [0.25, 1.0, 2.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_server_goes_beta_of_the_way_to_the_mean(beta, dtype):
    start = {"w": np.full((2, 3), 4.0, dtype), "n.running_var": np.full(2, 9.0, dtype)}
    came = replies(dtype)
    server = PFedMeServer(start, Keys(beta=beta))
    server.aggregate(came)
    for name, way in (("w", beta), ("n.running_var", 1.0)):
        first, second = (came[place].arrays[name].astype(np.float64) for place in (0, 4))
        mean = (3 * first + 5 * second) / 8
        expected = (1 - way) * start[name] + way * mean
        np.testing.assert_allclose(
            server.global_model()[name], expected, rtol=0, atol=20 * np.finfo(dtype).eps
        )
        assert server.global_model()[name].dtype == dtype
    resumed = PFedMeServer(start, Keys(beta=beta))
    resumed.load(server.state())
    assert_near(resumed.sent_to(4), server.sent_to(4), 0)


def test_what_does_not_fit_is_refused(tmp_path):
    client = learner("pfedme")
    arrays = client.share()
    with refuses("parameters", "own/head.bias", error=MessageError):
        client.receive(arrays | {"own/head.bias": arrays["head.bias"]})
    for key, value in (("penalty", 0.0), ("steps", 0), ("rate", -1.0), ("beta", 0.0)):
        with refuses("value", f"pfedme.{key} = {value}", error=ConfigError):
            learner("pfedme", **{f"pfedme__{key}": value})
