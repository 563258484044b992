"""The plan of a private run: its releases by phase, and their cost."""

from collections.abc import Collection

from curvfed.extensions.privacy.accountant import (
    Release,
    epsilon_of,
    epsilon_spent,
    noise_multiplier,
    promise,
    round_release,
)
from curvfed.extensions.privacy.keys import keys_of
from curvfed.strategies.base.method import OneShot
from curvfed.strategies.config.run_config import RunConfig

CALIBRATION_SHARE = 0.5
"""The epsilon that a calibration after private rounds would cost alone, as a share of the run's;
the rounds' noise is such that both cost the run's together. A half leaves them most of it, because
costs add up like squares."""


def sums_once(config: RunConfig) -> bool:
    """Whether one secure sum over the records is all that leaves the clients of a run."""
    is_calibration = config.calibrator is not None and config.num_rounds == 0
    return config.row.is_one_shot or is_calibration


def trains_privately(config: RunConfig) -> bool:
    """Whether the clients of a run train by private steps."""
    return keys_of(config).unit == "record" and not sums_once(config)


def sum_releases(config: RunConfig) -> dict[str, tuple[Release, int]]:
    """A differentially private secure sum of a run by phase, and the number of such sums.

    A client's absence from rounds saves no cost: the server draws who trains, and sees it.

    Raises
    ------
    ConfigError
        If the run has `dp.unit`, but not `dp.epsilon`.
    """
    from curvfed.strategies.wire.messages import CALIBRATE, TRAIN

    privacy = keys_of(config)
    if privacy.unit == "client":
        times = max(config.num_rounds, 1)
        noise = noise_multiplier(privacy.given_epsilon, privacy.delta, times=times)
        return {TRAIN: (Release(noise), times)}
    row = config.row
    phase = CALIBRATE if config.calibrator else ""
    if isinstance(row, OneShot):
        phase = row.phase
    if not phase:
        return {}
    share = 1.0 if sums_once(config) else CALIBRATION_SHARE
    return {phase: (Release(noise_multiplier(share * privacy.given_epsilon, privacy.delta)), 1)}


def planned_releases(config: RunConfig, num_examples: int) -> dict[str, tuple[Release, int]]:
    """The release in a reply of a client with this number of training examples, by phase, and the
    number of its replies. All of them together cost `dp.epsilon`."""
    from curvfed.strategies.wire.messages import TRAIN

    plan = sum_releases(config)
    if trains_privately(config):
        release = round_release(config, keys_of(config), num_examples, _sums(plan))
        plan[TRAIN] = (release, config.num_rounds)
    return plan


def _sums(plan: dict[str, tuple[Release, int]]) -> tuple[Release, ...]:
    return tuple(release._replace(times=number) for release, number in plan.values())


def sum_noise(config: RunConfig, phase: str) -> float:
    """The noise multiplier of the secure sums of a phase; 0 without noise."""
    release, _ = sum_releases(config).get(phase, (Release(0.0), 0))
    return release.noise


def epsilon_after(config: RunConfig, sizes: Collection[int], rounds: int) -> float:
    """Epsilon of a run after some of its rounds, as `epsilon_spent`."""
    sums = _sums(sum_releases(config))
    privacy = keys_of(config)
    if sums_once(config):
        return epsilon_of(sums, privacy.delta)
    if privacy.unit == "record":
        return epsilon_spent(config, privacy, sizes, rounds, sums)
    return epsilon_of([release._replace(times=rounds) for release in sums], privacy.delta)


def privacy_cost(config: RunConfig, num_examples: int) -> str:
    """The noise of a client with this number of training examples, in a sentence.

    Raises
    ------
    ConfigError
        If the accountant's package is missing.
    """
    from curvfed.strategies.wire.messages import TRAIN

    privacy = keys_of(config)
    texts = [
        f"secure sums: {number}, each with noise of {release.noise:.3g} x the most that one"
        f" {privacy.unit} adds"
        for release, number in sum_releases(config).values()
    ]
    if trains_privately(config):
        release, rounds = planned_releases(config, num_examples)[TRAIN]
        texts.append(
            f"a client of {num_examples} training examples adds noise of {release.noise:.3g} x"
            f" dp.clip to each of {rounds * release.times} steps; an example takes part in a step"
            f" with probability {release.rate:.3g}"
        )
    return f"differential privacy: {promise(privacy)}; {'; '.join(texts)}"
