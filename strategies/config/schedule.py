"""The learning rate over the rounds."""

import math

from curvfed.strategies.base.run_keys import RunKeys


def learning_rate(config: RunKeys, round_number: int) -> float:
    """The clients' learning rate in a round, 1, 2, …; `config` is settled.

    Cosine is SphereFed's schedule (Section 5.1; Loshchilov & Hutter, 2017, Eq. 5 without restarts): the first round has
    the whole rate, and the one after the last would have 0. Steps is its Appendix A.3.
    """
    done = round_number - 1
    if config.schedule == "cosine":
        return config.learning_rate * (1 + math.cos(math.pi * done / config.num_rounds)) / 2
    if config.schedule == "steps":
        return config.learning_rate * config.decay ** (done // config.decay_every)
    return config.learning_rate
