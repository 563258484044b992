"""Which messages a run may send: none of a phase that its method does not have, none that shows what a node masks."""

from collections.abc import Callable

from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.wire.messages import (
    CALIBRATE,
    CCVR,
    CONFIRM,
    CURVATURE,
    DESCRIBE,
    EVALUATE,
    FINE_TUNE,
    FORGET,
    HULLS,
    KEYS,
    MEASURE,
    MESSAGE_TYPES,
    SHARES,
    TRAIN,
    UNMASK,
)

BELONGS: dict[str, Callable[[RunConfig], bool]] = {
    DESCRIBE: lambda run: True,
    CURVATURE: lambda run: CURVATURE in run.row.before,
    TRAIN: lambda run: not run.row.is_one_shot,
    EVALUATE: lambda run: True,
    FINE_TUNE: lambda run: run.fine_tunes,
    CALIBRATE: lambda run: CALIBRATE in run.row.after,
    CCVR: lambda run: CCVR in run.row.after,
    MEASURE: lambda run: run.row.is_one_shot,
    HULLS: lambda run: run.row.is_one_shot,
    **dict.fromkeys((KEYS, SHARES, CONFIRM, UNMASK, FORGET), lambda run: run.is_masked),
}
"""Whether a phase is a part of a settled run."""

SUMMED = (TRAIN, EVALUATE, FINE_TUNE, CALIBRATE, CCVR)
"""Phases whose replies are masked in a run with `secure-sum`, and only there."""


def check_phase(phase: str, message_type: str, config: RunConfig, masked_alone: bool) -> None:
    """Refuse a message by its phase, before its handler runs.

    Parameters
    ----------
    phase, message_type : str
        What the message says of itself, and Flower's type, by which its handler was found.
    config : RunConfig
        Settled.
    masked_alone : bool
        Whether the node takes part in secure sums alone.

    Raises
    ------
    ConfigError
    """
    if MESSAGE_TYPES.get(phase) != message_type or phase not in BELONGS or not BELONGS[phase](config):
        raise ConfigError(
            f'a message {message_type} of phase "{phase}" is no part of a run of method = "{config.method}"'
        )
    if masked_alone and phase in SUMMED and not config.secure_sum:
        raise ConfigError(f'this node takes part in secure sums alone; phase "{phase}" would send its reply unmasked')
