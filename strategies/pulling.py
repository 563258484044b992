"""Looking for replies without being held up by one that stays on its way."""

import queue
import threading
from collections.abc import Iterable

from flwr.app import Message
from flwr.serverapp import Grid

PATIENCE = 2.0
"""Seconds after which a look for replies is left to itself, and the next one begins beside it."""


class Puller:
    """Pulls replies from a grid, for a bounded time.

    A SuperLink announces a reply before all of it is there, and Flower's pull waits for the rest. Where the sender was cut
    off in the middle of it, that takes three minutes, in which no other reply would be seen and no timeout be kept. So each
    pull has a thread of its own, and what it brings late is still taken.

    Parameters
    ----------
    grid : Grid
        One whose nodes work in the caller's thread while their replies are pulled says so by `works_in_pull`; it is asked
        directly.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._is_direct = bool(getattr(grid, "works_in_pull", False))
        self._brought: queue.SimpleQueue[list[Message] | BaseException] = queue.SimpleQueue()

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
        asked = list(ids)
        if self._is_direct:
            return list(self._grid.pull_messages(asked))
        # A daemon: nobody waits for it at the end of the process.
        threading.Thread(target=self._pull, args=(asked,), name="pull", daemon=True).start()
        brought: list[Message] = []
        try:
            found = self._brought.get(timeout=max(0.0, min(seconds, PATIENCE)))
            while True:
                if isinstance(found, BaseException):
                    raise found
                brought += found
                found = self._brought.get_nowait()
        except queue.Empty:
            return brought

    def _pull(self, ids: list[str]) -> None:
        try:
            self._brought.put(list(self._grid.pull_messages(ids)))
        except BaseException as error:
            self._brought.put(error)
