"""The client's replies in a secure sum. Each message may reach another process; `Context.state` carries what is kept."""

from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, RecordDict
from numpy.typing import NDArray

from curvfed.client_app.client import Client
from curvfed.strategies.config.secure_phases import MASKED, TARGETS, Opening
from curvfed.strategies.hull.order import draw_order_number
from curvfed.strategies.secure_sum.client import SecureSumClient
from curvfed.strategies.secure_sum.client_state import ClientState
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.fixed_point import FixedPoint
from curvfed.strategies.secure_sum.messages import BytesByPartition, Checksum, Survivors, checksum, public_keys_in
from curvfed.strategies.secure_sum.session import Session
from curvfed.strategies.wire.messages import HULLS, Request

STATE = "secure-sum"
"""Record with the secrets of a sum between its messages. After the last message it holds no secrets."""

Answer = dict[str, Any]


def keys(client: Client, request: Request, state: RecordDict) -> Answer:
    """Advertise fresh public keys for the sum that the server announces."""
    session = Opening.from_parts(request.parts).session(request.header, client.config, client.config.secure)
    last = _stored(state)
    if last and _is_repeated(last.state.session, session):
        raise SecureSumError(
            "this secure sum was begun before; two sums over different clients would reveal their difference"
        )
    member = SecureSumClient.begin(session, client.partition, client.signing_key)
    _store(member, state)
    return {"parts": member.advertise_keys().as_parts()}


def shares(client: Client, request: Request, state: RecordDict) -> Answer:
    """Share the secrets with the peers, encrypted; for hulls an order number goes with them."""
    member = _member(state, request)
    order_number = draw_order_number() if member.state.session.phase == HULLS else b""
    keys_of_all = public_keys_in(BytesByPartition.from_parts(request.parts))
    answer = member.share_keys(keys_of_all, order_number, client.roster)
    _store(member, state)
    return {"parts": answer.as_parts()}


def receive_shares(request: Request, state: RecordDict) -> tuple[SecureSumClient, dict[int, bytes]]:
    """This client's half of the sum that the reply to this message is masked for, and what its peers told it."""
    member = _member(state, request)
    if member.state.session.phase != request.header.phase:
        raise SecureSumError(
            f"the secure sum that was begun masks phase {member.state.session.phase}, not {request.header.phase}"
        )
    return member, member.receive_shares(BytesByPartition.from_parts(request.parts).by_partition)


def masked(client: Client, member: SecureSumClient, vector: NDArray[np.uint64], state: RecordDict) -> Answer:
    """The reply with the masked vector."""
    masked_input = member.mask_input(vector)
    _store(member, state)
    parts = Checksum(checksum=checksum(masked_input, member.state.session, client.partition)).as_parts()
    return {"arrays": {MASKED: masked_input}, "parts": parts}


def masked_reals(
    client: Client,
    request: Request,
    state: RecordDict,
    values: NDArray[np.float64],
    encoding: Callable[[int], FixedPoint],
) -> Answer:
    """The reply with a masked vector of real numbers; `encoding` takes the number of clients that were asked."""
    member, _ = receive_shares(request, state)
    vector = encoding(len(member.state.session.clients)).encode(values)
    return masked(client, member, vector, state)


def unmask(client: Client, request: Request, state: RecordDict) -> Answer:
    """Reveal a share of each peer's self mask if it survived, else of its mask key's secret."""
    member = _member(state, request)
    revealed = member.unmask(Survivors.from_parts(request.parts).survivors)
    _store(member, state)
    return {"parts": BytesByPartition.of(revealed).as_parts()}


def forget(client: Client, request: Request, state: RecordDict) -> Answer:
    """Forget the secrets of a sum that failed."""
    end(client, state)
    return {}


def end(client: Client, state: RecordDict) -> None:
    """Forget the secrets of a sum that continued without this client. It stays known that the sum was begun."""
    member = _stored(state)
    if member:
        _store(SecureSumClient(ClientState(session=member.state.session, me=client.partition, step="done")), state)


def _member(state: RecordDict, request: Request) -> SecureSumClient:
    member = _stored(state)
    if member is None:
        raise SecureSumError("no secure sum was begun here, or this node was restarted since")
    if (member.state.session.run, member.state.session.round) != (request.header.run, request.header.round):
        raise SecureSumError("the message belongs to another secure sum than the one that was begun here")
    return member


def _stored(state: RecordDict) -> SecureSumClient | None:
    stored = state.get(STATE)
    return SecureSumClient(ClientState.from_parts(dict(stored))) if isinstance(stored, ConfigRecord) else None


def _is_repeated(last: Session, new: Session) -> bool:
    """Whether the new sum is the last one again or an earlier one; `TARGETS` is the order of sums within a round."""
    begun, wanted = ((one.round, TARGETS.index(one.phase)) for one in (last, new))
    return new.run == last.run and wanted <= begun


def _store(member: SecureSumClient, state: RecordDict) -> None:
    state[STATE] = ConfigRecord({**member.state.as_parts()})
