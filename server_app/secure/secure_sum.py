"""A secure sum in a run: its phases, public keys, encrypted shares, masked inputs, unmasking."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.phase import Check, Phase
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import Secure
from curvfed.strategies.config.secure_phases import MASKED, Opening
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.messages import (
    BytesByPartition,
    Checksum,
    EncryptedShares,
    PublicKeys,
    Survivors,
    public_keys_message,
)
from curvfed.strategies.secure_sum.server import SecureSumServer
from curvfed.strategies.wire.arrays import MessageError
from curvfed.strategies.wire.messages import FORGET, KEYS, SHARES, UNMASK, Header, Reply

log = logging.getLogger("curvfed")

Ask = Callable[..., Phase]
"""Runs a phase: `ask(header, parts by partition, check of a reply, names and types of the replies' arrays)`."""

T = TypeVar("T")


def secure_sum(
    ask: Ask, header: Header, clients: Sequence[int], modulus: int, length: int, run: RunKeys, keys: Secure
) -> tuple[Phase, NDArray[np.uint64]]:
    """The sum of one vector per client. No single vector is seen.

    Parameters
    ----------
    header : Header
        Of the masked phase.
    clients : sequence of int
        Partitions to ask, ascending.

    Returns
    -------
    phase : Phase
        The masked phase, with the replies that are in the sum.
    total : uint64 array (length,)

    Raises
    ------
    SecureSumError
        If fewer clients than the threshold are left at some step. Nothing is revealed then.
    """
    opening = Opening(target=header.phase, modulus=modulus, length=length, clients=list(clients))
    server = SecureSumServer(opening.session(header, run, keys))

    def receive_keys(reply: Reply) -> None:
        server.receive_keys(reply.partition, PublicKeys.from_parts(reply.parts))

    def receive_shares(reply: Reply) -> None:
        server.receive_shares(reply.partition, EncryptedShares.from_parts(reply.parts))

    def receive_masked_input(reply: Reply) -> None:
        checksum = Checksum.from_parts(reply.parts).checksum
        server.receive_masked_input(reply.partition, reply.arrays[MASKED], checksum)

    def receive_revealed_shares(reply: Reply) -> None:
        server.receive_revealed_shares(reply.partition, BytesByPartition.from_parts(reply.parts).by_partition)

    def finish(close: Callable[[], T], phase: Phase) -> T:
        """End a step. If replies are missing, the error gives the reasons for which replies were dropped."""
        try:
            return close()
        except SecureSumError as error:
            ask(replace(header, phase=FORGET), {p: {} for p in phase.replies}, lambda reply: None)
            raise SecureSumError(f"{error}. {phase.failure_summary}" if phase.reasons else str(error)) from None

    def close_masked_inputs() -> tuple[int, ...]:
        survivors, needed = server.close_masked_inputs(), min(run.min_replies, len(clients))
        if len(survivors) < needed:  # before anything is revealed
            raise SecureSumError(f"{len(survivors)} good replies, needed are {needed} (min-replies)")
        return survivors

    phase = ask(replace(header, phase=KEYS), dict.fromkeys(clients, opening.as_parts()), _check(receive_keys))
    advertised = finish(server.close_keys, phase)
    message = public_keys_message(advertised).as_parts()
    phase = ask(replace(header, phase=SHARES), dict.fromkeys(advertised, message), _check(receive_shares))
    delivered = finish(server.close_shares, phase)
    parts = {partition: BytesByPartition.of(encrypted).as_parts() for partition, encrypted in delivered.items()}
    phase = ask(header, parts, _check(receive_masked_input), {MASKED: np.zeros(length, np.uint64)})
    survivors = finish(close_masked_inputs, phase)
    if len(survivors) == 2 < len(clients):
        log.warning("secure sum: 2 of %d clients are left; each of them can compute the other's vector", len(clients))
    parts = dict.fromkeys(survivors, Survivors(survivors=list(survivors)).as_parts())
    last = ask(replace(header, phase=UNMASK), parts, _check(receive_revealed_shares))
    total = finish(server.total, last)
    for partition in sorted(server.suspects):
        log.warning(
            "secure sum: left out shares that partition %d revealed, because they do not fit the others", partition
        )
    return phase, total


def _check(receive: Check) -> Check:
    """Turn what the secure sum refuses into a bad reply, which is dropped and harms no other reply."""

    def check(reply: Reply) -> None:
        try:
            receive(reply)
        except SecureSumError as error:
            raise MessageError(str(error)) from None

    return check
