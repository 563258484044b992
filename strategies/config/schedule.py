"""What goes by the rounds: the learning rate, and what else the number of rounds sets."""

import math

from curvfed.strategies.config.run_config import RunConfig


def learning_rate(config: RunConfig, round_number: int) -> float:
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


def pace(config: RunConfig) -> tuple[int, ...]:
    """What the number of rounds sets besides where the run ends, and must stay as it was when a run is resumed."""
    paces = [config.num_rounds] if config.schedule == "cosine" else []
    if config.row.rounds_set is not None:
        paces.append(config.row.rounds_set(config.keys_of(config.row), config.num_rounds))
    return tuple(paces)
