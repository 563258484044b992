"""The server's half of a secure sum: four phases, of which the third is the one whose replies are masked."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.phase import Phase
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.config.secure_phases import MASKED, Opening
from curvfed.strategies.secure_sum.collector import Collector
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME
from curvfed.strategies.secure_sum.wire import (
    Keys,
    Shares,
    by_partition,
    by_partition_parts,
    bytes_in,
    check_names,
    key_book_parts,
)
from curvfed.strategies.wire.arrays import MessageError
from curvfed.strategies.wire.messages import FORGET, KEYS, SHARES, UNMASK, Header, Parts, Reply

log = logging.getLogger("curvfed")

Check = Callable[[Reply], None]
T = TypeVar("T")


class Ask(Protocol):
    """What sends parts to clients in a phase and collects their replies."""

    def __call__(
        self, header: Header, parts: Mapping[int, Parts], check: Check, awaited: Arrays | None = None
    ) -> Phase:
        """`awaited` are the arrays of masked replies."""
        ...


def secure_sum(
    ask: Ask, header: Header, clients: Sequence[int], modulus: int, length: int, config: RunConfig
) -> tuple[Phase, NDArray[np.uint64]]:
    """The sum of one vector per client, of which no single one is seen.

    Parameters
    ----------
    header : Header
        Of the phase that is masked.
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
        If fewer clients than the threshold are left at some step: nothing is revealed then.
    """
    opening = Opening(header.phase, modulus, length, tuple(clients))
    collector = Collector(opening.session(header, config))

    def finish(step: Callable[[], T], phase: Phase) -> T:
        """Take a step of the collector; what it misses is explained by the replies that were dropped."""
        try:
            return step()
        except SecureSumError as error:
            ask(replace(header, phase=FORGET), {p: {} for p in phase.replies}, lambda reply: None)
            raise SecureSumError(f"{error}. {phase.failure_summary}" if phase.reasons else str(error)) from None

    phase = ask(replace(header, phase=KEYS), dict.fromkeys(clients, opening.as_parts()), _keys(collector))
    finish(collector.close_keys, phase)
    book = key_book_parts(collector.keys)
    phase = ask(replace(header, phase=SHARES), dict.fromkeys(collector.keys, book), _shares(collector))
    finish(collector.close_shares, phase)
    letters = {partition: by_partition_parts(collector.delivery(partition)) for partition in phase.replies}
    phase = ask(header, letters, _masked(collector), {MASKED: np.zeros(length, np.uint64)})
    finish(collector.close_masked, phase)
    finish(lambda: _check_replies(len(collector.survivors), min(config.min_replies, len(clients))), phase)
    if len(collector.survivors) == 2 < len(clients):
        log.warning("secure sum: 2 of %d clients are left, of whom each can tell the other's part", len(clients))
    told = {"survivors": list(collector.survivors)}
    last = ask(replace(header, phase=UNMASK), dict.fromkeys(collector.survivors, told), _revealed(collector))
    total = finish(collector.total, last)
    for partition in collector.suspects:
        log.warning("secure sum: shares that came from or through partition %d do not fit and were left out", partition)
    return phase, total


def check_session(header: Header, clients: Sequence[int], config: RunConfig) -> None:
    """Refuse clients of whom there can be no sum, before any of them is asked for anything.

    Raises
    ------
    ConfigError
        If they are fewer than two, or the threshold does not fit their number.
    """
    if len(clients) == 2:
        log.warning("2 clients: each can take its own part off a sum of two, and is left with the other's")
    try:
        Opening(header.phase, SUM_PRIME, 1, tuple(clients)).session(header, config)
    except SecureSumError as error:
        raise ConfigError(
            f"secure sums of {len(clients)} clients (secure.threshold, fraction-train): {error}"
        ) from None


def _check_replies(found: int, needed: int) -> None:
    if found < needed:  # seen before anything is revealed
        raise SecureSumError(f"{found} good replies, needed are {needed} (min-replies)")


def _keys(collector: Collector) -> Check:
    return _check(lambda reply: collector.take_keys(reply.partition, Keys.from_parts(reply.parts)))


def _shares(collector: Collector) -> Check:
    return _check(lambda reply: collector.take_shares(reply.partition, Shares.from_parts(reply.parts)))


def _masked(collector: Collector) -> Check:
    def take(reply: Reply) -> None:
        check_names(reply.parts, "checksum")
        collector.take_masked(reply.partition, reply.arrays[MASKED], bytes_in(reply.parts, "checksum"))

    return _check(take)


def _revealed(collector: Collector) -> Check:
    return _check(lambda reply: collector.take_revealed(reply.partition, by_partition(reply.parts)))


def _check(take: Callable[[Reply], Any]) -> Check:
    """Hand a reply to the collector; what it refuses is a bad reply, which harms nobody else's."""

    def check(reply: Reply) -> None:
        try:
            take(reply)
        except SecureSumError as error:
            raise MessageError(str(error)) from None

    return check
