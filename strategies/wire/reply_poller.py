"""Polling for replies that does not block on a reply whose transfer hangs."""

import queue
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from flwr.app import Message
from flwr.serverapp import Grid

PATIENCE = 2.0
"""Seconds after which a pull continues in the background and the next one may start."""

MESSAGE_LOST = 3
"""Flower's error code for an incomplete reply, and for a reply that another pull has received."""


@dataclass(frozen=True, eq=False)
class _Pulled:
    """Result of the pull with this number."""

    number: int
    messages: list[Message]
    error: Exception | None = None


class ReplyPoller:
    """Pulls replies from a grid, for a limited time.

    A SuperLink announces a reply before it has received all of it, and Flower's pull waits for the
    rest. If the sender was disconnected in the middle, the pull takes three minutes, in which no
    other reply would be seen and no timeout would work. So every pull runs in its own thread, and
    its replies are used even if they come late. A reply goes to the first pull that sees it; other
    pulls report it as lost, which is ignored while an earlier pull may still deliver it.

    Parameters
    ----------
    grid : Grid
        A grid whose nodes work in the caller's thread, during the pull, has the attribute
        `works_in_pull`; it is pulled directly.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._is_direct = bool(getattr(grid, "works_in_pull", False))
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
        if self._is_direct:
            return list(self._grid.pull_messages(pending))
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
