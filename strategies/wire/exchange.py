"""Who takes part: identities, seeded sampling, and the exchange of one phase's messages."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from curvfed.strategies.wire.arrays import MessageError
from curvfed.strategies.wire.messages import (
    DESCRIBE,
    MESSAGE_TYPES,
    Header,
    Reply,
    Request,
    decode_reply,
    encode_request,
)
from curvfed.strategies.wire.reply_poller import MESSAGE_LOST, ReplyPoller
from curvfed.strategies.wire.wake_up import has_supernodes, is_due, wake_up

log = logging.getLogger("curvfed")

FIRST_POLL, LAST_POLL = 0.005, 0.2
"""Seconds between two looks for replies, doubling from the first to the last: short rounds are not kept waiting, and a
server that waits for minutes stays idle."""


NODE_UNAVAILABLE = 5
"""Flower's code for a node that has not been heard of for about a minute."""


class FederationError(RuntimeError):
    """A federation that cannot run."""


def sample(partitions: Sequence[int], fraction: float, seed: int, round_number: int) -> list[int]:
    """The clients of one round: a seeded draw without replacement from the sorted partitions, at least one.

    It depends on nothing but its arguments, so that a resumed run draws the same cohorts.
    """
    ordered = sorted(partitions)
    size = max(1, round(fraction * len(ordered)))
    if size == len(ordered):
        return ordered
    generator = np.random.default_rng([seed, round_number, 0xC0407])
    return sorted(generator.choice(ordered, size=size, replace=False).tolist())


def exchange(
    grid: Grid,
    requests: Mapping[int, Request],
    timeout: float,
    on_reply: Callable[[int, int], None] | None = None,
) -> tuple[dict[int, Reply], dict[int, str], dict[int, float]]:
    """Send one phase's requests and collect the replies.

    Parameters
    ----------
    grid : Grid
    requests : mapping of node id to Request
    timeout : float
        Seconds; who has not answered by then counts as failed.
    on_reply : callable, optional
        Told the number of answers so far and of requests.

    Returns
    -------
    replies : dict of node id to Reply
        Those that are well formed, belong to this phase and carry no error.
    failures : dict of node id to str
        The reason for each other node.
    seconds : dict of node id to float
        From sending to answer.
    """
    started = time.monotonic()
    # One record per round is shared by the messages of all nodes, so a phase costs one encoding.
    messages = [
        Message(encode_request(request), node, MESSAGE_TYPES[request.header.phase], ttl=timeout + 60)
        for node, request in requests.items()
    ]
    nodes = [message.metadata.dst_node_id for message in messages]
    ids = list(grid.push_messages(messages))
    if len(ids) != len(nodes):
        raise FederationError(
            f"Flower took {len(ids)} of {len(nodes)} messages; is a model too large for it, or the SuperLink gone?"
        )
    # A node that Flower does not know any more has no message id.
    waiting = {identity: node for identity, node in zip(ids, nodes, strict=True) if identity}
    replies: dict[int, Reply] = {}
    failures = {
        node: "Flower did not take the message" for identity, node in zip(ids, nodes, strict=True) if not identity
    }
    seconds: dict[int, float] = {}
    pause, puller, may_wake_up = FIRST_POLL, ReplyPoller(grid), has_supernodes(grid)
    while waiting:
        arrived = puller.pull(waiting, started + timeout - time.monotonic())
        for message in arrived:
            node = waiting.pop(message.metadata.reply_to_message_id, None)
            if node is None:
                continue
            seconds[node] = time.monotonic() - started
            try:
                reply = _read(message, requests[node].header)
            except MessageError as error:
                failures[node] = str(error)
            else:
                replies[node] = reply
        if arrived and on_reply:
            on_reply(len(requests) - len(waiting), len(requests))
        waited = time.monotonic() - started
        if may_wake_up and waiting and is_due(waited, seconds.values()):
            log.info(
                "no answer yet from %d of %d nodes: asking them whether they keep it back", len(waiting), len(nodes)
            )
            wake_up(grid, waiting.values(), timeout)
            may_wake_up = False
        if waiting and waited > timeout:
            failures |= dict.fromkeys(waiting.values(), f"no reply within {timeout:g} s")
            break
        if arrived:
            pause = FIRST_POLL
        elif waiting:
            time.sleep(pause)
            pause = min(2 * pause, LAST_POLL)
    return replies, failures, seconds


def _read(message: Message, expected: Header) -> Reply:
    if message.has_error():
        if message.error.code == NODE_UNAVAILABLE:
            raise MessageError("the node is not connected any more")
        if message.error.code == MESSAGE_LOST:
            raise MessageError("its reply was lost on the way")
        # Flower's error text can hold the text of a client's exception: the code is enough.
        raise MessageError(f"Flower reports error {message.error.code} of this node; its own log has more")
    content: RecordDict = message.content
    reply = decode_reply(content, expected)
    if reply.error:
        # Before the first phase is over the server does not know who a node is, but the node may.
        name = f"partition-id {reply.partition}: " if expected.phase == DESCRIBE and reply.partition >= 0 else ""
        raise MessageError(name + reply.error)
    return reply


def nodes_by_partition(replies: Mapping[int, Reply]) -> dict[int, int]:
    """Partition -> node id, sorted by partition.

    Raises
    ------
    FederationError
        If two nodes claim one partition-id.
    """
    nodes: dict[int, int] = {}
    for node, reply in replies.items():
        other = nodes.setdefault(reply.partition, node)
        if other != node:
            raise FederationError(
                f"nodes {other} and {node} both say that they are partition-id {reply.partition}; every node needs its own"
            )
    return dict(sorted(nodes.items()))
