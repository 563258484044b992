"""Waking SuperNodes that keep their replies back.

A SuperNode takes a message and then sends one reply. Where the SuperLink is killed, or the run is stopped, while the node
takes a message, it gives that one up, but its client may have begun; the reply of that client is then sent for that of the
next message, whose own reply waits for the message after it. So the node is one message behind until it is started anew,
and to a server that waits for it before it sends anything more it is silent.

Any further message brings out the reply that waits, and leaves its own in its place. So there are two, whose clients answer
at one moment of the node's clock: the SuperNode looks for replies every half second and sends all that there are, and where
it finds both at once it is behind no more. To a node that is only slow they are two messages of no work.
"""

import time
from collections.abc import Iterable

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from curvfed.strategies.wire.messages import WAKE_UP

AFTER = 20.0
"""Seconds for which nobody has to answer."""

SLOW = 3.0
"""How many times the slowest answer so far a node may take besides."""

BEAT = 4.0
"""Seconds between two moments at which clients answer: longer than it takes to start two of them."""


def is_due(waited: float, answers: Iterable[float]) -> bool:
    """Whether those that have not answered by now may be behind; `answers` are the times of the others, in seconds."""
    return waited > max(AFTER, SLOW * max(answers, default=0.0))


def has_supernodes(grid: Grid) -> bool:
    """Whether the nodes are SuperNodes; those of a simulation have no messages to lose."""
    return type(grid).__name__ == "HttpGrid"


def wake_up(grid: Grid, nodes: Iterable[int], ttl: float) -> None:
    """Send two such messages to each node; nobody waits for the answers."""
    grid.push_messages([Message(RecordDict(), node, WAKE_UP, ttl=ttl) for node in nodes for _ in range(2)])


def wait_for_slot() -> None:
    """Wait for the next moment to answer at."""
    time.sleep(-time.time() % BEAT)
