"""What record-level privacy costs a client: the noise of its steps, from the target epsilon."""

import math

from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import Privacy
from curvfed.strategies.privacy.accountant import Release, noise_multiplier


def round_release(run: RunKeys, privacy: Privacy, num_examples: int) -> Release:
    """The releases of one round of a client with this number of training examples, 1 or more.

    A round has as many steps as without privacy, on samples of `batch-size` examples on average.
    The noise is such that all rounds together, in each of which the client trains, cost
    `dp.epsilon`.

    Parameters
    ----------
    run : RunKeys
        With its defaults resolved.
    """
    size = min(run.batch_size or num_examples, num_examples)
    steps = run.local_epochs * math.ceil(num_examples / size)
    rate = size / num_examples
    assert privacy.epsilon is not None, "a run with dp.unit has dp.epsilon"
    noise = noise_multiplier(
        privacy.epsilon, privacy.delta, rate, max(run.num_rounds, 1) * steps
    )
    return Release(noise, rate, steps)
