"""Shares of discrete Gaussian noise against the law that they and their sums must have."""

import math
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from curvfed.extensions.privacy.client import PrivateClient
from curvfed.extensions.privacy.private_steps import Noise
from curvfed.extensions.privacy.sum_noise import (
    add_exact,
    add_rounded,
    discrete_gaussian,
    honest_shares,
)
from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME, FixedPoint, add
from curvfed.strategies.wire.messages import TRAIN, Header

DRAWS = 4000


def p_value(numbers, variance):
    """Of the chi-square test that integers are discrete Gaussian; the tails are two cells."""
    end = int(2.5 * math.sqrt(variance))
    support = np.arange(-40 * end - 40, 40 * end + 41)
    weights = np.exp(-(support.astype(float) ** 2) / (2 * variance))
    cells = np.clip(support, -end - 1, end + 1)
    law = np.bincount(cells + end + 1, weights / weights.sum())
    observed = np.bincount(np.clip(numbers, -end - 1, end + 1) + end + 1, minlength=len(law))
    return stats.chisquare(observed, law * len(numbers)).pvalue


@pytest.mark.parametrize("variance", [1, 2, 7, 60])
def test_the_sampler_has_its_law(variance):
    numbers = np.array(discrete_gaussian([variance] * DRAWS, Random(variance)))
    assert p_value(numbers, variance) > 0.01
    assert p_value(numbers + 1, variance) < 1e-6, "the test would see a shift"


def test_wide_noise_is_normal_and_has_every_last_digit():
    variance = 2**81 + 12345
    numbers = discrete_gaussian([variance] * DRAWS, Random(0))
    assert stats.kstest(np.array(numbers, float) / math.sqrt(variance), "norm").pvalue > 0.01
    digits = np.bincount([number % 16 for number in numbers])
    assert stats.chisquare(digits).pvalue > 0.01


def test_shares_add_up_to_the_noise_without_those_of_colluders():
    """10 members, one of them reports its share: the other 9 are noise enough."""
    variance = 60.0
    honest = honest_shares(10)
    nothing = np.zeros(DRAWS, np.uint64)
    sums = nothing
    for member in range(honest):
        variances = np.full(DRAWS, variance / honest)
        sums = add(sums, add_exact(nothing, variances, SUM_PRIME, Random(member)), SUM_PRIME)
    assert honest == 9
    steps = FixedPoint(1.0, 10, SUM_PRIME)
    assert p_value((steps.decode(sums) * steps.scale).astype(int), variance) > 0.01


@pytest.mark.parametrize(
    ("members", "honest"), [(2, 1), (3, 2), (5, 4), (10, 9), (11, 9), (100, 90), (1000, 900)]
)
def test_a_tenth_of_the_members_may_collude_and_at_least_one(members, honest):
    assert honest_shares(members) == honest


def test_rounded_noise_is_normal():
    noise = Noise()
    noise.seed([1])
    deviations = np.full(DRAWS, 2.0**30)
    sums = add_rounded(np.full(DRAWS, SUM_PRIME - 1, np.uint64), deviations, SUM_PRIME, noise)
    signed = FixedPoint(1.0, 1, SUM_PRIME)
    numbers = signed.decode(sums) * signed.scale
    assert stats.kstest(numbers / 2.0**30, "norm").pvalue > 0.01


@pytest.mark.parametrize("members", [5, 99])
def test_enough_clients_are_the_members_of_the_sum_whatever_a_message_states(members):
    """A message once stated 100 clients, and five shared noise that outweighs their mean."""
    keys = {"method": "fedavg", "secure-sum": True, "dp.unit": "client", "dp.epsilon": 1.0}
    session = SimpleNamespace(clients=tuple(range(members)))
    others = dict.fromkeys(("run", "node", "data", "ledger", "replies", "source"))
    client = PrivateClient(config=parse(keys), **others)
    hide = client.hide(Header("run", TRAIN, 1), {"weight": np.ones(1)}, None, 1.0)
    with pytest.raises(ConfigError, match=f"{members} clients in a sum: .* 100 or more"):
        hide(np.zeros(1, np.uint64), FixedPoint(1.0, 1, SUM_PRIME), session)
