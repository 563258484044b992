"""Runs of one process take turns: they share torch's random numbers and settings, Flower's identity
and the log."""

import contextlib
import os
import threading
from collections.abc import Iterator

import torch

from curvfed.deployments.arguments import UsageError
from curvfed.deployments.output_file import check_working_folder
from curvfed.strategies.config.device import own_settings


class _Line:
    """The turns of this process: a lock, and the thread that has the turn."""

    def __init__(self) -> None:
        self.renew()
        # A child process lacks the thread of the turn.
        os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        """No thread has the turn."""
        self.lock = threading.Lock()
        self.thread = 0


_line = _Line()


@contextlib.contextmanager
def turn(name: str, may_nest: bool = False) -> Iterator[None]:
    """Wait until no other thread of this process has the turn, and restore torch's state at the
    end.

    Parameters
    ----------
    name : str
        The function of the turn.
    may_nest : bool
        Whether a run may call it, too.

    Raises
    ------
    UsageError
        If a run of the same thread calls it, which would wait forever; or if the working folder
        was deleted.
    """
    if _line.thread == threading.get_ident():
        if not may_nest:
            raise UsageError(
                f"{name} is called by a run of this thread; allowed is a call after that run, or in"
                " a new process",
                key="nested-run",
            )
        yield
        return
    check_working_folder()
    with _line.lock:
        threads = torch.get_num_threads()
        _line.thread = threading.get_ident()
        try:
            with own_settings(), torch.random.fork_rng(devices=[]):
                yield
        finally:
            _line.thread = 0
            torch.set_num_threads(threads)
