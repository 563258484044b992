"""Wake-up messages for SuperNodes that hold back their replies.

A SuperNode receives a message and then sends one reply. If the SuperLink is killed or the run is
stopped while a node receives a message, the node drops the message although its client may have
started. The reply of that client is then sent in answer to the next message, whose own reply waits
for the message after it. The node stays one message behind until it is restarted, and a server that
waits for its reply before sending the next message never gets one.

Any further message makes the node send the waiting reply, but then the reply to this message waits.
So the server sends two messages, and their clients answer at the same time by the node's clock: the
SuperNode looks for replies every half second and sends all that it finds, and after sending both it
is no longer behind. A node that is only slow does no extra work.
"""

import time
from collections.abc import Iterable

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from curvfed.strategies.wire.messages import WAKE_UP

MIN_WAIT = 20.0
"""Seconds that every node has to reply before it is woken up."""

SLOWNESS = 3.0
"""Multiple of the slowest reply time so far that a node may take before it is woken up."""

SLOT = 4.0
"""Seconds between the times at which woken clients reply; longer than starting two clients
takes.
"""


def is_due(waited: float, answers: Iterable[float]) -> bool:
    """Whether nodes without a reply may be behind; `answers` are the reply times of the others, in
    seconds."""
    return waited > max(MIN_WAIT, SLOWNESS * max(answers, default=0.0))


def has_supernodes(grid: Grid) -> bool:
    """Whether the nodes are SuperNodes; simulated nodes cannot lose messages."""
    return type(grid).__name__ == "HttpGrid"


def wake_up(grid: Grid, nodes: Iterable[int], ttl: float) -> None:
    """Send two wake-up messages to each node; the answers are not used."""
    grid.push_messages(
        [Message(RecordDict(), node, WAKE_UP, ttl=ttl) for node in nodes for _ in range(2)]
    )


def wait_for_slot() -> None:
    """Wait for the next time at which woken clients reply."""
    time.sleep(-time.time() % SLOT)
