"""The messages that a run may send: only of its method's phases, and none that reveals what a node
masks."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.build_method import learner_class
from curvfed.strategies.config.masked import TARGETS, is_masked
from curvfed.strategies.wire.messages import (
    CALIBRATE,
    CCVR,
    CONFIRM,
    DESCRIBE,
    EVALUATE,
    FINE_TUNE,
    FORGET,
    HULLS,
    KEYS,
    MEASURE,
    MESSAGE_TYPES,
    SHARES,
    START,
    TRAIN,
    UNMASK,
)

if TYPE_CHECKING:
    from curvfed.client_app.client import Client


def _calibrates(client: "Client", phase: str) -> bool:
    calibration = client.config.calibration
    return calibration is not None and calibration.phase == phase


BELONGS: dict[str, Callable[["Client"], bool]] = {
    DESCRIBE: lambda client: True,
    START: lambda client: bool(learner_class(client.method).asked_for(client.config.own_keys)),
    TRAIN: lambda client: not client.method.is_one_shot,
    EVALUATE: lambda client: True,
    FINE_TUNE: lambda client: client.config.fine_tunes,
    CALIBRATE: lambda client: _calibrates(client, CALIBRATE),
    CCVR: lambda client: _calibrates(client, CCVR),
    MEASURE: lambda client: client.method.is_one_shot,
    HULLS: lambda client: client.method.is_one_shot,
    **dict.fromkeys(
        (KEYS, SHARES, CONFIRM, UNMASK, FORGET), lambda client: client.config.is_masked
    ),
}
"""Whether a phase belongs to the client's run."""


def check_phase(phase: str, message_type: str, client: "Client") -> None:
    """Refuse a message by its phase, before its handler runs.

    Parameters
    ----------
    phase, message_type : str
        The phase that the message names, and Flower's message type, which selected the handler.
    client : Client

    Raises
    ------
    ConfigError
        If the phase does not belong to the run, or a node that takes part in secure sums alone
        would send an unmasked reply.
    """
    if (
        MESSAGE_TYPES.get(phase) != message_type
        or phase not in BELONGS
        or not BELONGS[phase](client)
    ):
        raise ConfigError(
            f'a message {message_type} of phase "{phase}" is no part of a run of method ='
            f' "{client.config.method}"',
            key="phase",
        )
    is_open = phase in TARGETS and not is_masked(client.config, phase)
    if client.node.secure_sum and is_open:
        raise ConfigError(
            f'this node takes part in secure sums alone; phase "{phase}" would send its reply'
            " unmasked",
            key="secure-sum-only",
        )
