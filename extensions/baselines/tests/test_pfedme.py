"""pFedMe against its Algorithm 1 in NumPy, on both sides, and what it becomes in its limits."""

import numpy as np
import pytest
import torch
from errors import refuses
from tiny_learning import Arrays, assert_near, batches, gradient, learner, softmax_loss, state

from curvfed.extensions.baselines.methods.pfedme import Keys, PFedMeServer
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.checks import MessageError

RATE, EPOCHS = 0.3, 2


def rounds_of(found, count=2):
    """What a server sends that sends what it likes, each trained on."""
    rng = np.random.default_rng(7)
    sent = []
    for _ in range(count):
        sent.append(
            {
                name: rng.normal(0, 0.7, array.shape).astype(array.dtype)
                for name, array in found.share().items()
            }
        )
        found.receive(sent[-1])
        found.train()
    return sent


def algorithm(
    received: Arrays, task, penalty, steps, rate, epochs=EPOCHS, inner=RATE
) -> tuple[Arrays, Arrays]:
    """θ and w after a round."""
    shared = {name: np.array(array, np.float64) for name, array in received.items()}
    own = dict(shared)
    for _ in range(epochs):
        for x, labels in batches(task):
            for _ in range(steps):
                slopes = gradient(lambda moved: softmax_loss(moved, x, labels), own)
                own = {
                    name: own[name] - inner * (slopes[name] + penalty * (own[name] - shared[name]))
                    for name in own
                }
            shared = {
                name: shared[name] - rate * penalty * (shared[name] - own[name]) for name in own
            }
    return own, shared


@pytest.mark.parametrize(
    ("penalty", "steps", "rate"), [(1.0, 5, 0.3), (0.5, 2, 1.0), (2.0, 1, 0.01)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_models_are_those_of_the_algorithm(penalty, steps, rate, dtype):
    found = learner(
        "pfedme",
        dtype=dtype,
        learning_rate=RATE,
        local_epochs=EPOCHS,
        pfedme__penalty=penalty,
        pfedme__steps=steps,
        pfedme__rate=rate,
    )
    sent = rounds_of(found)
    own, shared = algorithm(sent[-1], found.local.task, penalty, steps, rate)
    tolerance = 1e-8 if dtype == torch.float64 else 100 * np.finfo(np.float32).eps
    assert_near(state(found.scored), own, tolerance)
    assert_near(found.share(), shared, tolerance)
    assert max(np.abs(own[name] - shared[name]).max() for name in own) > 1e-3


def test_loss_and_steps_are_those_of_the_own_and_of_the_shared_model():
    found = learner("pfedme", learning_rate=RATE, local_epochs=1, batch_size=8, pfedme__steps=3)
    start = {name: np.array(array) for name, array in found.share().items()}
    losses = []
    for done in range(3):
        own, _ = algorithm(start, found.local.task, 1.0, done, 0.0, epochs=1)
        losses.append(softmax_loss(own, *batches(found.local.task)[0]))
    trained = found.train()
    assert trained.loss == pytest.approx(np.mean(losses), abs=1e-8)
    assert trained.steps == 1


def test_steps_are_plain_at_the_rate_of_the_round_whatever_the_optimiser():
    settings = {"local_epochs": EPOCHS, "learning_rate": RATE, "clip_norm": 0.4}
    plain = learner("pfedme", **settings)
    rounds_of(plain)
    for more in ({"momentum": 0.9}, {"optimizer": "adam"}):
        other = learner("pfedme", **settings | more)
        rounds_of(other)
        assert_near(other.share(), plain.share(), 0)
    slower = learner("pfedme", **settings | {"learning_rate": 1.0})
    slower.local.optimizer.learning_rate = RATE  # as a schedule sets it
    rounds_of(slower)
    assert_near(slower.share(), plain.share(), 0)


def test_with_one_inner_step_and_one_batch_it_is_fedavg_at_a_shorter_rate():
    found = learner(
        "pfedme",
        batch_size=8,
        learning_rate=RATE,
        local_epochs=1,
        pfedme__penalty=2.0,
        pfedme__steps=1,
        pfedme__rate=0.1,
    )
    fedavg = learner("fedavg", batch_size=8, learning_rate=RATE * 2.0 * 0.1, local_epochs=1)
    assert_near(rounds_of(found)[-1], rounds_of(fedavg)[-1], 0)
    assert_near(found.share(), fedavg.share(), 1e-15)


def test_a_shared_model_that_goes_all_the_way_takes_fedavgs_steps():
    """K = 1 and ηλ = 1: w is where θ is after every batch, and the penalty's gradient is 0."""
    found = learner(
        "pfedme",
        learning_rate=RATE,
        local_epochs=EPOCHS,
        pfedme__penalty=4.0,
        pfedme__steps=1,
        pfedme__rate=0.25,
    )
    fedavg = learner("fedavg", learning_rate=RATE, local_epochs=EPOCHS)
    rounds_of(found), rounds_of(fedavg)
    assert_near(found.share(), fedavg.share(), 1e-14)
    assert_near(state(found.scored), fedavg.share(), 1e-14)


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
    found = PFedMeServer(start, Keys(beta=beta))
    found.aggregate(came)
    for name, way in (("w", beta), ("n.running_var", 1.0)):
        one, other = (came[place].arrays[name].astype(np.float64) for place in (0, 4))
        expected = (1 - way) * start[name] + way * (3 * one + 5 * other) / 8
        np.testing.assert_allclose(
            found.global_model()[name], expected, rtol=0, atol=20 * np.finfo(dtype).eps
        )
        assert found.global_model()[name].dtype == dtype
    again = PFedMeServer(start, Keys(beta=beta))
    again.load(found.state())
    assert_near(again.sent_to(4), found.sent_to(4), 0)


def test_what_does_not_fit_is_refused(tmp_path):
    found = learner("pfedme")
    arrays = found.share()
    with refuses("parameters", "own/head.bias", error=MessageError):
        found.receive(arrays | {"own/head.bias": arrays["head.bias"]})
    for key, value in (("penalty", 0.0), ("steps", 0), ("rate", -1.0), ("beta", 0.0)):
        with refuses("value", f"pfedme.{key} = {value}", error=ConfigError):
            learner("pfedme", **{f"pfedme__{key}": value})
