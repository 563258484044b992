"""A client's half of a secure sum: four messages, each perhaps to another process, with `Context.state` between them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, RecordDict
from numpy.typing import NDArray

from curvfed.client_app.client import Client
from curvfed.strategies.config.secure_phases import MASKED, TARGETS, Opening
from curvfed.strategies.hull.order import draw_note
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.fixed_point import FixedPoint
from curvfed.strategies.secure_sum.member import Member
from curvfed.strategies.secure_sum.session import Session
from curvfed.strategies.secure_sum.state import State
from curvfed.strategies.secure_sum.wire import by_partition, by_partition_parts, checksum, key_book, list_in
from curvfed.strategies.wire.messages import HULLS, Request

STATE = "secure-sum"
"""Where the secrets of a sum are between its messages; they are gone after the last one."""

Answer = dict[str, Any]


def keys(client: Client, request: Request, state: RecordDict) -> Answer:
    """Draw fresh key pairs for the sum that the server announces."""
    session = Opening.from_parts(request.parts).session(request.header, client.config)
    if (last := _stored(state)) and _is_over(last.session, session):
        raise SecureSumError("this secure sum was begun before; of two over other clients the difference would show")
    member = Member.begin(session, client.partition, client.signing_key)
    mine = member.keys()
    _keep(member, state)
    return {"parts": mine.as_parts()}


def shares(client: Client, request: Request, state: RecordDict) -> Answer:
    """Share the secrets with the peers, sealed; with them goes what the phase has to tell them."""
    member = _member(state, request)
    note = draw_note() if member.session.phase == HULLS else b""
    answer = member.share(key_book(request.parts), note, client.roster)
    _keep(member, state)
    return {"parts": answer.as_parts()}


def open_letters(request: Request, state: RecordDict) -> tuple[Member, dict[int, bytes]]:
    """The sum that the reply to this message is masked for, and what the peers told with their shares."""
    member = _member(state, request)
    if member.session.phase != request.header.phase:
        raise SecureSumError(f"the sum that was begun is of phase {member.session.phase}, not {request.header.phase}")
    return member, member.deliver(by_partition(request.parts))


def masked(client: Client, member: Member, vector: NDArray[np.uint64], state: RecordDict) -> Answer:
    """The vector under its masks, as a reply has it."""
    hidden = member.mask(vector)
    _keep(member, state)
    return {"arrays": {MASKED: hidden}, "parts": {"checksum": checksum(hidden, member.session, client.partition)}}


def masked_reals(
    client: Client,
    request: Request,
    state: RecordDict,
    values: NDArray[np.float64],
    encoding: Callable[[int], FixedPoint],
) -> Answer:
    """The same for real numbers; `encoding` is by the number of clients that were asked."""
    member, _ = open_letters(request, state)
    vector, _ = encoding(len(member.session.clients)).encode(values)
    return masked(client, member, vector, state)


def unmask(client: Client, request: Request, state: RecordDict) -> Answer:
    """Give what lifts the masks of the sum: of every peer one share, of its self-mask if it is there, else of its key."""
    member = _member(state, request)
    revealed = member.unmask(list_in(request.parts, "survivors", int))
    _keep(member, state)
    return {"parts": by_partition_parts(revealed)}


def forget(client: Client, request: Request, state: RecordDict) -> Answer:
    """Forget the secrets of a sum that came to nothing."""
    end(client, state)
    return {}


def end(client: Client, state: RecordDict) -> None:
    """Forget the secrets of a sum that went on without this client; that it was begun stays known."""
    if member := _stored(state):
        state[STATE] = ConfigRecord({**State(member.session, client.partition, "done").as_parts()})


def _member(state: RecordDict, request: Request) -> Member:
    member = _stored(state)
    if member is None:
        raise SecureSumError("no secure sum was begun here, or this node was started again since")
    if (member.session.run, member.session.round) != (request.header.run, request.header.round):
        raise SecureSumError("the message is of another secure sum than the one that was begun here")
    return member


def _stored(state: RecordDict) -> Member | None:
    stored = state.get(STATE)
    return Member.load(dict(stored)) if isinstance(stored, ConfigRecord) else None


def _is_over(last: Session, new: Session) -> bool:
    """Whether a sum was begun before, or comes before one that was; a round's sums are in the order of `TARGETS`."""
    begun, wanted = ((one.round, TARGETS.index(one.phase)) for one in (last, new))
    return new.run == last.run and wanted <= begun


def _keep(member: Member, state: RecordDict) -> None:
    state[STATE] = ConfigRecord({**member.save()})
