"""What record-level privacy costs a client: the noise of its steps, from the target epsilon."""

import math
from collections.abc import Collection

from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import Privacy
from curvfed.strategies.privacy.accountant import Release, epsilon_of, noise_multiplier

UNITS = {"record": "training example of a client", "client": "client"}
"""What is hidden, by `dp.unit`."""

MAX_SIZES = 8
"""Maximum number of different sizes of clients for which the server computes epsilon; each takes
a second."""


def round_release(
    run: RunKeys, privacy: Privacy, num_examples: int, others: tuple[Release, ...] = ()
) -> Release:
    """The releases of one round of a client with this number of training examples; none without.

    A round has as many steps as without privacy, on samples of `batch-size` examples on average.
    The noise is such that all rounds together, in each of which the client trains, cost
    `dp.epsilon` with the run's other releases.

    Parameters
    ----------
    run : RunKeys
        With its defaults resolved.
    """
    if not num_examples:
        return Release(noise=1.0, times=0)
    size = min(run.batch_size or num_examples, num_examples)
    steps = run.local_epochs * math.ceil(num_examples / size)
    rate = size / num_examples
    assert privacy.epsilon is not None, "a run with dp.unit has dp.epsilon"
    steps_of_run = max(run.num_rounds, 1) * steps
    noise = noise_multiplier(privacy.epsilon, privacy.delta, rate, steps_of_run, others)
    return Release(noise, rate, steps)


def epsilon_spent(
    run: RunKeys,
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
    assert privacy.epsilon is not None, "a run with dp.unit has dp.epsilon"
    if rounds >= run.num_rounds or not 0 < len(sizes) <= MAX_SIZES:
        return privacy.epsilon
    releases = [round_release(run, privacy, size, others) for size in sizes]
    return max(
        epsilon_of([release._replace(times=rounds * release.times)], privacy.delta)
        for release in releases
    )


def promise(privacy: Privacy) -> str:
    """What a run promises, as part of a sentence."""
    unit = UNITS[privacy.unit]
    return f"each {unit}, epsilon {privacy.epsilon:g} at delta {privacy.delta:g} for the whole run"
