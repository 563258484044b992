"""An audit of the steps, the noise and the accountant together, with canaries in one run (Steinke,
Nasr and Jagielski, NeurIPS 2023): a lower bound on epsilon from how many canaries an attacker finds
in the result."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from curvfed.strategies.base.privacy_accountant import noise_multiplier
from curvfed.strategies.base.private_steps import Noise, PrivateSteps
from curvfed.tasks.task import Batch

pytestmark = pytest.mark.long

NUM_CANARIES = 1000
NUM_GUESSES = 100
DELTA = 1e-5
CONFIDENCE = 0.99


class _Canaries:
    """Examples with orthogonal gradients of norm 1: the strongest that clipping allows."""

    def __init__(self, chosen):
        self.rows = torch.eye(NUM_CANARIES)[torch.from_numpy(chosen.nonzero()[0])]
        self.num_examples = len(self.rows)

    def batches_of(self, positions, size):
        for chunk in positions.split(size):
            if len(chunk):
                yield Batch(self.rows[chunk], chunk)


def found_canaries(noise, rate, steps, seed):
    """Train with each canary or without it, by a coin, and guess from the weights which coins fell
    how; returns the number of right guesses."""
    coins = np.random.default_rng(seed).random(NUM_CANARIES) < 0.5
    model = nn.Linear(NUM_CANARIES, 1, bias=False)
    nn.init.zeros_(model.weight)
    source = Noise()
    source.seed([seed])
    PrivateSteps(rate, 1.0, noise, source).train(
        model,
        _Canaries(coins),
        torch.optim.SGD(model.parameters(), lr=1.0),
        steps,
        (),
        0.0,
        lambda model, batch: -model(batch.inputs).sum(),
    )
    order = np.argsort(model.weight.detach().numpy()[0])
    half = NUM_GUESSES // 2
    return int(coins[order[-half:]].sum() + (~coins[order[:half]]).sum())


def p_value(epsilon, right):
    """The probability of so many right guesses under (epsilon, DELTA); Theorem 5.2."""
    chance = 1 / (1 + math.exp(-epsilon))
    tail = stats.binom.sf(right - 1, NUM_GUESSES, chance)
    below = np.cumsum(stats.binom.pmf(np.arange(right - 1, -1, -1), NUM_GUESSES, chance))
    largest = max(below / np.arange(1, right + 1), default=0.0)
    return tail + 2 * NUM_CANARIES * DELTA * largest


def lower_bound(right):
    """The largest epsilon that the guesses refute with `CONFIDENCE`."""
    values = np.arange(0, 12, 0.01)
    refuted = [value for value in values if p_value(value, right) < 1 - CONFIDENCE]
    return max(refuted, default=0.0)


def test_guesses_of_a_fair_coin_refute_nothing():
    assert lower_bound(NUM_GUESSES // 2) == 0
    assert lower_bound(NUM_GUESSES) > 2


@pytest.mark.parametrize(("epsilon", "minimum"), [(2.0, 0.2), (8.0, 1.5)])
@pytest.mark.parametrize(("rate", "steps"), [(1.0, 1), (0.5, 20)])
def test_the_bound_is_below_epsilon(epsilon, minimum, rate, steps):
    noise = noise_multiplier(epsilon, DELTA, rate, steps)
    bound = lower_bound(found_canaries(noise, rate, steps, seed=1))
    assert minimum < bound < epsilon


def test_without_noise_the_bound_is_far_above_0():
    assert lower_bound(found_canaries(0.0, 1.0, 1, seed=1)) > 2.5


def test_a_quarter_of_the_noise_is_noticed():
    """The audit would see noise that is planned for another scale."""
    noise = noise_multiplier(2.0, DELTA, 1.0, 1) / 4
    assert lower_bound(found_canaries(noise, 1.0, 1, seed=1)) > 2
