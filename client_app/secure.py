"""A client's masked replies: the server sees only their sum over a group. Each message may reach a
new process; `Context.state` connects them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, RecordDict
from numpy.typing import NDArray

from curvfed.client_app.client import Client
from curvfed.client_app.contribution import Contribution, check_contribution, check_paid
from curvfed.client_app.node.ledger_memory import STATEMENT_BYTES
from curvfed.client_app.questions import admit_data, hides_others, is_compared
from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.figures import SHARES
from curvfed.strategies.config.masked import basis_of, configuration_digest, sum_number
from curvfed.strategies.config.secure_phases import (
    MASKED,
    Opening,
    client_vector,
    session_of,
    sum_encoding,
)
from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.run_log import log
from curvfed.strategies.secure_sum import Session, checksum
from curvfed.strategies.secure_sum.member import Member
from curvfed.strategies.secure_sum.messages import (
    Basis,
    MaskedInput,
)
from curvfed.strategies.wire.codec import decode_arrays
from curvfed.strategies.wire.messages import TRAIN, WITHOUT_KEYS, Request
from curvfed.strategies.wire.store import LostState

COUNT_BYTES = 4
"""Bytes with which a real node states its number of examples to its peers."""

STATE = "secure-sum"
"""Name of the record with a member's keys."""

VECTOR = "vector"
"""Name of a vector in the node's store of sums."""

VALUE_ERRORS = ("not-finite", "value-too-large")
"""The kinds of errors about the values of a member's vector."""

SHARE_DIGITS = 2
"""Digits of a real node's score in a secure sum. Scores are k of n examples: from sums of exact
ones, the n and k of each member follow after some rounds."""

Answer = dict[str, Any]


@dataclass(frozen=True)
class OpenSum:
    """A sum that this client takes part in, before its vector is masked.

    Attributes
    ----------
    member : Member
    session : Session
    order_numbers : dict of int to bytes
        By member, in a run with a one-shot sum.
    max_weight : float
        The largest weight of this client, given the others' examples.
    heads : dict of int to bytes
        The peers' statements about ledgers.
    number : int
        The number of the sum in its run.
    """

    member: Member
    session: Session
    order_numbers: dict[int, bytes]
    max_weight: float
    heads: dict[int, bytes]
    number: int


def open_sum(client: Client, request: Request, state: RecordDict) -> OpenSum | None:
    """Read the message of a masked phase, apart from its model; None without keys of the peers.

    Raises
    ------
    SecureSumError, PeerError
        If the peers' texts cannot be read, a ledger lacks lines, or the others have too few
        examples to hide this client's.
    """
    member = stored_member(client, request, state)
    if member is None or not member.keys:
        return None
    opening = Opening.from_parts(request.parts)
    size = (opening.modulus, opening.length)
    session = session_of(request.header, client.config, member.group.members, size)
    texts = member.read(opening.by_partition)
    heads = {}
    counts = {}
    order_numbers = {member.me: member.note} if member.note else {}
    for peer, text in texts.items():
        if client.node.is_real:
            heads[peer] = text[:STATEMENT_BYTES]
            text = text[STATEMENT_BYTES:]
            counts[peer] = int.from_bytes(text[:COUNT_BYTES])
            text = text[COUNT_BYTES:]
        if member.note:
            order_numbers[peer] = text
    if client.ledger:
        client.ledger.compare(member.statements, heads)
    max_weight = math.inf
    if client.node.is_real and not client.hides_number and hides_others(client):
        max_weight = _max_weight(client, sum(counts.values()))
    number = sum_number(session.phase, session.round)
    return OpenSum(member, session, order_numbers, max_weight, heads, number)


def _max_weight(client: Client, others: int) -> float:
    """The largest weight of this node beside others with this number of examples."""
    rules = client.node.rules
    assert rules is not None, "only a real node states its number"
    allowed = rules.max_weight(others)
    examples = int(client.data.train.sum())
    if client.ledger is None or not examples:
        return allowed
    weight = int(min(examples, allowed))
    return client.ledger.keep_weight(client.data_state, weight, rules.runs.configurations)


def masked_answer(
    client: Client, request: Request, state: RecordDict, make: Callable[[OpenSum], Answer]
) -> Answer:
    """The answer to a masked phase.

    A client without the keys of its peers only reports that, and does not work. In a sum that it
    has answered before it repeats its answer.

    Parameters
    ----------
    make : callable
        Does the work of the phase and masks the result.
    """
    opened = open_sum(client, request, state)
    if opened is None:
        return {"parts": {WITHOUT_KEYS: True}}
    client.max_examples = opened.max_weight
    return _stored_answer(client, opened, state) or make(opened)


def _stored_answer(client: Client, opened: OpenSum, state: RecordDict) -> Answer | None:
    """The earlier answer of this client in this sum; None without one.

    A real node stores its vectors, with the basis that they were computed from: a vector that is
    masked again under the same keys must be the same in every bit.

    Raises
    ------
    SecureSumError
        If the sum lies before the last one under these keys, and its vector is missing, or its
        noise is that of another configuration, which may cost more.
    """
    if client.ledger is None:
        return None
    try:
        arrays, metadata = client.vectors.load(opened.number)
    except LostState:
        if opened.number <= opened.member.last:
            raise SecureSumError(
                f"this node has answered a later sum of the run than {opened.session.phase} of"
                f" round {opened.session.round}, and stores its vector no more",
                key="repeated-sum",
            ) from None
        return None
    basis = Basis.model_validate_json(metadata["basis"])
    noise = metadata["noise"]
    if noise and basis.configuration != configuration_digest(client.requested):
        raise SecureSumError(
            f"this node's vector in the sum of {opened.session.phase} of round"
            f" {opened.session.round} has the noise of another configuration",
            key="repeated-sum",
        )
    # A vector of an earlier version has no digest, nor has the ledger's line about it.
    digest = metadata.get("digest", "")
    return _send(client, opened, state, arrays[VECTOR], basis, digest, has_noise=noise)


def mask_contribution(
    contribution: Contribution,
    client: Client,
    request: Request,
    state: RecordDict,
    opened: OpenSum,
) -> Answer:
    """The reply with a contribution under masks.

    Raises
    ------
    SecureSumError
        If the session has another length than the vectors of every member, or another modulus than
        real numbers: a sum modulo a larger number would show how many members have a negative
        entry.
    """
    session = opened.session
    weight = int(min(contribution.weight, opened.max_weight))
    share = weight / contribution.weight if contribution.weight else 1.0
    examples = int(client.data.train.sum())
    if weight and opened.max_weight < examples:
        log.warning(
            "%s of round %d: the weight is reduced from %d examples to %d, so that the others hide"
            " this node (weight-share)",
            session.phase,
            session.round,
            examples,
            weight,
        )
    bound = contribution.bound or client.run_guard.limit(contribution.received or {})
    figures = contribution.figures
    if client.node.is_real:
        shares = SHARES & figures.keys()
        figures = {**figures, **{name: round(figures[name], SHARE_DIGITS) for name in shares}}
    reduced = replace(contribution, weight=weight, figures=figures)
    try:
        values = _values(client, session, reduced, share, bound)
    except SecureSumError as error:
        if not client.node.is_real or error.kind not in VALUE_ERRORS:
            raise
        # Said in the open, it would be a fact about this member alone: a server could ask for it
        # with parameters that overflow from some value of a record on.
        log.error("%s; this node adds no change to the sum", error)
        values = _values(client, session, reduced.without_change(), share, bound)
    if len(values) != session.length:
        raise SecureSumError(
            f"the length of the sum is {session.length}; allowed for this run is {len(values)}",
            key="sum-size",
        )
    encoding = sum_encoding(bound, len(session.clients))
    if session.modulus != encoding.modulus:
        raise SecureSumError(
            f"the modulus of the sum is {session.modulus}; allowed for real numbers is"
            f" {encoding.modulus}",
            key="sum-size",
        )
    vector = encoding.encode(values)
    hide = None
    if client.is_private:
        variances = contribution.variances
        hide = client.guard.hide(request.header, contribution.arrays, variances, bound)
    if hide is not None:
        vector = hide(vector, encoding, session)
    elif client.has_budget:
        check_contribution(client, session.phase, contribution)
    return masked(
        client,
        request,
        state,
        opened,
        vector,
        digest=contribution.digest_for(weight) if hide is None else "",
        has_noise=hide is not None,
    )


def _values(
    client: Client, session: Session, contribution: Contribution, share: float, bound: float
) -> Floats:
    """The vector of a contribution, before it is encoded; `share` is the fraction of the weight
    that remains."""
    if session.phase == TRAIN:
        received = contribution.received or {}
        return client.guard.update_vector(contribution, received, bound)
    shared = share * contribution.flatten()
    return client_vector(shared, contribution.weight, contribution.figures, bound)


def masked(
    client: Client,
    request: Request,
    state: RecordDict,
    opened: OpenSum,
    vector: NDArray[np.uint64],
    *,
    digest: str = "",
    has_noise: bool = False,
    is_drawn: bool = False,
) -> Answer:
    """The reply with the masked vector. A real node stores the vector before.

    Parameters
    ----------
    vector : uint64 array (length,)
    digest : str
        The digest of the contribution, by which the ledger knows a vector that is computed anew;
        empty: the digest of the vector itself.
    has_noise : bool
        Whether it is private by noise, which costs.
    is_drawn : bool
        Whether the client would draw another vector for the same sum.
    """
    basis = basis_of(
        decode_arrays(request.arrays),
        client.fixed_arrays,
        request.required_facts,
        client.requested,
        request.stamp,
        request.holders,
    )
    if client.ledger is not None:
        if (has_noise or is_drawn) and client.ledger.was_in(opened.session):
            raise SecureSumError(
                f"this node's vector in the sum of {opened.session.phase} of round"
                f" {opened.session.round} is no longer stored, and would be drawn anew",
                key="repeated-sum",
            )
        digest = digest or sha256(vector.astype("<u8", copy=False).tobytes()).hexdigest()
        metadata = {"basis": basis.model_dump_json(), "noise": has_noise, "digest": digest}
        earlier = [number for number in client.vectors.stamps() if number < opened.number]
        base = max(earlier, default=0)
        client.vectors.save(opened.number, {VECTOR: vector}, metadata, base=base, durable=True)
    return _send(client, opened, state, vector, basis, digest, has_noise=has_noise)


def _send(
    client: Client,
    opened: OpenSum,
    state: RecordDict,
    vector: NDArray[np.uint64],
    basis: Basis,
    digest: str,
    *,
    has_noise: bool,
) -> Answer:
    """Mask a vector, once the ledger has the sum and a private sum is paid for."""
    session = opened.session
    member = opened.member
    if client.ledger is not None:
        if is_compared(client):
            admit_data(client, is_fixed=member.hides)
        client.ledger.note_sum(
            session, basis, client.data_state, client.group, opened.heads, digest
        )
        if has_noise:
            client.guard.pay(session)
            check_paid(client, session.phase, session.digest.hex())
        digests = ", ".join(f"{name} {digest}" for name, digest in basis.short.items())
        log.info(
            "secure sum of %s, round %d, over %d members: %s",
            session.phase,
            session.round,
            len(session.clients),
            digests,
        )
    masked_input = member.mask(vector, session, basis)
    last = max(member.last, opened.number)
    store_member(member.model_copy(update={"last": last}), state)
    checked = checksum(masked_input, session, client.partition)
    parts = MaskedInput(checksum=checked, **basis.model_dump()).as_parts()
    return {"arrays": {MASKED: masked_input}, "parts": parts}


def stored_member(client: Client, request: Request, state: RecordDict) -> Member | None:
    """This client's keys for the run; None if they are missing, or if its data have changed since:
    its peers have agreed to hide another vector."""
    stored = state.get(STATE)
    if not isinstance(stored, ConfigRecord):
        return None
    member = Member.from_parts(dict(stored))
    if member.group.run != request.header.run or member.me != client.partition:
        return None
    if member.keys and member.split != client.data_state:
        return None
    return member


def store_member(member: Member, state: RecordDict) -> None:
    """Store this client's keys for the run in Flower's state of the node."""
    state[STATE] = ConfigRecord({**member.as_parts()})
