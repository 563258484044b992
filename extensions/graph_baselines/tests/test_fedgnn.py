"""FedGNN's clipping and noise against NumPy, and what becomes of it without them."""

import math

import numpy as np
import pytest
import scipy.stats
from app_runs import Recorder, partition_of, real_nodes, run
from graph_fixtures import user_fields
from tiny_learning import assert_near, descend, drawn, learner, state

import curvfed.strategies.base.noise
from curvfed.strategies.base.noise import Noise
from curvfed.strategies.wire.codec import decode_arrays

RATE = 0.3
EPOCHS = 2
SEED = [3, 1, 4]
OFF = {"fedgnn__clip": 1e6, "fedgnn__noise": 0.0}


def trained(method="fedgnn", dtype=np.float64, rounds=2, **settings):
    """A learner after rounds in which the server sends what it likes, and what that was last."""
    import torch

    client = learner(
        method,
        dtype=torch.from_numpy(np.zeros(0, dtype)).dtype,
        dataset="trees",
        **{"learning_rate": RATE, "local_epochs": EPOCHS} | settings,
    )
    client.local.noise.seed(SEED)
    rng = np.random.default_rng(7)
    for _ in range(rounds):
        arrays = drawn(client, rng)
        client.receive(arrays)
        client.train()
    return client, arrays


def laplace(generator, shape):
    """Noise of eight bytes each, low ones first: 53 bits are the size, the lowest the sign."""
    numbers = []
    for _ in range(math.prod(shape)):
        word = int.from_bytes(generator.bytes(8), "little")
        size = -math.log(((word >> 11) + 1) / 2**53)
        numbers.append(-size if word % 2 else size)
    return np.array(numbers).reshape(shape)


@pytest.mark.parametrize("noise", [0.0, 0.4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_leaves_is_that_of_the_equation(noise, dtype):
    client, received = trained(dtype=dtype, rounds=1, fedgnn__clip=0.15, fedgnn__noise=noise)
    after = descend(received, client.local.task, RATE, EPOCHS)
    generator = np.random.default_rng(SEED)
    clipped = set()
    for name, start in received.items():
        gradient = (start - after[name]) / RATE
        clipped |= set((np.abs(gradient) > 0.15).ravel().tolist())
        hidden = np.clip(gradient, -0.15, 0.15) - noise * laplace(generator, start.shape)
        np.testing.assert_allclose(
            client.share()[name],
            start - RATE * hidden,
            rtol=0,
            atol=1e-8 if dtype == np.float64 else 50 * np.finfo(dtype).eps,
        )
        assert client.share()[name].dtype == dtype
    assert clipped == {True, False}
    assert_near(
        state(client.scored), after, 1e-8 if dtype == np.float64 else 50 * np.finfo(dtype).eps
    )


def test_noise_is_drawn_once_for_a_round_and_anew_for_the_next():
    client, received = trained(rounds=1)
    first = client.share()
    assert_near(client.share(), first, 0)
    client.receive(received)
    assert_near(client.share(), received, 0)  # as of a client that has nothing to train on
    client.train()
    assert all((client.share()[name] != array).all() for name, array in first.items())


def test_noise_is_laplacian():
    noise = Noise()
    noise.seed([1])
    drawn = noise.laplace((200, 1000))
    assert drawn.shape == (200, 1000)
    assert scipy.stats.kstest(drawn.ravel(), "laplace").pvalue > 0.01
    assert abs(np.corrcoef(drawn[:, :-1].ravel(), drawn[:, 1:].ravel())[0, 1]) < 0.01
    assert noise.laplace(()).shape == ()
    assert noise.laplace((0, 3)).shape == (0, 3)


def test_noise_without_a_seed_is_nobodys():
    first = Noise()
    second = Noise()
    assert (first.laplace((50,)) != second.laplace((50,))).all()
    assert scipy.stats.kstest(first.laplace((20_000,)), "laplace").pvalue > 1e-6


def sent(recorder):
    """(round, partition) -> what the client sent, of its training."""
    return {
        (int(reply["header"]["round"]), partition_of(reply)): decode_arrays(reply["arrays"])
        for reply in recorder.replies("train")
    }


def test_a_simulations_noise_is_that_of_run_client_and_round(tmp_path):
    noises = []
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        recorder = Recorder()
        run(tmp_path, name, method="fedgnn", seed=seed, fedgnn__noise=1e3, intercept=recorder)
        noises.append(
            {key: arrays["first.weight"].ravel() for key, arrays in sent(recorder).items()}
        )
    assert all(np.array_equal(noises[0][key], array) for key, array in noises[1].items())
    differing = [*noises[0].values(), *noises[2].values()]
    assert len(differing) == 12
    assert np.abs(np.corrcoef(differing) - np.eye(12)).max() < 0.4


def test_a_real_nodes_noise_is_not_the_runs(tmp_path):
    graphs = [user_fields(60 + 10 * index, seed=index) for index in range(2)]
    nodes = real_nodes(tmp_path / "nodes", graphs)
    for noise, alike in ((0.0, True), (2.0, False)):
        recorders = [Recorder(), Recorder()]
        for number, recorder in enumerate(recorders):
            run(
                tmp_path,
                f"{noise}-{number}",
                nodes=nodes,
                method="fedgnn",
                num_rounds=1,
                fedgnn__noise=noise,
                intercept=recorder,
            )
        first, second = (sent(recorder)[1, 0] for recorder in recorders)
        assert all(np.array_equal(array, second[name]) for name, array in first.items()) == alike
        assert alike or all((array != second[name]).all() for name, array in first.items())


def test_a_run_without_noise_is_fedavgs_and_its_noise_leaves_the_own_scores_alone(tmp_path):
    fedavg = run(tmp_path, "fedavg", method="fedavg")
    off = run(tmp_path, "off", method="fedgnn", **OFF)
    assert all(np.array_equal(array, off.model[name]) for name, array in fedavg.model.items())
    assert [row["score"] for row in off.clients] == [row["score"] for row in fedavg.clients]
    loud = run(tmp_path, "loud", method="fedgnn", fedgnn__clip=1e6, fedgnn__noise=1e5, num_rounds=1)
    expected = [row["score"] for row in fedavg.clients if row["round"] == "1"]
    assert [row["score"] for row in loud.clients] == expected
    assert not any(
        np.allclose(array, loud.model[name], atol=1) for name, array in fedavg.model.items()
    )


def test_noised_updates_can_be_summed_in_secret(tmp_path):
    masked = run(tmp_path, "masked", method="fedgnn", secure_sum=True)
    plain = run(tmp_path, "plain", method="fedgnn")
    for name, array in plain.model.items():
        np.testing.assert_allclose(masked.model[name], array, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("byte", "size"), [(b"\x00", 53 * math.log(2)), (b"\xff", 0.0)])
def test_the_rarest_bytes_make_finite_noise(byte, size, monkeypatch):
    monkeypatch.setattr(
        curvfed.strategies.base.noise.secrets, "token_bytes", lambda count: byte * count
    )
    np.testing.assert_allclose(np.abs(Noise().laplace((3,))), size, rtol=1e-15, atol=0)
