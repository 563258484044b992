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

SCHEDULERS: dict[str, Callable[..., LRScheduler]] = {
    "constant": lambda optimizer, rounds, every, decay: ConstantLR(optimizer, 0.1, every),
    "cosine": lambda optimizer, rounds, every, decay: CosineAnnealingLR(optimizer, rounds),
    "inverse": lambda optimizer, rounds, every, decay: LambdaLR(
        optimizer, lambda done: 1 / (1 + done / every)
    ),
    "steps": lambda optimizer, rounds, every, decay: StepLR(optimizer, every, decay),
}


@pytest.mark.parametrize("schedule", SCHEDULERS)
@given(st.floats(1e-6, 10), st.integers(1, 60), st.integers(1, 70), st.floats(0.01, 1))
def test_the_rates_are_torchs(schedule, rate, rounds, every, decay):
    optimizer = torch.optim.SGD([torch.zeros(())], lr=rate)
    keys = {"learning-rate": rate, "num-rounds": rounds, "schedule": schedule}
    if schedule == "constant":
        keys["burn-in"] = every
    elif schedule != "cosine":
        keys["decay-every"] = every
    if schedule == "steps":
        keys["decay"] = decay
    config = parse(keys)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing is optimised
        scheduler = SCHEDULERS[schedule](optimizer, rounds, every, decay)
        # Torch goes from rate to rate; for the cosine by quotients of small numbers near the end.
        bound = (20 + 16 * rounds) * torch.finfo(torch.float64).eps * rate
        for number in range(1, rounds + 1):
            expected = float(optimizer.param_groups[0]["lr"])
            assert learning_rate(config, number) == pytest.approx(expected, rel=0, abs=bound)
            scheduler.step()
