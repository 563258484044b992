"""The learning rate over the rounds against torch's schedulers, stepped once a round."""

import warnings
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LambdaLR, LRScheduler, StepLR

from curvfed.strategies.base.training import learning_rate
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import RunConfig

ULP = torch.finfo(torch.float64).eps

RATES, ROUNDS = st.floats(1e-6, 10), st.integers(1, 60)


def stepped(
    rate: float, rounds: int, make: Callable[[torch.optim.Optimizer], LRScheduler]
) -> list[float]:
    """Torch's rates of the rounds 1, 2, …"""
    optimizer = torch.optim.SGD([torch.zeros(())], lr=rate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing is optimised
        scheduler = make(optimizer)
        rates = []
        for _ in range(rounds):
            rates.append(float(optimizer.param_groups[0]["lr"]))
            scheduler.step()
    return rates


def ours(config: RunConfig) -> list[float]:
    return [learning_rate(config, number) for number in range(1, config.num_rounds + 1)]


def near(rates: list[float], expected: list[float], steps: float) -> bool:
    """Equal up to so many rounding errors in the first, largest rate."""
    return all(
        abs(a - b) <= steps * ULP * expected[0] for a, b in zip(rates, expected, strict=True)
    )


@given(RATES, ROUNDS, st.integers(1, 70))
def test_constant_with_its_burn_in_is_torchs(rate, rounds, burn_in):
    config = parse({"learning-rate": rate, "num-rounds": rounds, "burn-in": burn_in})
    expected = stepped(rate, rounds, lambda optimizer: ConstantLR(optimizer, 0.1, burn_in))
    assert near(ours(config), expected, 20)


@given(RATES, ROUNDS)
def test_cosine_is_torchs(rate, rounds):
    config = parse({"learning-rate": rate, "num-rounds": rounds, "schedule": "cosine"})
    expected = stepped(rate, rounds, lambda optimizer: CosineAnnealingLR(optimizer, rounds))
    # Torch goes from rate to rate, by quotients of small numbers near the end.
    assert near(ours(config), expected, 16 * rounds)


@given(RATES, ROUNDS, st.integers(1, 70))
def test_inverse_is_torchs(rate, rounds, every):
    config = parse(
        {"learning-rate": rate, "num-rounds": rounds, "schedule": "inverse", "decay-every": every}
    )
    expected = stepped(
        rate, rounds, lambda optimizer: LambdaLR(optimizer, lambda done: 1 / (1 + done / every))
    )
    assert near(ours(config), expected, 2)


@given(RATES, ROUNDS, st.floats(0.01, 1), st.integers(1, 70))
def test_steps_are_torchs(rate, rounds, decay, every):
    raw = {
        "learning-rate": rate,
        "num-rounds": rounds,
        "schedule": "steps",
        "decay": decay,
        "decay-every": every,
    }
    expected = stepped(rate, rounds, lambda optimizer: StepLR(optimizer, every, decay))
    assert near(ours(parse(raw)), expected, 2 * rounds)


@pytest.mark.parametrize("schedule", ["constant", "cosine", "steps", "inverse"])
def test_the_first_round_has_the_whole_rate_and_none_has_more_or_nothing(schedule):
    rates = ours(
        parse({"learning-rate": 0.3, "num-rounds": 100, "schedule": schedule, "decay-every": 40})
    )
    assert rates[0] == 0.3
    assert all(0.3 >= rate > 0 for rate in rates)
    assert rates == sorted(rates, reverse=True)
