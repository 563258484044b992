"""Flower's strategies: optimisers against NumPy, robust averages against definitions."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from errors import refuses
from flwr.clientapp import ClientApp
from flwr.serverapp import strategy

from curvfed.deployments.inprocess import InProcessGrid
from curvfed.strategies.base.aggregation import AggregationError, Average
from curvfed.strategies.base.flower_strategy import FlowerStrategy
from curvfed.strategies.base.shared_tables import FLOWER, NEED_ONLY_MEAN, Flower
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.config.build_method import new_aggregation as made_by
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods.fedopt import FedOpt, Keys

KINDS = ("adam", "yogi")
RATE, BETA1, BETA2, TAU = 0.05, 0.8, 0.95, 1e-2
SHAPES = {"z.weight": (4, 3), "a.bias": (), "m.weight": (2, 2, 2)}
SETTINGS = {
    "flower:QFedAvg": {"client_learning_rate": 0.1},
    "flower:FedAvgM": {"server_momentum": 0.9},
}
"""An argument that has no default, and one whose default remembers nothing."""

FLOAT32_DIGITS = 1e-6

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "aggregations.md"


@pytest.fixture(autouse=True)
def _identity():
    """Messages can be made inside a running task alone, or where an in-process Grid is."""
    InProcessGrid(ClientApp(), {}, [])


def optimizer(kind, start, rate=RATE, beta1=BETA1):
    keys = Keys(optimizer=kind, learning_rate=rate, beta1=beta1, beta2=BETA2, tau=TAU)
    return FedOpt(start, keys)


def fresh(name, start):
    return new_server(name, start, SETTINGS.get(name, {}))


def new_server(name, start, settings):
    return FlowerStrategy(start, Flower(**settings), RunConfig(aggregation=name))


def arrays_of(rng):
    return {
        name: np.asarray(rng.standard_normal(shape), np.float32) for name, shape in SHAPES.items()
    }


def replies_of(rng, examples=(3, 0, 5, 1, 2)):
    return {
        p: Statistics(arrays_of(rng), n, {"steps": 1, "loss": float(rng.uniform(0.1, 2))})
        for p, n in enumerate(examples)
    }


def rounds_of(seed, num):
    rng = np.random.default_rng(seed)
    return arrays_of(rng), [replies_of(rng) for _ in range(num)]


def mean(replies, name):
    total = sum(update.weight for update in replies.values())
    return sum(
        update.weight / total * update.arrays[name].astype(float) for update in replies.values()
    )


def in_float32(kind, start, rounds):
    """What the rows of `fedopt` have always computed: the average, rounded once, and a step in the
    arrays' dtype.

    Reddi et al., Algorithm 2; for Adam with Kingma and Ba's correction with one round more, as
    Flower has it.
    """
    arrays = {}
    for name, begin in start.items():
        x, m, v = begin, None, None
        for number, replies in enumerate(rounds, 1):
            delta, rate = mean(replies, name).astype(np.float32) - x, RATE
            m = BETA1 * (0 * delta if m is None else m) + (1 - BETA1) * delta
            v = 0 * delta if v is None else v
            if kind == "adam":
                v = BETA2 * v + (1 - BETA2) * delta**2
                rate *= np.sqrt(1 - np.power(BETA2, number + 1.0)) / (
                    1 - np.power(BETA1, number + 1.0)
                )
            else:
                v = v - (1 - BETA2) * delta**2 * np.sign(v - delta**2)
            x = (x + rate * m / (np.sqrt(v) + TAU)).astype(np.float32)
        arrays[name] = x
    return arrays


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_of_fedopt_are_what_they_were(kind, seed):
    start, rounds = rounds_of(seed, 8)
    server = optimizer(kind, start)
    for replies in rounds:
        server.aggregate(replies)
    for name, expected in in_float32(kind, start, rounds).items():
        assert server.sent_to(0)[name].dtype == np.float32
        assert server.sent_to(0)[name].shape == SHAPES[name]
        np.testing.assert_allclose(
            server.sent_to(0)[name], expected, rtol=FLOAT32_DIGITS, atol=FLOAT32_DIGITS
        )
        assert np.abs(expected - start[name]).max() > 0.1


def test_momentum_equals_torchs_sgd():
    start, rounds = rounds_of(1, 6)
    server = optimizer("avgm", start)
    theirs = {
        name: torch.tensor(array, dtype=torch.float64, requires_grad=True)
        for name, array in start.items()
    }
    sgd = torch.optim.SGD(theirs.values(), lr=RATE, momentum=BETA1)
    for replies in rounds:
        server.aggregate(replies)
        for name, parameter in theirs.items():
            parameter.grad = parameter.detach() - torch.as_tensor(mean(replies, name))
        sgd.step()
    for name, expected in theirs.items():
        np.testing.assert_allclose(server.sent_to(0)[name], expected.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_the_median_is_numpys(seed):
    """Of the clients that have examples, 1 to 4, not 0 and those whose replies are the start."""
    start, (replies,) = rounds_of(seed, 1)
    server = fresh("flower:FedMedian", start)
    server.aggregate(replies)
    for name, array in server.sent_to(0).items():
        expected = np.median([replies[p].arrays[name] for p in (0, 2, 3, 4)], axis=0)
        np.testing.assert_allclose(array, expected, rtol=FLOAT32_DIGITS)
        assert array.dtype == np.float32
        assert array.shape == SHAPES[name]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("flower:FedMedian", {}),
        ("flower:FedTrimmedAvg", {"beta": 0.2}),
        ("flower:Krum", {"num_malicious_nodes": 1}),
        ("flower:MultiKrum", {"num_malicious_nodes": 1, "num_nodes_to_select": 3}),
        ("flower:Bulyan", {"num_malicious_nodes": 1}),
    ],
)
def test_one_liar_does_not_move_a_robust_average(name, settings):
    """Honest clients agree up to .1; the liar says 1e6, and takes the plain average with it."""
    rng = np.random.default_rng(0)
    target, start = arrays_of(rng), arrays_of(rng)
    honest = {
        p: Statistics(
            {
                n: (a + rng.uniform(-0.1, 0.1, a.shape)).astype(np.float32)
                for n, a in target.items()
            },
            4,
        )
        for p in range(7)
    }
    replies = honest | {3: Statistics({n: np.full_like(a, 1e6) for n, a in target.items()}, 4)}
    server, plain = new_server(name, start, settings), Average(start)
    for aggregation in (server, plain):
        aggregation.aggregate(replies)
    for parameter, array in target.items():
        assert np.abs(server.sent_to(0)[parameter] - array).max() < 0.1 + FLOAT32_DIGITS
        assert np.abs(plain.sent_to(0)[parameter] - array).max() > 1e5


def test_qfedavg_goes_by_the_clients_losses():
    """Li et al., 2020, Algorithm 1, with L = 1 / the clients' learning rate."""
    start, (replies,) = rounds_of(8, 1)
    rate, q = 0.1, 2.0
    server = new_server("flower:QFedAvg", start, {"client_learning_rate": rate, "q": q})
    server.aggregate(replies)
    taking = [update for update in replies.values() if update.weight]
    gradients = [{n: (start[n].astype(float) - u.arrays[n]) / rate for n in start} for u in taking]
    scales = [u.loss**q for u in taking]
    squares = [sum(np.sum(g**2) for g in gradient.values()) for gradient in gradients]
    total = sum(
        q * u.loss ** (q - 1) * s + scale / rate
        for u, s, scale in zip(taking, squares, scales, strict=True)
    )
    for name, array in server.sent_to(0).items():
        step = (
            sum(scale * gradient[name] for scale, gradient in zip(scales, gradients, strict=True))
            / total
        )
        np.testing.assert_allclose(array, start[name] - step, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FLOWER)
@pytest.mark.parametrize("before", [0, 3])
def test_a_resumed_run_has_the_same_bits(name, before):
    """The state comes back in another order of names, as from a file."""
    start, rounds = rounds_of(3, 6)
    undisturbed, resumed = fresh(name, start), fresh(name, arrays_of(np.random.default_rng(99)))
    for replies in rounds[:before]:
        undisturbed.aggregate(replies)
    resumed.load(
        {name: array.copy() for name, array in sorted(undisturbed.state().items(), reverse=True)}
    )
    for replies in rounds[before:]:
        for aggregation in (undisturbed, resumed):
            aggregation.aggregate(replies)
    assert resumed.state().keys() == undisturbed.state().keys()
    for key, array in undisturbed.state().items():
        assert resumed.state()[key].dtype == array.dtype
        np.testing.assert_array_equal(resumed.state()[key], array)


@pytest.mark.parametrize("name", FLOWER)
def test_buffers_are_averaged_and_nothing_else_is_made_of_them(name):
    start = {"w": np.zeros(2, np.float32), "n.running_mean": np.zeros(1, np.float32)}
    server = fresh(name, start)
    replies = {
        p: Statistics(
            {"w": np.full(2, w, np.float32), "n.running_mean": np.array([m], np.float32)},
            n,
            {"steps": 1, "loss": 0.5},
        )
        for p, (n, w, m) in enumerate([(1, 1, 4.0), (3, 2, 8.0), (4, 4, 9.0)])
    }
    for _ in range(2):
        server.aggregate(replies)
    np.testing.assert_array_equal(server.sent_to(0)["n.running_mean"], [8])
    assert not (server.sent_to(0)["w"] == 0).any()
    assert not [key for key in server.state() if "running_mean" in key and "/" in key]


@pytest.mark.parametrize("name", FLOWER)
def test_a_round_without_examples_is_no_step(name):
    start, rounds = rounds_of(5, 3)
    server, without = fresh(name, start), fresh(name, start)
    for aggregation, extra_round in (
        (server, {0: Statistics(arrays_of(np.random.default_rng(6)), 0)}),
        (without, None),
    ):
        aggregation.aggregate(rounds[0])
        if extra_round:
            aggregation.aggregate(extra_round)
        aggregation.aggregate(rounds[1])
    for key, array in without.state().items():
        np.testing.assert_array_equal(server.state()[key], array)


# --- The table of names and keys against Flower's own signatures


@pytest.mark.parametrize("name", FLOWER)
def test_the_keys_are_the_arguments_of_the_class(name):
    """All that the class has beside FedAvg's, but for functions and what no line reads."""
    arguments = set(inspect.signature(getattr(strategy, name.removeprefix("flower:"))).parameters)
    arguments -= set(inspect.signature(strategy.FedAvg).parameters)
    assert arguments - {"eta_l", "selection_rule", "train_loss_key"} == set(FLOWER[name])


def test_the_page_has_every_strategy_with_its_keys_and_flowers_defaults():
    rows = re.findall(
        r"^\| `(flower:\w+)` \| (.*?) \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert dict(rows).keys() == FLOWER.keys()
    for name, cell in rows:
        parameters = inspect.signature(getattr(strategy, name.removeprefix("flower:"))).parameters
        documented = dict(re.findall(r"`flower\.([a-z0-9-]+)` ([0-9.]+|\(.*?\))", cell))
        assert {key.replace("-", "_") for key in documented} == set(FLOWER[name])
        for key, default in documented.items():
            flower_default = parameters[key.replace("-", "_")].default
            assert (
                default == "(the run's `learning-rate`)"
                if flower_default is inspect.Parameter.empty
                else float(default) == flower_default
            )


def test_those_of_the_mean_are_those_that_build_on_flowers_average():
    """A strategy whose `aggregate_train` calls FedAvg's own gets the average, and needs no more."""
    heirs = {
        name
        for name in FLOWER
        if "super().aggregate_train("
        in inspect.getsource(getattr(strategy, name.removeprefix("flower:")))
    }
    assert heirs == set(NEED_ONLY_MEAN)


def test_auto_is_flowers_own_default_and_for_qfedavg_the_runs_learning_rate():
    config = RunConfig(aggregation="flower:QFedAvg", learning_rate=0.25, flower=Flower(q=3))
    server = made_by({}, config, range(2))._flower
    assert (server.client_learning_rate, server.q) == (0.25, 3)
    server = made_by({}, RunConfig(aggregation="flower:FedYogi"), range(2))._flower
    assert (server.eta, server.beta_2) == (strategy.FedYogi().eta, strategy.FedYogi().beta_2)


def test_too_few_replies_are_said_in_words():
    start, (replies,) = rounds_of(9, 1)
    server = new_server("flower:Bulyan", start, {"num_malicious_nodes": 1})
    with refuses("no-model", "flower:Bulyan", "4 replies", error=AggregationError):
        server.aggregate(replies)


def test_a_state_of_something_else_is_refused():
    start, _ = rounds_of(5, 0)
    with pytest.raises(ConfigError, match="flower:FedAdam cannot continue from it"):
        fresh("flower:FedAdam", start).load(start | {"server-optimizer/rounds": np.array(3)})
