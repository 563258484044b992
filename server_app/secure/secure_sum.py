"""A secure sum in a run: its phases, public keys, encrypted shares, masked inputs, signatures,
unmasking."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.answer import Answer, reason_texts
from curvfed.server_app.cohort import Check
from curvfed.server_app.secure import SumsOfRun
from curvfed.strategies.config.secure_phases import MASKED, Opening
from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.run_log import log
from curvfed.strategies.secure_sum.messages import (
    Advertisement,
    Basis,
    BytesByPartition,
    Complaint,
    Confirmation,
    EncryptedShares,
    MaskedInput,
    Survivors,
    public_keys_message,
)
from curvfed.strategies.secure_sum.server import SecureSumServer
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.messages import (
    CONFIRM,
    FORGET,
    KEYS,
    SHARES,
    UNMASK,
    Header,
    Parts,
    Reply,
)

ATTEMPTS = 5
"""Maximum number of attempts at a sum. Each leaves out the clients whose messages do not verify."""


UNSIGNED = (
    "the clients sign nothing, so the secure sums protect them only from a server that follows the"
    " protocol; give every node a signing-key and a roster"
)
"""The warning about sums without signatures."""

Ask = Callable[..., Answer]
"""Runs a phase: `ask(header, parts by partition, check of a reply, names and types of the replies'
arrays)`."""

T = TypeVar("T")


class _LeaveOut(Exception):
    """The sum must start anew without some clients.

    Parameters
    ----------
    remaining : list of int
        The clients that take part again.
    reasons : dict of int to str
        The reason for each client that is left out.
    """

    def __init__(self, remaining: list[int], reasons: dict[int, str]) -> None:
        super().__init__()
        self.remaining = remaining
        self.reasons = reasons


def secure_sum(
    ask: Ask,
    header: Header,
    clients: Sequence[int],
    modulus: int,
    length: int,
    sums: SumsOfRun,
    *,
    basis: Basis,
    num_encoded: int = 0,
) -> tuple[Answer, NDArray[np.uint64]]:
    """The sum of one vector per client. The server sees no single vector.

    A client whose keys or shares do not verify is named and left out before any share of a secret
    is revealed. The sum then starts anew with fresh keys; from the signatures on, nothing is
    repeated.

    Parameters
    ----------
    header : Header
        The header of the masked phase.
    clients : sequence of int
        Partitions to ask, ascending.
    sums : SumsOfRun
        Clients whose messages do not verify are added to its `left_out`.
    basis : Basis
        What each vector must be computed from.
    num_encoded : int
        The number of vectors that the encoding leaves room for, in this sum and the sums that it
        is added to; 0 for the number of clients.

    Returns
    -------
    answer : Answer
        The masked phase, with the replies that are in the sum.
    total : uint64 array (length,)

    Raises
    ------
    SecureSumError
        If fewer clients than the threshold are left at some step. Nothing is revealed then.
    """
    reasons = {
        partition: reason for partition, reason in sums.left_out.items() if partition in clients
    }
    remaining = [partition for partition in clients if partition not in reasons]
    for _ in range(ATTEMPTS):
        opening = Opening(
            target=header.phase,
            modulus=modulus,
            length=length,
            clients=remaining,
            asked=num_encoded or len(clients),
        )
        try:
            return _Attempt(
                ask,
                header,
                opening,
                sums,
                basis=basis,
                min_replies=min(sums.run.min_replies, len(clients)),
            ).total()
        except _LeaveOut as leaving:
            remaining = leaving.remaining
            reasons = reasons | leaving.reasons
            if sums.has_groups:
                raise SecureSumError(
                    "a fixed group sums with all its members. Left out:"
                    f" {'; '.join(reason_texts(reasons))}",
                    key="incomplete-group",
                ) from None
        except SecureSumError as error:
            if not reasons:
                raise
            raise SecureSumError(
                f"{error}. Left out: {'; '.join(reason_texts(reasons))}", key=error.kind
            ) from None
    raise SecureSumError(
        f"the secure sum failed {ATTEMPTS} times: each time messages of some client did not verify",
        key="too-many-attempts",
    )


class _Attempt:
    """One attempt at a sum, from the public keys to the sum.

    Parameters
    ----------
    min_replies : int
        Minimum number of good replies.
    """

    def __init__(
        self,
        ask: Ask,
        header: Header,
        opening: Opening,
        sums: SumsOfRun,
        *,
        basis: Basis,
        min_replies: int,
    ) -> None:
        self._ask = ask
        self._header = header
        self._opening = opening
        self._sums = sums
        self._min_replies = min_replies
        session = opening.session(header, sums.run, sums.keys, is_group=bool(sums.stated))
        self._server = SecureSumServer(session, basis)
        self._idle = 0
        self._missing: dict[int, str] = {}

    def total(self) -> tuple[Answer, NDArray[np.uint64]]:
        """All phases of the sum."""
        server = self._server
        opening = self._opening
        phase = self._phase(
            KEYS, dict.fromkeys(opening.clients, opening.as_parts()), self._receive_keys
        )
        members = self._finish(server.close_keys, phase)
        for partition in sorted(server.unlike):
            log.warning(
                "secure sum: left out partition %d, which %s its keys, unlike most: give every node"
                " a signing-key and a roster, or none",
                partition,
                "does not sign" if server.session.signed else "signs",
            )
        if not server.session.signed:
            self._sums.notes["unsigned"] = UNSIGNED
        message = public_keys_message(members).as_parts()
        phase = self._phase(SHARES, dict.fromkeys(members, message), self._receive_shares)
        self._leave_out(phase)
        delivered = self._finish(server.close_shares, phase)
        parts = {
            partition: BytesByPartition.of(encrypted).as_parts()
            for partition, encrypted in delivered.items()
        }
        template = {MASKED: np.zeros(opening.length, np.uint64)}
        masked = self._ask(self._header, parts, _check(self._receive_masked_input), template)
        self._missing |= masked.reasons
        self._leave_out(masked)
        survivors = self._finish(self._close_masked_inputs, masked)
        if len(survivors) == 2 < len(opening.clients):
            log.warning(
                "secure sum: 2 of %d clients are left; each of them can compute the other's vector",
                len(opening.clients),
            )
        parts = dict.fromkeys(survivors, Survivors(survivors=list(survivors)).as_parts())
        phase = self._phase(CONFIRM, parts, self._receive_signature)
        signatures = self._finish(server.close_signatures, phase)
        message = BytesByPartition.of(signatures if server.session.signed else {}).as_parts()
        phase = self._phase(
            UNMASK, dict.fromkeys(signatures, message), self._receive_revealed_shares
        )
        total = self._finish(server.total, phase)
        for partition in sorted(server.suspects):
            log.warning(
                "secure sum: left out shares that partition %d revealed, because they do not fit"
                " the others",
                partition,
            )
        return masked, total

    def _phase(self, name: str, parts: Mapping[int, Parts], receive: Check) -> Answer:
        phase = self._ask(replace(self._header, phase=name), parts, _check(receive))
        self._missing |= phase.reasons
        return phase

    def _receive_keys(self, reply: Reply) -> None:
        if not reply.parts:
            self._server.stay_out(reply.partition)
            self._idle += 1
            return
        keys = Advertisement.from_parts(reply.parts)
        self._server.receive_keys(reply.partition, keys, keys.signing_key)

    def _receive_shares(self, reply: Reply) -> None:
        self._server.receive_shares(reply.partition, EncryptedShares.from_parts(reply.parts))

    def _receive_masked_input(self, reply: Reply) -> None:
        message = MaskedInput.from_parts(reply.parts)
        self._server.receive_masked_input(
            reply.partition, reply.arrays[MASKED], message.checksum, message
        )

    def _receive_signature(self, reply: Reply) -> None:
        self._server.receive_signature(
            reply.partition, Confirmation.from_parts(reply.parts).signature
        )

    def _receive_revealed_shares(self, reply: Reply) -> None:
        self._server.receive_revealed_shares(
            reply.partition, BytesByPartition.from_parts(reply.parts).by_partition
        )

    def _close_masked_inputs(self) -> tuple[int, ...]:
        survivors = self._server.close_masked_inputs()
        good = len(survivors) + self._idle
        if good < self._min_replies:  # before anything is revealed
            raise SecureSumError(
                f"{good} good replies, needed are {self._min_replies} (min-replies)",
                key="too-few-replies",
            )
        return survivors

    def _leave_out(self, phase: Answer) -> None:
        """Start anew if clients complain about others."""
        for partition, parts in phase.complaints.items():
            try:
                self._server.receive_complaint(partition, Complaint.from_parts(parts).complaint)
            except SecureSumError as error:
                log.warning("secure sum: ignored an invalid complaint: %s", error)
        out = self._server.to_leave_out()
        if not out:
            return
        # A client that misses the messages of a few others may be their victim: left out for the
        # whole run, the honest clients could be driven out one after the other.
        lasting = (
            out.keys() if phase.header.phase == SHARES else out.keys() - phase.complaints.keys()
        )
        self._sums.left_out.update({partition: out[partition] for partition in lasting})
        for partition, reason in out.items():
            until = "the rest of this run" if partition in lasting else "this sum"
            log.warning("secure sum: left out partition %d for %s: %s", partition, until, reason)
        self._forget(out)
        raise _LeaveOut(sorted({*phase.replies, *phase.complaints} - out.keys()), out)

    def _finish(self, close: Callable[[], T], phase: Answer) -> T:
        """End a step. An error names the reasons for replies missing in this step or before."""
        try:
            return close()
        except SecureSumError as error:
            self._forget(phase.replies)
            if not self._missing:
                raise
            reasons = reason_texts(self._missing)[:3]
            raise SecureSumError(f"{error}. {'; '.join(reasons)}", key=error.kind) from None

    def _forget(self, partitions: Iterable[int]) -> None:
        self._ask(
            replace(self._header, phase=FORGET), {p: {} for p in partitions}, lambda reply: None
        )


def _check(receive: Check) -> Check:
    """Turn a refusal of the secure sum into a bad reply, which is dropped."""

    def check(reply: Reply) -> None:
        try:
            receive(reply)
        except SecureSumError as error:
            raise MessageError(str(error), key=error.kind) from None

    return check
