"""The messages that a run may send: only of its method's phases, and none that reveals what a node
masks."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.build_method import learner_class
from curvfed.strategies.config.masked import TARGETS, is_masked
from curvfed.strategies.wire.messages import (
    CALIBRATE,
    CCVR,
    CONFIRM,
    FINE_TUNE,
    FORGET,
    KEYS,
    MESSAGE_TYPES,
    SHARES,
    START,
    UNMASK,
)

if TYPE_CHECKING:
    from curvfed.client_app.client import Client


def _calibrates(client: "Client", phase: str) -> bool:
    calibration = client.config.calibration
    return calibration is not None and calibration.phase == phase


CONDITIONS: dict[str, Callable[["Client"], bool]] = {
    START: lambda client: bool(learner_class(client.method).asked_for(client.config.own_keys)),
    FINE_TUNE: lambda client: client.config.fine_tunes,
    CALIBRATE: lambda client: _calibrates(client, CALIBRATE),
    CCVR: lambda client: _calibrates(client, CCVR),
    **dict.fromkeys(
        (KEYS, SHARES, CONFIRM, UNMASK, FORGET), lambda client: client.config.is_masked
    ),
}
"""Phases that belong only to some runs of a method."""


def check_phase(phase: str, message_type: str, client: "Client", phases: Collection[str]) -> None:
    """Refuse a message by its phase, before its handler runs.

    Parameters
    ----------
    phase, message_type : str
        The phase that the message names, and Flower's message type, which selected the handler.
    client : Client
    phases : collection of str
        Those that the client's method has.

    Raises
    ------
    ConfigError
        If the phase does not belong to the run, or a node that takes part in secure sums alone
        would send an unmasked reply.
    """
    if (
        MESSAGE_TYPES.get(phase) != message_type
        or phase not in phases
        or (phase in CONDITIONS and not CONDITIONS[phase](client))
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
