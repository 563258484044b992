"""Server optimisers against torch's, against the papers' lines in float64, and over a checkpoint."""

import logging

import numpy as np
import pytest
import torch

from curvfed.strategies.aggregation import Average, Update
from curvfed.strategies.server_optimizer import ServerOptimizer

KINDS = ("adam", "yogi", "avgm")
RATE, BETA1, BETA2, TAU = 0.05, 0.8, 0.95, 1e-2
SHAPES = {"z.weight": (4, 3), "a.bias": (), "m.weight": (2, 2, 2)}


def optimizer(kind, start, rate=RATE, beta1=BETA1):
    return ServerOptimizer(start, kind, rate, beta1, BETA2, TAU)


def arrays_of(rng):
    return {name: np.asarray(rng.standard_normal(shape), np.float32) for name, shape in SHAPES.items()}


def replies_of(rng, examples=(3, 0, 5)):
    return {p: Update(n, arrays_of(rng)) for p, n in enumerate(examples)}


def rounds_of(seed, num):
    rng = np.random.default_rng(seed)
    return arrays_of(rng), [replies_of(rng) for _ in range(num)]


def mean(replies, name):
    total = sum(update.examples for update in replies.values())
    return sum(update.examples / total * update.arrays[name].astype(float) for update in replies.values())


def written_out(kind, start, rounds):
    """Reddi et al., Algorithm 2, and for Adam Kingma and Ba's correction with one round more, as Flower has it."""
    found = {}
    for name, array in start.items():
        x, m, v = array.astype(float), 0.0, 0.0
        for number, replies in enumerate(rounds, 1):
            delta = mean(replies, name) - x
            m = BETA1 * m + (1 - BETA1) * delta
            rate = RATE
            if kind == "adam":
                v = BETA2 * v + (1 - BETA2) * delta**2
                rate *= np.sqrt(1 - BETA2 ** (number + 1)) / (1 - BETA1 ** (number + 1))
            else:
                v = v - (1 - BETA2) * delta**2 * np.sign(v - delta**2)
            x = x + rate * m / (np.sqrt(v) + TAU)
        found[name] = x
    return found


@pytest.mark.parametrize("kind", ["adam", "yogi"])
def test_adaptive_ones_equal_the_papers_lines(kind):
    start, rounds = rounds_of(0, 6)
    found = optimizer(kind, start)
    for replies in rounds:
        found.aggregate(replies)
    for name, expected in written_out(kind, start, rounds).items():
        assert found.sent_to(0)[name].dtype == np.float32
        assert found.sent_to(0)[name].shape == SHAPES[name]
        np.testing.assert_allclose(found.sent_to(0)[name], expected, rtol=1e-5, atol=1e-6)


def test_momentum_equals_torchs_sgd():
    start, rounds = rounds_of(1, 6)
    found = optimizer("avgm", start)
    theirs = {name: torch.tensor(array, dtype=torch.float64, requires_grad=True) for name, array in start.items()}
    sgd = torch.optim.SGD(theirs.values(), lr=RATE, momentum=BETA1)
    for replies in rounds:
        found.aggregate(replies)
        for name, parameter in theirs.items():
            parameter.grad = parameter.detach() - torch.as_tensor(mean(replies, name))
        sgd.step()
    for name, expected in theirs.items():
        np.testing.assert_allclose(found.sent_to(0)[name], expected.detach(), rtol=1e-5, atol=1e-6)


def test_a_full_step_without_momentum_is_the_average():
    start, rounds = rounds_of(2, 2)
    found, average = optimizer("avgm", start, rate=1.0, beta1=0.0), Average(start)
    for replies in rounds:
        found.aggregate(replies)
        average.aggregate(replies)
    for name, array in average.state().items():
        np.testing.assert_array_equal(found.sent_to(0)[name], array)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_resumed_run_has_the_same_bits(kind, before):
    """The state comes back in another order of names, as from a file."""
    start, rounds = rounds_of(3, 6)
    whole, resumed = optimizer(kind, start), optimizer(kind, arrays_of(np.random.default_rng(99)))
    for replies in rounds[:before]:
        whole.aggregate(replies)
    resumed.load({name: array.copy() for name, array in sorted(whole.state().items(), reverse=True)})
    for replies in rounds[before:]:
        for one in (whole, resumed):
            one.aggregate(replies)
    assert resumed.state().keys() == whole.state().keys()
    for name, array in whole.state().items():
        assert resumed.state()[name].dtype == array.dtype
        np.testing.assert_array_equal(resumed.state()[name], array)


@pytest.mark.parametrize("kind", KINDS)
def test_the_state_holds_the_parameters_by_name_and_what_else_in_float32(kind):
    start, rounds = rounds_of(4, 1)
    found = optimizer(kind, start)
    found.aggregate(rounds[0])
    state = found.state()
    assert {name: array.shape for name, array in state.items() if "/" not in name} == SHAPES
    assert {array.dtype for name, array in state.items() if not name.endswith("rounds")} == {np.dtype(np.float32)}
    assert len(state) == len(SHAPES) * (2 if kind == "avgm" else 3) + 1


@pytest.mark.parametrize("kind", KINDS)
def test_buffers_are_averaged_and_not_optimised(kind):
    start = {"w": np.zeros(2, np.float32), "n.running_mean": np.zeros(1, np.float32)}
    found = optimizer(kind, start)
    replies = {
        p: Update(n, {"w": np.ones(2, np.float32), "n.running_mean": np.array([m], np.float32)})
        for p, (n, m) in enumerate([(1, 4.0), (3, 8.0)])
    }
    for _ in range(2):
        found.aggregate(replies)
    np.testing.assert_array_equal(found.sent_to(0)["n.running_mean"], [7])
    assert not (found.sent_to(0)["w"] == 1).any()
    assert not [name for name in found.state() if "running_mean" in name and "/" in name]


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_without_examples_is_no_step(kind):
    start, rounds = rounds_of(5, 3)
    found, without = optimizer(kind, start), optimizer(kind, start)
    for one, between in ((found, {0: Update(0, arrays_of(np.random.default_rng(6)))}), (without, None)):
        one.aggregate(rounds[0])
        if between:
            one.aggregate(between)
        one.aggregate(rounds[1])
    for name, array in without.state().items():
        np.testing.assert_array_equal(found.state()[name], array)


@pytest.mark.parametrize("kind", KINDS)
def test_flower_logs_nothing_of_it(kind):
    lines = []
    handler, logger = logging.Handler(), logging.getLogger("flwr")
    handler.emit = lines.append
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.DEBUG)
    try:
        start, rounds = rounds_of(7, 1)
        optimizer(kind, start).aggregate(rounds[0])
        assert logger.level == logging.DEBUG
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    assert not lines
