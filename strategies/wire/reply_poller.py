"""Looking for replies without being held up by one that stays on its way."""

import queue
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from flwr.app import Message
from flwr.serverapp import Grid

PATIENCE = 2.0
"""Seconds after which a look for replies is left to itself, and the next one begins beside it."""

MESSAGE_LOST = 3
"""Flower's code for a reply of which a part never came, and for one that another pull has taken."""


@dataclass(frozen=True, eq=False)
class _Pulled:
    """What came of the pull of this number."""

    number: int
    messages: list[Message]
    error: BaseException | None = None


class ReplyPoller:
    """Pulls replies from a grid, for a bounded time.

    A SuperLink announces a reply before all of it is there, and Flower's pull waits for the rest. Where the sender was cut
    off in the middle of it, that takes three minutes, in which no other reply would be seen and no timeout be kept. So each
    pull has a thread of its own, and what it brings late is still taken. A reply goes to the pull that sees it first; to
    others it is lost, which is not believed while an earlier pull may bring it.

    Parameters
    ----------
    grid : Grid
        One whose nodes work in the caller's thread while their replies are pulled says so by `works_in_pull`; it is asked
        directly.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._is_direct = bool(getattr(grid, "works_in_pull", False))
        self._done: queue.SimpleQueue[_Pulled] = queue.SimpleQueue()
        self._begun = 0
        self._open: set[int] = set()
        self._taken: set[str] = set()

    def pull(self, ids: Iterable[str], seconds: float) -> list[Message]:
        """The replies that have come by now to these messages, and those of earlier pulls that took long.

        Parameters
        ----------
        ids : iterable of str
        seconds : float
            How long to wait for the pull, at most `PATIENCE`; not for replies.

        Raises
        ------
        Exception
            What a pull of the grid raised.
        """
        asked = [one for one in ids if one not in self._taken]
        if self._is_direct:
            return list(self._grid.pull_messages(asked))
        if asked:
            self._begun += 1
            self._open.add(self._begun)
            # A daemon: nobody waits for it at the end of the process.
            threading.Thread(target=self._pull, args=(self._begun, asked), name="pull", daemon=True).start()
        brought: list[Message] = []
        try:
            pulled = self._done.get(timeout=max(0.0, min(seconds, PATIENCE)))
            while True:
                brought += self._believed(pulled)
                pulled = self._done.get_nowait()
        except queue.Empty:
            return brought

    def _believed(self, pulled: _Pulled) -> list[Message]:
        self._open.discard(pulled.number)
        if pulled.error is not None:
            raise pulled.error
        believed = []
        for message in pulled.messages:
            is_lost = message.has_error() and message.error.code == MESSAGE_LOST
            if is_lost and any(number < pulled.number for number in self._open):
                self._taken.add(message.metadata.reply_to_message_id)
            else:
                believed.append(message)
        if not self._open:
            self._taken.clear()
        return believed

    def _pull(self, number: int, ids: list[str]) -> None:
        try:
            self._done.put(_Pulled(number, list(self._grid.pull_messages(ids))))
        except BaseException as error:
            self._done.put(_Pulled(number, [], error))
