"""The privacy accountant: epsilon of Gaussian releases, and the noise for a target epsilon.

The figures are those of Google's `dp-accounting` by privacy loss distributions (Koskela et al.,
2020; Doroshenko et al., 2022), for data sets that differ by one unit that is there or not. Releases
of sums over all units have a closed form, which takes neither the package nor seconds.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from curvfed.extensions.privacy.keys import Privacy
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.errors import ConfigError

TOLERANCE = 1e-3
"""How far above the least one a noise multiplier may be."""

COARSE = 1e-3
"""Grid of the privacy losses in the search for a noise multiplier. Losses are rounded up, so the
noise is at most .4% above that of the finer default, which takes six times as long."""


class Release(NamedTuple):
    """Equal Gaussian releases, each of a sum over a Poisson sample of the units.

    Attributes
    ----------
    noise : float
        The noise multiplier: standard deviation over the most that one unit adds, in norm.
    rate : float
        The probability that a release has a unit.
    times : int
        The number of releases.

    Examples
    --------
    >>> Release(noise=4.0).times
    1
    """

    noise: float
    rate: float = 1.0
    times: int = 1


def epsilon_of(releases: Iterable[Release], delta: float) -> float:
    """Epsilon of all these releases together; 0 for none.

    Raises
    ------
    ConfigError
        If `dp-accounting` is not installed.
    """
    times: Counter[tuple[float, float]] = Counter()
    for release in releases:
        times[release.noise, release.rate] += release.times
    merged = tuple(sorted((*key, number) for key, number in times.items() if number))
    if not merged:
        return 0.0
    if all(rate == 1 for _, rate, _ in merged):
        return whole_epsilon(sum(number / noise**2 for noise, _, number in merged) ** -0.5, delta)
    return _epsilon(merged, delta)


def whole_epsilon(noise: float, delta: float) -> float:
    """Epsilon of one Gaussian release of a sum over all units, in closed form (Balle and Wang,
    ICML 2018, Theorem 8). Several are one with noise (sum of 1 / noise_i^2)^(-1/2)."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    def excess(epsilon: float) -> float:
        upper = norm.cdf(0.5 / noise - epsilon * noise)
        lower = math.exp(epsilon + norm.logcdf(-0.5 / noise - epsilon * noise))
        return float(upper - lower - delta)

    if excess(0.0) <= 0:
        return 0.0
    # Gaussian tails: delta <= exp(-t^2 / 2) at this epsilon, with t the square root
    largest = (0.5 / noise + math.sqrt(2 * math.log(1 / delta))) / noise
    return float(brentq(excess, 0.0, largest))


@lru_cache(maxsize=64)
def _epsilon(releases: tuple[tuple[float, float, int], ...], delta: float) -> float:
    library = _library()
    accountant = _accountant(library)
    for noise, rate, times in releases:
        accountant.compose(_event(library, Release(noise, rate)), times)
    return float(accountant.get_epsilon(delta))


@lru_cache(maxsize=256)
def noise_multiplier(
    epsilon: float,
    delta: float,
    rate: float = 1.0,
    times: int = 1,
    others: tuple[Release, ...] = (),
) -> float:
    """The least noise multiplier, to `TOLERANCE`, at which this number of releases at this sampling
    rate costs at most `epsilon`, together with other releases that cost less.

    Raises
    ------
    ConfigError
        If `dp-accounting` is not installed.
    """
    if rate == 1 and all(other.rate == 1 for other in others):
        spent = sum(other.times / other.noise**2 for other in others)
        whole = _whole_noise(epsilon, delta)
        return (whole if not spent else (whole**-2 - spent) ** -0.5) * math.sqrt(times)
    library = _library()
    fixed = [library.SelfComposedDpEvent(_event(library, other), other.times) for other in others]

    def composed(noise: float) -> Any:
        steps = library.SelfComposedDpEvent(_event(library, Release(noise, rate)), times)
        return library.ComposedDpEvent([*fixed, steps])

    noise = library.calibrate_dp_mechanism(
        lambda: _accountant(library, COARSE),
        composed,
        epsilon,
        delta,
        tol=TOLERANCE,
    )
    return float(noise)


def _whole_noise(epsilon: float, delta: float) -> float:
    """Rounded up, so that it never costs more."""
    from scipy.optimize import brentq

    least = brentq(lambda noise: whole_epsilon(noise, delta) - epsilon, 1e-3, 1e7, xtol=1e-9)
    return float(least * (1 + 1e-6) + 1e-9)


def _library() -> Any:
    try:
        import dp_accounting
    except ImportError:
        raise ConfigError(
            "differential privacy needs the package dp-accounting, which is not installed here:"
            ' pip install "curvfed[dp]"',
            key="no-accountant",
        ) from None
    return dp_accounting


def _accountant(library: Any, grid: float = 1e-4) -> Any:
    from dp_accounting.pld import PLDAccountant

    return PLDAccountant(library.NeighboringRelation.ADD_OR_REMOVE_ONE, grid)


def _event(library: Any, release: Release) -> Any:
    event = library.GaussianDpEvent(release.noise)
    return event if release.rate == 1 else library.PoissonSampledDpEvent(release.rate, event)


UNITS = {"record": "training example of a client", "client": "client"}
"""The hidden unit, by `dp.unit`."""

MAX_SIZES = 8
"""Maximum number of different sizes of clients for which the server computes epsilon; each takes
a second."""


def round_release(
    config: RunKeys, privacy: Privacy, num_examples: int, others: tuple[Release, ...] = ()
) -> Release:
    """The releases of one round of a client with this number of training examples; none without.

    A round has as many steps as without privacy, on samples of `batch-size` examples on average.
    The noise is such that all rounds together, if the client trains in each, cost `dp.epsilon` with
    the run's other releases.

    Parameters
    ----------
    config : RunKeys
        With its defaults resolved.
    """
    if not num_examples:
        return Release(noise=1.0, times=0)
    size = min(config.batch_size or num_examples, num_examples)
    steps = config.local_epochs * math.ceil(num_examples / size)
    rate = size / num_examples
    steps_of_run = max(config.num_rounds, 1) * steps
    noise = noise_multiplier(privacy.given_epsilon, privacy.delta, rate, steps_of_run, others)
    return Release(noise, rate, steps)


def epsilon_spent(
    config: RunKeys,
    privacy: Privacy,
    sizes: Collection[int],
    rounds: int,
    others: tuple[Release, ...] = (),
) -> float:
    """Epsilon of the client that has spent most, after some of its rounds; other releases come
    after the last.

    Parameters
    ----------
    sizes : collection of int
        The clients' different numbers of training examples; empty if they are unknown. Then, or
        if they are more than `MAX_SIZES`, it is `dp.epsilon`, the bound of all rounds.
    """
    if not rounds:
        return 0.0
    if rounds >= config.num_rounds or not 0 < len(sizes) <= MAX_SIZES:
        return privacy.given_epsilon
    releases = [round_release(config, privacy, size, others) for size in sizes]
    return max(
        epsilon_of([release._replace(times=rounds * release.times)], privacy.delta)
        for release in releases
    )


def promise(privacy: Privacy) -> str:
    """The promise of a run, as part of a sentence."""
    unit = UNITS[privacy.unit]
    epsilon = privacy.given_epsilon
    return f"each {unit}, epsilon {epsilon:g} at delta {privacy.delta:g} for the whole run"
