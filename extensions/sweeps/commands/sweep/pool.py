"""The processes that make the runs of sweeps on this machine."""

import io
import os
import select
import signal
import sys
import threading
from collections import deque
from collections.abc import Sequence
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import NamedTuple, TextIO

import torch

from curvfed.deployments.cores import usable_cores
from curvfed.deployments.gpus import visible_gpus
from curvfed.deployments.processes import SIGNALS, forked, kill
from curvfed.deployments.resources import Resources
from curvfed.deployments.simulation import takes_workers
from curvfed.extensions.sweeps.commands.sweep import child
from curvfed.extensions.sweeps.commands.sweep.child import Task
from curvfed.geometry.one_thread import one_thread


def num_slots(resources: Resources, cpus: int, gpus: int) -> int:
    """The number of runs at a time on this many cores and GPUs."""
    slots = cpus // resources.cpus
    if resources.gpus:
        sharing = max(1, int(1 / resources.gpus + 1e-9))
        slots = min(slots, gpus // max(1, int(resources.gpus)) * sharing)
    return slots


class _Worker(NamedTuple):
    """The process of a slot, and the connection to it."""

    process: int
    connection: Connection

    def end(self) -> str:
        """End the process, and return how it has ended."""
        self.connection.close()
        return kill(self.process)


class _Running(NamedTuple):
    """A run in the process of a slot, with its worker processes, each on a core."""

    slot: int
    workers: int
    task: Task


class Pool:
    """As many processes as cores and GPUs allow; each makes many runs, one after the other.

    A run that takes a core has several worker processes if more cores are free than runs are queued
    when it begins; running runs have no more of them than there are cores. A process starts with
    its first run. If it ends, its run fails, and another takes its place. All
    end with this command, whatever ends that one.

    Parameters
    ----------
    resources : Resources
        The resources of a run.

    Attributes
    ----------
    slots : int
        Number of runs at a time.
    """

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        gpus = visible_gpus() if resources.gpus else []
        size = max(1, int(resources.gpus))
        self.slots = num_slots(resources, usable_cores(), len(gpus))
        self._gpus = [gpus[first : first + size] for first in range(0, len(gpus), size)] or [[]]
        # Runs with GPUs or several cores share out no cores.
        self._shares = resources.cpus == 1 and not resources.gpus and takes_workers()
        self._workers: dict[int, _Worker] = {}
        self._queue: deque[Task] = deque()
        self._free_slots = list(range(self.slots))
        self._runs: dict[Connection, _Running] = {}

    @property
    def running(self) -> int:
        """The number of runs that have begun and not ended."""
        return len(self._runs)

    def add(self, tasks: Sequence[Task]) -> None:
        """Begin runs, or queue those for which no slot is free; they share the free ones."""
        self._queue += tasks
        self._begin()

    def next(self) -> tuple[Task, str, float]:
        """Wait for the next run to end.

        Returns
        -------
        task : Task
        error : str
            The reason of its failure; empty if it completed.
        seconds : float
        """
        ready, _, _ = select.select(list(self._runs), [], [])
        slot, _, task = self._runs.pop(ready[0])
        self._free_slots.insert(0, slot)
        try:
            error, seconds = self._workers[slot].connection.recv()
        except (EOFError, OSError):  # also within a message
            error, seconds = self._end(slot), 0.0
        self._begin()
        return task, error, seconds

    def _begin(self) -> None:
        """Begin queued runs on the free cores."""
        while self._queue and (free := self._free()):
            workers = max(1, free // len(self._queue)) if self._shares else 1
            slot = self._free_slots[0]
            connection = self._connection(slot)
            try:
                connection.send(self._queue[0].with_workers(workers))
            except ConnectionError:  # the process has ended without a run
                self._end(slot)
            else:
                self._free_slots.remove(slot)
                self._runs[connection] = _Running(slot, workers, self._queue.popleft())

    def _free(self) -> int:
        """The number of slots that no worker process of a run takes."""
        return self.slots - sum(run.workers for run in self._runs.values())

    def close(self) -> None:
        """End the processes, whatever they do: files are replaced, never half written."""
        for worker in self._workers.values():
            worker.end()

    def _connection(self, slot: int) -> Connection:
        """The connection to the process of a slot, which is started if there is none."""
        if slot not in self._workers:
            ours, theirs = Pipe()
            # Signals are blocked until the process ignores them.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
            try:
                if self._can_fork():
                    process = forked(partial(self._serve, slot, ours, theirs, os.getpid()))
                else:
                    process = self._spawn(slot, theirs)
            except OSError:  # too many processes
                ours.close()
                raise
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                theirs.close()
            self._workers[slot] = _Worker(process, ours)
        return self._workers[slot].connection

    def _can_fork(self) -> bool:
        """Whether a process may be a fork of this one, which has imported a run's modules: on one
        core, without a GPU, and if no other thread may hold a lock."""
        is_small = self.resources.cpus == 1 and not self.resources.gpus
        is_alone = threading.active_count() == 1 and not torch.cuda.is_initialized()
        return is_small and is_alone and sys.platform.startswith("linux")

    def _serve(self, slot: int, ours: Connection, theirs: Connection, parent: int) -> None:
        """Make runs, in a fork of the parent process."""
        for connection in (ours, *(worker.connection for worker in self._workers.values())):
            connection.close()
        os.environ |= self._variables(slot)
        torch.set_num_threads(1)  # a fork lacks the threads of its arithmetic
        sys.stdout = _lines_to(1)
        sys.stderr = _lines_to(2)
        with one_thread():
            child.serve(theirs.fileno(), parent)

    def _spawn(self, slot: int, theirs: Connection) -> int:
        os.set_inheritable(theirs.fileno(), True)
        place = f"{theirs.fileno()}, {os.getpid()}"
        code = f"from {child.__name__} import serve; serve({place})"
        words = [sys.executable, "-P", "-u", "-c", code]
        return os.posix_spawn(sys.executable, words, os.environ | self._variables(slot))

    def _variables(self, slot: int) -> dict[str, str]:
        return {
            "CUDA_VISIBLE_DEVICES": ",".join(self._gpus[slot % len(self._gpus)]),
            "OMP_NUM_THREADS": str(self.resources.cpus),
            # The same modules as here, whatever lies in the working folder.
            "PYTHONPATH": os.pathsep.join(sys.path),
        }

    def _end(self, slot: int) -> str:
        """Remove the process of a slot, which has ended, and return the error of its run."""
        cause = self._workers.pop(slot).end()
        return (
            f"the process of the run ended ({cause}); its log may say why. SIGKILL is usually for"
            " lack of memory: with a larger --cpus fewer runs are made at a time"
        )


def _lines_to(descriptor: int) -> TextIO:
    """A stream that writes each line at once."""
    binary = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(binary, "utf-8", errors="replace", write_through=True)
