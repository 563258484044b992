"""A client's replies in a secure sum. Each message may reach a new process; `Context.state`
connects them."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import ConfigRecord, RecordDict
from numpy.typing import NDArray

from curvfed.client_app.client import Client
from curvfed.geometry.arrays import Floats
from curvfed.strategies.config.masked import TARGETS, basis_of
from curvfed.strategies.config.secure_phases import MASKED, Opening
from curvfed.strategies.errors import PeerError, SecureSumError
from curvfed.strategies.hull.local import draw_order_number
from curvfed.strategies.run_log import log
from curvfed.strategies.secure_sum import Session, checksum, crypto
from curvfed.strategies.secure_sum.client import SecureSumClient
from curvfed.strategies.secure_sum.client_state import STEPS, ClientState, masked_basis
from curvfed.strategies.secure_sum.fixed_point import FixedPoint
from curvfed.strategies.secure_sum.messages import (
    BytesByPartition,
    Complaint,
    Confirmation,
    MaskedInput,
    Survivors,
    public_keys_in,
)
from curvfed.strategies.wire.codec import decode_arrays
from curvfed.strategies.wire.messages import HULLS, Request

COUNT_BYTES = 4
"""Bytes with which a real node states its number of examples to its peers."""

STATE = "secure-sum"
"""Name of the record with the secrets of a sum, until its last message."""

Answer = dict[str, Any]

Hide = Callable[[NDArray[np.uint64], FixedPoint, Session], NDArray[np.uint64]]
"""Adds a client's share of the noise to its residues."""


@dataclass(frozen=True)
class FromPeers:
    """What the members of a sum sent each other, unseen by the server.

    Attributes
    ----------
    order_numbers : dict of int to bytes
        By member, in a sum of hulls.
    max_weight : float
        The largest weight of this client beside the others.
    """

    order_numbers: dict[int, bytes] = field(default_factory=dict)
    max_weight: float = math.inf


def keys(client: Client, request: Request, state: RecordDict) -> Answer:
    """Advertise fresh public keys for the sum that the server announces; empty if this client
    contributes nothing."""
    opening = Opening.from_parts(request.parts)
    is_group = client.node.is_real
    session = opening.session(
        request.header, client.config, client.config.secure, is_group=is_group
    )
    if last := _stored(state):
        _check_order(last.state, session)
    _admit(client, session)
    if not client.contributes(opening.target):
        return {}
    key = _signing_key(client)
    recorded = client.ledger.recorded_heads(session.clients) if client.ledger else None
    member = SecureSumClient.begin(session, client.partition, key, statements=recorded)
    _store(member, state)
    public = b"" if key is None else key.public_key().public_bytes_raw()
    return {"parts": member.advertise_keys().as_parts() | {"signing_key": public}}


def shares(client: Client, request: Request, state: RecordDict) -> Answer:
    """Share the secrets with the peers, encrypted; with them a real node states its number of
    examples, and for hulls a client an order number."""
    member = member_of(request, state)
    payload = draw_order_number() if member.state.session.phase == HULLS else b""
    if client.node.is_real:
        number = 0 if client.hides_number else int(client.data.train.sum())
        payload = _rounded(number).to_bytes(COUNT_BYTES) + payload
    keys_of_all = public_keys_in(BytesByPartition.from_parts(request.parts))
    roster = _roster(client, keys_of_all)
    try:
        statements = None
        if client.ledger:
            statements = client.ledger.begin(member.state.session, member.state.statements)
        answer = member.share_keys(keys_of_all, payload, roster, statements)
    except PeerError as error:
        return _complaint(error)
    _store(member, state)
    return {"parts": answer.as_parts()}


def receive_shares(client: Client, request: Request, state: RecordDict) -> tuple[FromPeers, Answer]:
    """Decrypt the shares that the peers sent this client, before it masks its reply, and compare
    what they state about ledgers.

    Returns
    -------
    received : FromPeers
    complaint : dict
        The reply if a share cannot be decrypted, or a peer's ledger lacks lines; else empty.
    """
    member = member_of(request, state)
    if member.state.session.phase != request.header.phase:
        raise SecureSumError(
            f"the secure sum that was begun masks phase {member.state.session.phase}, not"
            f" {request.header.phase}",
            key="other-phase",
        )
    sent = member.state.statements
    try:
        payloads = member.receive_shares(BytesByPartition.from_parts(request.parts).by_partition)
        if client.ledger:
            client.ledger.compare(sent, member.state.statements)
    except PeerError as error:
        return FromPeers(), _complaint(error)
    received = FromPeers(payloads)
    if client.node.rules:
        counts = {peer: int.from_bytes(text[:COUNT_BYTES]) for peer, text in payloads.items()}
        others = sum(counts.values()) - counts[client.partition]
        received = FromPeers(
            {peer: text[COUNT_BYTES:] for peer, text in payloads.items()},
            math.inf if client.hides_number else client.node.rules.max_weight(others),
        )
    _store(member, state)
    return received, {}


def _rounded(number: int) -> int:
    """The largest power of two up to a number, or 0: peers learn no more of it."""
    return 1 << (number.bit_length() - 1) if number else 0


def masked(
    client: Client,
    request: Request,
    state: RecordDict,
    vector: NDArray[np.uint64],
    *,
    has_noise: bool = False,
) -> Answer:
    """The reply with the masked vector, after `receive_shares`."""
    member = member_of(request, state)
    basis = basis_of(
        decode_arrays(request.arrays),
        client.fixed_arrays,
        request.required_facts,
        client.requested,
        request.holders,
    )
    masked_input = member.mask_input(vector, basis, has_noise=has_noise)
    _store(member, state)
    digest = checksum(masked_input, member.state.session, client.partition)
    parts = MaskedInput(checksum=digest, **basis.model_dump()).as_parts()
    return {"arrays": {MASKED: masked_input}, "parts": parts}


def masked_reals(
    client: Client,
    request: Request,
    state: RecordDict,
    values: Floats,
    encoding: Callable[[int], FixedPoint],
    hide: Hide | None,
) -> Answer:
    """The reply with a masked vector of real numbers; `encoding` takes the number of clients
    asked, `hide` adds noise.

    Raises
    ------
    SecureSumError
        If the session has another modulus than the encoding: a sum modulo a larger number would
        show how many members have a negative entry.
    """
    session = member_of(request, state).state.session
    fixed_point = encoding(session.num_asked)
    if session.modulus != fixed_point.modulus:
        raise SecureSumError(
            f"the modulus of the sum is {session.modulus}; allowed for real numbers is"
            f" {fixed_point.modulus}",
            key="sum-size",
        )
    vector = fixed_point.encode(values)
    if hide is not None:
        vector = hide(vector, fixed_point, session)
    return masked(client, request, state, vector, has_noise=hide is not None)


def confirm(client: Client, request: Request, state: RecordDict) -> Answer:
    """Sign the survivors of the sum. From here on shares are revealed only for these survivors.

    A node pays for the noise of a private sum here: without its signature and its share of its own
    secret, no other member reveals what it masked.
    """
    member = member_of(request, state)
    signature = member.confirm(Survivors.from_parts(request.parts).survivors, _signing_key(client))
    if member.state.has_noise:
        from curvfed.client_app.private_rounds import pay_for_sum

        pay_for_sum(client.config, client.node, client.ledger, member.state.session)
    _note(client, member.state)
    _store(member, state)
    return {"parts": Confirmation(signature=signature).as_parts()}


def unmask(client: Client, request: Request, state: RecordDict) -> Answer:
    """Reveal a share of each survivor's self mask, and of the mask key of each other peer."""
    member = member_of(request, state)
    signatures = BytesByPartition.from_parts(request.parts).by_partition
    revealed = member.unmask(signatures, _roster(client, member.state.survivors))
    _store(member, state)
    return {"parts": BytesByPartition.of(revealed).as_parts()}


def forget(client: Client, request: Request, state: RecordDict) -> Answer:
    """Forget the secrets of a sum that failed."""
    end(client, state)
    return {}


def end(client: Client, state: RecordDict) -> None:
    """Forget the secrets of a sum that continued without this client, and remember that it
    began."""
    member = _stored(state)
    if member:
        done = ClientState(session=member.state.session, me=client.partition, step="done")
        _store(SecureSumClient(done), state)


def _admit(client: Client, session: Session) -> None:
    """Refuse a sum that is not over the node's group, or over fewer nodes than its policy allows.

    Later steps need no check: a group's threshold is all its members.
    """
    if client.node.rules and client.ledger:
        client.ledger.check(session.clients, client.group)
        client.node.rules.check_contributors(len(session.clients))


def _note(client: Client, signed: ClientState) -> None:
    """Record that this client signs a sum over these survivors, if its ledger allows it. Called
    before the signature leaves."""
    if client.ledger:
        basis = masked_basis(signed)
        client.ledger.sign(signed.session, signed.survivors, basis, client.group, signed.statements)
        digests = ", ".join(f"{name} {digest}" for name, digest in basis.short.items())
        log.info(
            "secure sum of %s, round %d: signed %d members; %s",
            signed.session.phase,
            signed.session.round,
            len(signed.survivors),
            digests,
        )


def _signing_key(client: Client) -> Ed25519PrivateKey | None:
    """The node's own key; a simulated client has a public one."""
    if client.node.is_real:
        return client.signing_key
    return crypto.signing_key(client.partition)


def _roster(client: Client, partitions: Collection[int]) -> Mapping[int, bytes] | None:
    return client.roster if client.node.is_real else crypto.roster(partitions)


def _complaint(error: PeerError) -> Answer:
    log.warning(
        "secure sum: this client sends nothing, because peers' messages do not verify: %s", error
    )
    return {"parts": Complaint(complaint=error.partitions).as_parts()}


def member_of(request: Request, state: RecordDict) -> SecureSumClient:
    """This client's half of the sum that a message belongs to.

    Raises
    ------
    SecureSumError
        If this client is in no sum, or in another one.
    """
    member = _stored(state)
    if member is None:
        raise SecureSumError(
            "no secure sum was begun here, or this node was restarted since", key="no-sum"
        )
    session = member.state.session
    if (session.run, session.round) != (request.header.run, request.header.round):
        raise SecureSumError(
            "the message belongs to another secure sum than the one that was begun here",
            key="other-sum",
        )
    return member


def _stored(state: RecordDict) -> SecureSumClient | None:
    stored = state.get(STATE)
    if not isinstance(stored, ConfigRecord):
        return None
    return SecureSumClient(ClientState.from_parts(dict(stored)))


def _check_order(last: ClientState, new: Session) -> None:
    """Refuse a repetition of the last sum, or an earlier one; `TARGETS` orders the sums of a round.

    Until this client has signed the survivors, a sum can restart without some of its members: this
    client then forgets its secrets of the first attempt. The remaining members must reach the
    threshold, or a server could have two groups of members sign two sums.

    Raises
    ------
    SecureSumError
    """
    begun = last.session
    old_position = (begun.round, TARGETS.index(begun.phase))
    new_position = (new.round, TARGETS.index(new.phase))
    if new.run != begun.run or new_position > old_position:
        return
    is_open = new_position == old_position and STEPS.index(last.step) <= STEPS.index("confirm")
    is_smaller = {*new.clients} < {*begun.clients}
    if not (is_open and begun.needed <= len(new.clients) and is_smaller):
        raise SecureSumError(
            "this secure sum was begun before; two sums over different clients would reveal their"
            " difference",
            key="repeated-sum",
        )


def _store(member: SecureSumClient, state: RecordDict) -> None:
    state[STATE] = ConfigRecord({**member.state.as_parts()})
