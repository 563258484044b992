"""A client's part in the exchange of keys for the secure sums of a run. Each message may reach a
new process; `Context.state` connects them."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import RecordDict

from curvfed.client_app.client import Client
from curvfed.client_app.node.keys import keyed
from curvfed.client_app.questions import hides_others
from curvfed.client_app.secure import COUNT_BYTES, Answer, store_member, stored_member
from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.hull.local import ORDER_NUMBER_BYTES, draw_order_number
from curvfed.strategies.secure_sum import Group, crypto
from curvfed.strategies.secure_sum.member import Member
from curvfed.strategies.secure_sum.messages import BytesByPartition, public_keys_in
from curvfed.strategies.wire.messages import WITHOUT_KEYS, Request


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
    store_member(member, state)
    return {"parts": member.announcement(_signing_key(client)).as_parts()}


def agree(client: Client, request: Request, state: RecordDict) -> Answer:
    """Agree on a secret with each peer, and write to it: a real node writes its number of examples,
    0 if these hide nobody, and heads of ledgers; every client of a one-shot sum writes an order
    number."""
    member = stored_member(client, request, state)
    if member is None:
        return {"parts": {WITHOUT_KEYS: True}}
    keys_of_all = public_keys_in(BytesByPartition.from_parts(request.parts))
    roster = client.roster if client.node.is_real else crypto.roster(keys_of_all)
    member = member.agree(keys_of_all, roster)
    if not member.written:
        member = _with_texts(client, member, request.header.run)
        store_member(member, state)
    return {"parts": BytesByPartition.of(member.written).as_parts()}


def _with_texts(client: Client, member: Member, run: str) -> Member:
    """The member with its texts to each peer."""
    statements = dict.fromkeys(member.group.members, b"")
    number = b""
    if client.node.is_real:
        examples = 0
        if not client.hides_number and hides_others(client):
            examples = int(client.data.train.sum())
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
            "hides": int.from_bytes(number) > 0,
            "written": member.write(texts),
        }
    )


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
