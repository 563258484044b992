"""A client's part in the secure sums of a run: the exchange of keys, and the masks of its vectors.
Each message may reach a new process; `Context.state` connects them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import ConfigRecord, RecordDict
from numpy.typing import NDArray

from curvfed.client_app.client import Client
from curvfed.client_app.guard import Hide
from curvfed.client_app.node.keys import keyed
from curvfed.client_app.node.ledger_memory import STATEMENT_BYTES
from curvfed.client_app.payments import check_paid
from curvfed.geometry.arrays import Floats
from curvfed.strategies.config.masked import basis_of, sum_number
from curvfed.strategies.config.secure_phases import MASKED, Opening, session_of
from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.hull.local import ORDER_NUMBER_BYTES, draw_order_number
from curvfed.strategies.run_log import log
from curvfed.strategies.secure_sum import Group, Session, checksum, crypto
from curvfed.strategies.secure_sum.fixed_point import FixedPoint
from curvfed.strategies.secure_sum.member import Member
from curvfed.strategies.secure_sum.messages import (
    Basis,
    BytesByPartition,
    MaskedInput,
    public_keys_in,
)
from curvfed.strategies.wire.codec import decode_arrays
from curvfed.strategies.wire.messages import WITHOUT_KEYS, Request
from curvfed.strategies.wire.store import LostState

COUNT_BYTES = 4
"""Bytes with which a real node states its number of examples to its peers."""

STATE = "secure-sum"
"""Name of the record with a member's keys."""

VECTOR = "vector"
"""Name of a vector in the node's store of sums."""

Answer = dict[str, Any]


def keys(client: Client, request: Request, state: RecordDict) -> Answer:
    """Announce a fresh public key to the group that the server names."""
    partitions = request.parts.get("members")
    if not isinstance(partitions, list | tuple) or not all(type(p) is int for p in partitions):
        raise SecureSumError('"members" is not a list of whole numbers', key="message")
    group = Group(request.header.run, tuple(partitions))
    if client.node.rules and client.ledger:
        client.ledger.check(group.members, client.group)
        client.node.rules.check_contributors(len(group.members))
    member = Member.begin(group, client.partition)
    if client.ledger:
        # Read before the key leaves: a peer states a later head of its ledger.
        recorded = client.ledger.recorded_heads(group.members)
        member = member.model_copy(update={"statements": recorded})
    _store(member, state)
    return {"parts": member.announcement(_signing_key(client)).as_parts()}


def agree(client: Client, request: Request, state: RecordDict) -> Answer:
    """Agree on a secret with each peer, and write to it: a real node writes its number of examples
    and heads of ledgers; every client in a run of hulls writes an order number."""
    member = _stored(client, request, state)
    if member is None:
        return {"parts": {WITHOUT_KEYS: True}}
    keys_of_all = public_keys_in(BytesByPartition.from_parts(request.parts))
    roster = client.roster if client.node.is_real else crypto.roster(keys_of_all)
    member = member.agree(keys_of_all, roster)
    if not member.written:
        member = _with_texts(client, member, request.header.run)
        _store(member, state)
    return {"parts": BytesByPartition.of(member.written).as_parts()}


def _with_texts(client: Client, member: Member, run: str) -> Member:
    """The member with its texts to each peer."""
    statements = dict.fromkeys(member.group.members, b"")
    number = b""
    if client.node.is_real:
        examples = 0 if client.hides_number else int(client.data.train.sum())
        number = _rounded(examples).to_bytes(COUNT_BYTES)
    if client.ledger:
        statements = client.ledger.begin(run, member.statements)
    order_number = _order_number(client) if client.config.row.sums_only else b""
    texts = {peer: statements[peer] + number + order_number for peer in member.group.members}
    return member.model_copy(
        update={
            "statements": statements,
            "note": order_number,
            "split": client.data_state,
            "written": member.write(texts),
        }
    )


@dataclass(frozen=True)
class OpenSum:
    """A sum that this client takes part in, before its vector is masked.

    Attributes
    ----------
    member : Member
    session : Session
    order_numbers : dict of int to bytes
        By member, in a run of hulls.
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
    member = _stored(client, request, state)
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
    if client.node.rules and not client.hides_number:
        max_weight = client.node.rules.max_weight(sum(counts.values()))
    number = sum_number(session.phase, session.round)
    return OpenSum(member, session, order_numbers, max_weight, heads, number)


def stored_answer(client: Client, opened: OpenSum, state: RecordDict) -> Answer | None:
    """The earlier answer of this client in this sum; None without one.

    A real node stores its vectors, with the basis that they were computed from: a vector that is
    masked again under the same keys must be the same in every bit.

    Raises
    ------
    SecureSumError
        If the sum lies before the last one under these keys, and its vector is missing.
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
    return _send(client, opened, state, arrays[VECTOR], basis, has_noise=metadata["noise"])


def masked(
    client: Client,
    request: Request,
    state: RecordDict,
    opened: OpenSum,
    vector: NDArray[np.uint64],
    *,
    has_noise: bool = False,
    is_drawn: bool = False,
) -> Answer:
    """The reply with the masked vector. A real node stores the vector before.

    Parameters
    ----------
    vector : uint64 array (length,)
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
        metadata = {"basis": basis.model_dump_json(), "noise": has_noise}
        earlier = [number for number in client.vectors.stamps() if number < opened.number]
        base = max(earlier, default=0)
        client.vectors.save(opened.number, {VECTOR: vector}, metadata, base=base, durable=True)
    return _send(client, opened, state, vector, basis, has_noise=has_noise)


def _send(
    client: Client,
    opened: OpenSum,
    state: RecordDict,
    vector: NDArray[np.uint64],
    basis: Basis,
    *,
    has_noise: bool,
) -> Answer:
    """Mask a vector, once the ledger has the sum and a private sum is paid for."""
    session = opened.session
    member = opened.member
    if client.ledger is not None:
        client.ledger.note_sum(session, basis, client.data_state, client.group, opened.heads)
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
    _store(member.model_copy(update={"last": last}), state)
    digest = checksum(masked_input, session, client.partition)
    parts = MaskedInput(checksum=digest, **basis.model_dump()).as_parts()
    return {"arrays": {MASKED: masked_input}, "parts": parts}


def masked_reals(
    client: Client,
    request: Request,
    state: RecordDict,
    opened: OpenSum,
    values: Floats,
    encoding: Callable[[int], FixedPoint],
    hide: Hide | None,
) -> Answer:
    """The reply with a masked vector of real numbers; `encoding` takes the number of members,
    `hide` adds noise.

    Raises
    ------
    SecureSumError
        If the session has another modulus than the encoding: a sum modulo a larger number would
        show how many members have a negative entry.
    """
    session = opened.session
    fixed_point = encoding(len(session.clients))
    if session.modulus != fixed_point.modulus:
        raise SecureSumError(
            f"the modulus of the sum is {session.modulus}; allowed for real numbers is"
            f" {fixed_point.modulus}",
            key="sum-size",
        )
    vector = fixed_point.encode(values)
    if hide is not None:
        vector = hide(vector, fixed_point, session)
    return masked(client, request, state, opened, vector, has_noise=hide is not None)


def _order_number(client: Client) -> bytes:
    """A random number that orders the members. A real node keeps it for the run: a vector that it
    has stored fits its peers' after another exchange of keys."""
    if not client.node.is_real:
        return draw_order_number()
    return bytes.fromhex(keyed(f"order {client.run}", client.node))[:ORDER_NUMBER_BYTES]


def _rounded(number: int) -> int:
    """The largest power of two up to a number, or 0: peers learn no more of it."""
    return 1 << (number.bit_length() - 1) if number else 0


def _signing_key(client: Client) -> Ed25519PrivateKey | None:
    """The node's own key; a simulated client has a public one."""
    if client.node.is_real:
        return client.signing_key
    return crypto.signing_key(client.partition)


def _stored(client: Client, request: Request, state: RecordDict) -> Member | None:
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


def _store(member: Member, state: RecordDict) -> None:
    state[STATE] = ConfigRecord({**member.as_parts()})
