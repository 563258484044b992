"""A process of the pool: it makes runs, one after the other, until the command that started it
ends."""

import contextlib
import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from curvfed.deployments.processes import follow
from curvfed.deployments.start import collector_off
from curvfed.extensions.sweeps.commands.sweep import LOGS


class Task(NamedTuple):
    """A run to make: the arguments of `curvfed.extensions.sweeps.commands.sweep.task.make`."""

    settings: dict[str, Any]
    num_supernodes: int
    folder: str
    name: str

    def with_workers(self, workers: int) -> "Task":
        """The task with this number of worker processes."""
        return self._replace(settings={"workers": workers} | self.settings)


def serve(descriptor: int, parent: int) -> None:
    """Make the runs whose tasks come through a socket from the parent process."""
    follow(parent)
    answer_all(descriptor, make_run)


def answer_all(descriptor: int, handle: Callable[[Task], tuple[str, float]]) -> None:
    """Answer each task of the other process, until it has ended."""
    with (
        contextlib.suppress(EOFError, ConnectionError),
        Connection(descriptor) as connection,
    ):
        while True:
            connection.send(handle(connection.recv()))


def make_run(task: Task) -> tuple[str, float]:
    """Make a run in this process, which prints to the run's log from now on; the first run imports
    the modules of a run.

    Returns
    -------
    error : str
        The reason of its failure; empty if it completed.
    seconds : float
    """
    begun = time.monotonic()
    logs = Path(task.folder, LOGS)
    logs.mkdir(exist_ok=True)
    with (logs / f"{task.name}.log").open("ab") as log:
        for output in (1, 2):
            os.dup2(log.fileno(), output)
    with collector_off():
        from curvfed.extensions.sweeps.commands.sweep.task import make

    return make(*task), time.monotonic() - begun
