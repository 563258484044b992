"""The accountant against dp-accounting, the analytic Gaussian mechanism, published figures."""

import math
import sys

import numpy as np
import pytest
from scipy.special import log_ndtr

from curvfed.extensions.privacy.accountant import Release, epsilon_of, noise_multiplier
from curvfed.strategies.errors import ConfigError

dp_accounting = pytest.importorskip("dp_accounting")


def _direct(*releases):
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    for noise, rate, times in releases:
        event = dp_accounting.GaussianDpEvent(noise)
        if rate < 1:
            event = dp_accounting.PoissonSampledDpEvent(rate, event)
        accountant.compose(dp_accounting.SelfComposedDpEvent(event, times))
    return accountant.get_epsilon(1e-5)


def test_it_is_dp_accounting():
    releases = [(1.1, 0.1, 40), (5.0, 1.0, 3)]
    assert epsilon_of([Release(*release) for release in releases], 1e-5) == _direct(*releases)


def test_equal_releases_add_up():
    halves = [Release(2.0, 0.2, 10), Release(2.0, 0.2, 20)]
    assert epsilon_of(halves, 1e-5) == epsilon_of([Release(2.0, 0.2, 30)], 1e-5)
    assert epsilon_of([], 1e-5) == 0


@pytest.mark.parametrize("times", [1, 16])
def test_gaussian_releases_have_the_closed_form(times):
    """Balle & Wang (2018), Theorem 8; n releases are one with noise / sqrt(n)."""
    noise = 4.0 * math.sqrt(times)
    epsilon = epsilon_of([Release(noise, 1.0, times)], 1e-5)
    low = math.exp(log_ndtr(1 / 8 - epsilon * 4))
    delta = low - math.exp(epsilon + log_ndtr(-1 / 8 - epsilon * 4))
    assert delta == pytest.approx(1e-5, rel=1e-6)
    assert epsilon == pytest.approx(_direct((noise, 1.0, times)), rel=1e-3)


@pytest.mark.parametrize(("epsilon", "rate", "times"), [(1.0, 0.2, 30), (3.0, 1.0, 1)])
def test_the_noise_is_the_least(epsilon, rate, times):
    noise = noise_multiplier(epsilon, 1e-5, rate, times)
    assert epsilon_of([Release(noise, rate, times)], 1e-5) <= epsilon
    assert epsilon_of([Release(noise * 0.99, rate, times)], 1e-5) > epsilon


@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_the_noise_beside_other_releases_is_the_least(rate):
    """dp-accounting, called directly, composes both."""
    first_release = (9.0, 1.0, 1)
    noise = noise_multiplier(1.0, 1e-5, rate, 30, (Release(*first_release),))
    assert noise > noise_multiplier(1.0, 1e-5, rate, 30)
    assert _direct((noise, rate, 30), first_release) <= 1.001
    assert _direct((noise * 0.99, rate, 30), first_release) > 1


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ConfigError, match=r"curvfed\[dp\]"):
        noise_multiplier(1.2345, 1e-5, rate=0.5)


PUBLISHED = [
    # TensorFlow Privacy, tutorials/README.md: MNIST, batches of 256 of 60,000, and epochs
    (1.3, 256 / 60_000, 15 * 60_000 // 256, 1.19),
    pytest.param(1.1, 256 / 60_000, 60 * 60_000 // 256, 3.01, marks=pytest.mark.long),
    pytest.param(0.7, 256 / 60_000, 45 * 60_000 // 256, 7.10, marks=pytest.mark.long),
    # Abadi et al. (2016), Section 3.2: q = .01, sigma = 4, 100 epochs
    (4.0, 0.01, 10_000, 1.26),
]


@pytest.mark.parametrize(("noise", "rate", "times", "published"), PUBLISHED)
def test_published_bounds_are_of_the_same_events_and_above(noise, rate, times, published):
    """In the older conversion, epsilon = divergence + log(1/delta) / (order - 1)."""
    orders = [*np.arange(1.1, 11, 0.1), *range(11, 64)]
    accountant = dp_accounting.rdp.RdpAccountant(orders)
    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    accountant.compose(event, times)
    bounds = accountant._rdp + math.log(1e5) / (np.array(orders) - 1)
    assert min(bounds) == pytest.approx(published, abs=0.006)
    assert 0.7 * published < epsilon_of([Release(noise, rate, times)], 1e-5) < published
