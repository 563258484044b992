"""Makes many runs, for sweeps, comparisons and studies: in processes of this machine, or in a Ray
cluster."""

import contextlib
import fcntl
import signal
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rich.console import Console

from curvfed.deployments.arguments import UsageError, Value
from curvfed.deployments.errors import MachineError
from curvfed.deployments.processes import signals
from curvfed.deployments.resources import Resources
from curvfed.extensions.sweeps.commands.pages.selection import Run
from curvfed.extensions.sweeps.commands.pages.study import SUPERNODES, Plan, Planned
from curvfed.extensions.sweeps.commands.sweep.child import Task
from curvfed.extensions.sweeps.commands.sweep.pool import Pool
from curvfed.extensions.sweeps.commands.sweep.progress import Counts, Ended, Progress
from curvfed.extensions.sweeps.commands.sweep.ray_cluster import RayCluster
from curvfed.extensions.sweeps.commands.sweep.results import Results, completed

Executor = Pool | RayCluster
"""Makes the runs of all sweeps of a command."""

CONTINUES = "Completed runs are saved; the same command continues."

Result = TypeVar("Result")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make the folder, and lock it against other sweeps.

    Raises
    ------
    UsageError
        If it cannot be made, or another sweep uses it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("a")
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be written: {error.strerror}", key="unwritable"
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another sweep works in {folder}; let it end, or name another folder by --results",
                key="locked",
            ) from None
        except OSError:  # a file system without locks
            pass
        yield


@contextlib.contextmanager
def executor_of(resources: Resources, console: Console) -> Iterator[Executor]:
    """Within the block an executor makes runs. An interrupt ends them, and their files stay.

    Raises
    ------
    MachineError
        If the Ray cluster cannot be reached, or this machine fails, as with a full disk or without
        room for a process.
    UsageError
        If the Ray cluster has too few resources for a run.
    KeyboardInterrupt
        By Ctrl-C, SIGTERM or SIGHUP.
    """
    executor = RayCluster(resources) if resources.address else Pool(resources)
    try:
        # After the start, since Ray has a handler of its own, which does not wait for the runs.
        with signals(signal.default_int_handler), contextlib.closing(executor):
            yield executor
    except KeyboardInterrupt:
        console.print(f"Interrupted. {CONTINUES}")
        raise
    except OSError as error:
        raise MachineError(f"{error}. {CONTINUES}", key="machine") from error


class Batch(NamedTuple):
    """Runs that a stream needs before it goes on.

    Attributes
    ----------
    runs : sequence of Planned
    words : str
        What they are for; by default each is shown by its name.
    later : int
        The expected number of runs that the stream needs after these.
    """

    runs: Sequence[Planned]
    words: str = ""
    later: int = 0


Stream = Generator[Batch, list[Run], Result]
"""Asks for batches of runs, gets the runs of each, and returns its result."""


class Runner:
    """Makes runs in a folder, several at a time, each configuration once.

    Completed runs are reused by the digest of their settings, which is in their name. An
    interrupted run is resumed from its last saved round; a failed one is repeated by the next
    command. A failing run does not stop the others. Each run is recorded in the table when it ends.

    Parameters
    ----------
    folder : Path
        A folder that is `locked`.
    places : mapping
        Keys outside a run's identity, such as `data-dir`.
    executor : Executor

    Attributes
    ----------
    results : Results
        The table of the folder.
    failed : int
        The number of failed runs.
    """

    def __init__(self, folder: Path, places: Mapping[str, Value], executor: Executor) -> None:
        self.results = Results(folder)
        self.failed = 0
        self._places = places
        self._executor = executor
        self._asked: set[str] = set()
        self._pending: dict[str, Planned] = {}
        self._refused: deque[Planned] = deque()
        self._new: list[Planned] = []

    def counts(self, later: int = 0) -> Counts:
        """The numbers of runs so far; `later` more are expected."""
        done = len(self._asked) - len(self._pending) - self.failed
        running = self._executor.running
        return Counts(len(self._asked) + later, done, self.failed, running, later > 0)

    def add(self, runs: Iterable[Planned]) -> set[str]:
        """Begin or queue the runs that were not asked for before and have not completed.

        Returns
        -------
        set of str
            The names of those of the runs that have not ended.

        Raises
        ------
        MachineError, UsageError
            If the table cannot be written.
        OSError
            If no process can be started.
        """
        pending = self._ask(runs)
        self._begin()
        return pending

    def _ask(self, runs: Iterable[Planned]) -> set[str]:
        """As `add`, but the runs wait for `_begin`."""
        named = {run.name: run for run in runs}
        new = {name: run for name, run in named.items() if name not in self._asked}
        self._asked |= new.keys()
        for name in self.results.finished(new.values()):
            del new[name]
        self._pending |= new
        for run in new.values():
            (self._refused if run.refused else self._new).append(run)
        return named.keys() & self._pending.keys()

    def _begin(self) -> None:
        """Begin or queue the runs that were asked for, together: they share the free cores."""
        self._executor.add([self._task(run) for run in self._new])
        self._new.clear()

    def wait(self) -> Ended:
        """The next run that has ended.

        Raises
        ------
        MachineError, UsageError, OSError
            See `add`.
        """
        if self._refused:
            run = self._refused.popleft()
            ended = Ended(run, run.refused, 0.0)
        else:
            task, error, seconds = self._executor.next()
            run = self._pending[task.name]
            folder = self.results.folder
            if not error and not completed(folder / run.name):
                error = f"{folder} has no summary of it: all machines need this folder in common"
            ended = Ended(run, error, seconds)
        self.results.record(run, ended.error)
        self.failed += bool(ended.error)
        del self._pending[run.name]
        return ended

    def follow(
        self, streams: Mapping[str, Stream[Result]], progress: Progress
    ) -> dict[str, Result]:
        """Make the runs of several streams, each of which goes on as soon as it has its runs.

        Parameters
        ----------
        streams : mapping of str to Stream
            By the names that progress shows beside the words of a batch.
        progress : Progress

        Returns
        -------
        dict of str to object
            The result of each stream.

        Raises
        ------
        MachineError, UsageError, OSError
            See `add`.
        """
        results: dict[str, Result] = {}
        batches: dict[str, Batch] = {}
        awaited: dict[str, set[str]] = {}

        def advance(name: str, runs: Any = None) -> None:
            """Give a stream its runs until it needs others; a new one gets None."""
            while not awaited.get(name):
                try:
                    batches[name] = streams[name].send(runs)
                except StopIteration as end:
                    results[name] = end.value
                    batches[name] = Batch(())
                    awaited.pop(name, None)
                    return
                awaited[name] = self._ask(batches[name].runs)
                runs = self.results.select(batches[name].runs)

        for name in streams:
            advance(name)
        self._begin()
        progress.show(self.counts(_later(batches)))
        while awaited:
            ended = self.wait()
            owners = [name for name, names in awaited.items() if ended.run.name in names]
            words = ", ".join(filter(None, [*owners, batches[owners[0]].words]))
            for name in owners:
                awaited[name].remove(ended.run.name)
                if not awaited[name]:
                    advance(name, self.results.select(batches[name].runs))
            self._begin()
            progress.show(self.counts(_later(batches)), ended, words)
        return results

    def _task(self, run: Planned) -> Task:
        """The task of a run; the executor gives it worker processes."""
        resources = self._executor.resources
        # Without a share of a GPU a run uses the CPU: the GPU belongs to other runs.
        machine: dict[str, Value] = {
            "threads": resources.cpus,
            "device": "auto" if resources.gpus else "cpu",
        }
        settings = machine | dict(run.settings) | dict(run.paths) | dict(self._places)
        num_supernodes = int(settings.pop(SUPERNODES))
        return Task(settings, num_supernodes, str(self.results.folder), run.name)


def _later(batches: Mapping[str, Batch]) -> int:
    return sum(batch.later for batch in batches.values())


def run_sweep(
    plan: Plan, folder: Path, places: dict[str, Value], executor: Executor, console: Console
) -> int:
    """Make the missing runs of a sweep, and return the number of failed runs.

    Raises
    ------
    MachineError, UsageError, OSError
        See `Runner.add` and `locked`.
    """

    def stream() -> Stream[None]:
        yield Batch(plan.runs)

    with locked(folder), Progress(console, plan.title) as progress:
        runner = Runner(folder, places, executor)
        runner.follow({"": stream()}, progress)
    return runner.failed
