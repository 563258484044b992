"""Identities of the nodes, seeded sampling of clients, and the exchange of one phase's messages.

A SuperNode receives a message and then sends one reply. If the SuperLink is killed or the run
is stopped while a node receives a message, the node drops the message although its client may
have started. The reply of that client is then sent in answer to the next message; the reply to that
one waits for the message after it. The node stays one message behind until it is restarted, and a
server that waits for its reply before sending the next message never gets one.

Any further message makes the node send the waiting reply, but then the reply to this message
waits. So the server wakes a node by two messages, and their clients answer at the same time by the
node's clock: the SuperNode looks for replies every half second and sends all that it finds, and
after sending both it is up to date. A node that is only slow does no extra work.
"""

import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from flwr.app import Error, Message, RecordDict
from flwr.serverapp import Grid

from curvfed.strategies.run_log import log
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.codec import decode_reply, encode_request
from curvfed.strategies.wire.messages import DESCRIBE, MESSAGE_TYPES, SUM, WAKE_UP, Reply, Request
from curvfed.strategies.wire.precision import EXACT, Precision
from curvfed.tasks.amounts import amount
from curvfed.tasks.errors import KeyedError

MIN_WAIT = 20.0
"""Seconds that every node has to reply before it is woken up."""

SLOWNESS = 3.0
"""Multiple of the slowest reply time so far that a node may take before it is woken up."""


def is_due(waited: float, answers: Iterable[float]) -> bool:
    """Whether nodes without a reply may be behind; `answers` are the reply times of the others, in
    seconds.
    """
    return waited > max(MIN_WAIT, SLOWNESS * max(answers, default=0.0))


def has_supernodes(grid: Grid) -> bool:
    """Whether the nodes are SuperNodes; simulated nodes cannot lose messages."""
    return type(grid).__name__ == "HttpGrid"


def wake_up(grid: Grid, nodes: Iterable[int], ttl: float) -> None:
    """Send two wake-up messages to each node; the answers are not used."""
    grid.push_messages(
        [Message(RecordDict(), node, WAKE_UP, ttl=ttl) for node in nodes for _ in range(2)]
    )


FIRST_POLL = 0.005
LAST_POLL = 0.2
"""Shortest and longest pause between two polls for replies, in seconds; it doubles while no reply
arrives, so that short rounds are not delayed and a server that waits for minutes is idle."""


NODE_UNAVAILABLE = 5
"""Flower's error code for a node that has been silent for about a minute."""


PATIENCE = 2.0
"""Seconds after which a pull continues in the background and the next one may start."""

MESSAGE_LOST = 3
"""Flower's error code for an incomplete reply, and for a reply that another pull has received."""

AWAY = ("disconnected", "lost", "no-reply", "not-accepted")
"""The kinds of failures after which a node may answer the same message later."""


class FederationError(KeyedError, RuntimeError):
    """The clients cannot run this federation."""

    area = "federation"


def sample(partitions: Sequence[int], fraction: float, seed: int, round_number: int) -> list[int]:
    """The clients of one round: a seeded draw without replacement from the sorted partitions, at
    least one.

    It depends only on its arguments, so that a resumed run selects the same clients.
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
    precision: Precision = EXACT,
) -> tuple[dict[int, Reply], dict[int, MessageError], dict[int, float]]:
    """Send one phase's requests and collect the replies.

    Parameters
    ----------
    grid : Grid
    requests : mapping of node id to Request
    timeout : float
        Seconds after which nodes without a reply count as failed.
    on_reply : callable, optional
        Called with the number of nodes that have answered so far, and the number of requests.
    precision : Precision
        Of the arrays in the replies.

    Returns
    -------
    replies : dict of node id to Reply
        Replies that are well formed, belong to this phase and contain no error.
    failures : dict of node id to MessageError
        The reason for each other node.
    seconds : dict of node id to float
        From request to reply.

    Raises
    ------
    FederationError
        If Flower does not accept the messages, or a simulation has lost a worker.
    """
    started = time.monotonic()
    # The messages of all nodes share one record of arrays, which is encoded once.
    messages = []
    for receiver, request in requests.items():
        kind = MESSAGE_TYPES.get(request.header.phase, MESSAGE_TYPES[SUM])
        messages.append(Message(encode_request(request), receiver, kind, ttl=timeout + 60))
    nodes = [message.metadata.dst_node_id for message in messages]
    ids = list(grid.push_messages(messages))
    if len(ids) != len(nodes):
        raise FederationError(
            f"Flower accepted {len(ids)} of {len(nodes)} messages; is the model too large, or the"
            " SuperLink down?",
            key="not-accepted",
        )
    # Flower gives no message id to a node that it no longer knows.
    waiting = {message_id: node for message_id, node in zip(ids, nodes, strict=True) if message_id}
    replies: dict[int, Reply] = {}
    sent = set(waiting.values())
    failures = {
        node: MessageError("Flower did not accept the message", key="not-accepted")
        for node in nodes
        if node not in sent
    }
    seconds: dict[int, float] = {}
    is_simulation = not has_supernodes(grid)
    pause = FIRST_POLL
    # Nodes in the caller's thread work while their replies are pulled.
    poller = None if getattr(grid, "works_in_pull", False) else ReplyPoller(grid)
    may_wake_up = not is_simulation
    while waiting:
        if poller is None:
            arrived = list(grid.pull_messages(list(waiting)))
        else:
            arrived = poller.poll(waiting, started + timeout - time.monotonic())
        for message in arrived:
            node = waiting.pop(message.metadata.reply_to_message_id, None)
            if node is None:
                continue
            seconds[node] = time.monotonic() - started
            try:
                header = requests[node].header
                if message.has_error():
                    raise _delivery_error(message.error, header.run, is_simulation)
                reply = decode_reply(message.content, header, precision)
                if reply.error:
                    raise MessageError(_client_reason(reply), key="client-error")
                replies[node] = reply
            except MessageError as error:
                failures[node] = error
        if arrived and on_reply:
            away = sum(error.kind in AWAY for error in failures.values())
            on_reply(len(requests) - len(waiting) - away, len(requests))
        waited = time.monotonic() - started
        if may_wake_up and waiting and is_due(waited, seconds.values()):
            log.info(
                "no reply yet from %d of %s: they are busy, or hold it back; waking them up",
                len(waiting),
                amount(len(nodes), "node"),
            )
            wake_up(grid, waiting.values(), timeout)
            may_wake_up = False
        if waiting and waited > timeout:
            late = MessageError(f"no reply within {timeout:g} s", key="no-reply")
            failures |= dict.fromkeys(waiting.values(), late)
            break
        if arrived:
            pause = FIRST_POLL
        elif waiting:
            time.sleep(pause)
            pause = min(2 * pause, LAST_POLL)
    # In the order of the requests, whatever arrives first.
    failures = {node: failures[node] for node in nodes if node in failures}
    return replies, failures, seconds


def _delivery_error(error: Error, run: str, is_simulation: bool) -> MessageError:
    """Why Flower lacks a reply of a client.

    Raises
    ------
    FederationError
        If a simulation has lost a worker: Flower assigns messages to the dead worker again, and all
        of them fail.
    """
    lost = re.search(r"'ray\.exceptions\.(\w+)'", error.reason or "") if is_simulation else None
    if lost:
        raise FederationError(
            f"a Ray worker has died ({lost[1]}), usually for lack of memory: let fewer clients"
            " train at once, by more cores for each (--cpus). The finished rounds are stored: the"
            f" same command with run-name={run} resume=true continues",
            key="worker-died",
        )
    if error.code == NODE_UNAVAILABLE:
        return MessageError("the node is no longer connected", key="disconnected")
    if error.code == MESSAGE_LOST:
        return MessageError("its reply was lost in transit", key="lost")
    # Flower's error text may contain the text of a client's exception, so only the code is shown.
    return MessageError(
        f"Flower reports error {error.code} for this client; its log, or that of the simulation,"
        " has details",
        key="client-error",
    )


def _client_reason(reply: Reply) -> str:
    """The error that a client sent."""
    # During the first phase the server does not know the node's partition, but the node may.
    if reply.header.phase == DESCRIBE and reply.partition >= 0:
        return f"partition-id {reply.partition}: {reply.error}"
    return reply.error


def nodes_by_partition(replies: Mapping[int, Reply]) -> dict[int, int]:
    """Partition -> node id, sorted by partition.

    Raises
    ------
    FederationError
        If two nodes claim one partition-id.
    """
    nodes: dict[int, int] = {}
    for node, reply in replies.items():
        earlier = nodes.setdefault(reply.partition, node)
        if earlier != node:
            raise FederationError(
                f"nodes {earlier} and {node} both have partition-id {reply.partition}; every node"
                " needs its own",
                key="repeated-partition",
            )
    return dict(sorted(nodes.items()))


@dataclass(frozen=True, eq=False)
class _Pulled:
    """Result of the pull with this number."""

    number: int
    messages: list[Message]
    error: Exception | None = None


class ReplyPoller:
    """Pulls replies from a grid, for a limited time.

    A SuperLink announces a reply before it has received all of it, and Flower's pull waits for the
    rest. If the sender was disconnected in the middle, the pull takes three minutes. Other replies
    would go unseen, and timeouts would not work. So every pull runs in its own thread, and its
    replies are used even if they come late. A reply goes to the first pull that sees it; other
    pulls report it as lost, which is ignored while an earlier pull may still deliver it.

    Parameters
    ----------
    grid : Grid
        With nodes that work elsewhere.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._done: queue.SimpleQueue[_Pulled] = queue.SimpleQueue()
        self._started = 0
        self._running: set[int] = set()
        self._taken: set[str] = set()

    def poll(self, ids: Iterable[str], seconds: float) -> list[Message]:
        """The replies to these messages that have arrived by now, including those of earlier, slow
        pulls.

        Parameters
        ----------
        ids : iterable of str
        seconds : float
            Longest time to wait for the pull, at most `PATIENCE`. It does not wait for replies.

        Raises
        ------
        Exception
            The exception of a pull.
        """
        pending = [message_id for message_id in ids if message_id not in self._taken]
        if pending:
            self._started += 1
            self._running.add(self._started)
            # A daemon thread does not keep the process alive at its end.
            threading.Thread(
                target=self._pull, args=(self._started, pending), name="pull", daemon=True
            ).start()
        messages: list[Message] = []
        try:
            pulled = self._done.get(timeout=max(0.0, min(seconds, PATIENCE)))
            while True:
                messages += self._delivered(pulled)
                pulled = self._done.get_nowait()
        except queue.Empty:
            return messages

    def _delivered(self, pulled: _Pulled) -> list[Message]:
        """A pull's messages without those that an earlier pull may still deliver."""
        self._running.discard(pulled.number)
        if pulled.error is not None:
            raise pulled.error
        delivered = []
        for message in pulled.messages:
            is_lost = message.has_error() and message.error.code == MESSAGE_LOST
            if is_lost and any(number < pulled.number for number in self._running):
                self._taken.add(message.metadata.reply_to_message_id)
            else:
                delivered.append(message)
        if not self._running:
            self._taken.clear()
        return delivered

    def _pull(self, number: int, ids: list[str]) -> None:
        try:
            self._done.put(_Pulled(number, list(self._grid.pull_messages(ids))))
        except Exception as error:
            self._done.put(_Pulled(number, [], error))
