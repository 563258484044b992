"""Make the runs of a sweep: in processes of this machine, or in a Ray cluster."""

import contextlib
import fcntl
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from curvfed.deployments.arguments import UsageError, Value
from curvfed.deployments.errors import MachineError
from curvfed.deployments.processes import signals
from curvfed.deployments.resources import Resources
from curvfed.extensions.sweeps.commands.pages.study import SUPERNODES, Plan, Planned
from curvfed.extensions.sweeps.commands.sweep.child import Task
from curvfed.extensions.sweeps.commands.sweep.pool import Pool
from curvfed.extensions.sweeps.commands.sweep.ray_cluster import RayCluster
from curvfed.extensions.sweeps.commands.sweep.results import Ended, Progress, Results, completed

Executor = Pool | RayCluster
"""Makes the runs of all sweeps of a command."""

CONTINUES = "Completed runs are saved; the same command continues."

Listener = Callable[[Ended | None], None]
"""Called with each ended run, and with None at the start."""


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


def make_runs(
    runs: Sequence[Planned],
    results: Results,
    places: Mapping[str, Value],
    executor: Executor,
    listener: Listener,
) -> None:
    """Make runs, and record each in the table when it ends.

    An interrupted run is resumed from its last saved round; a failed one is repeated. A failing run
    does not stop the others.

    Parameters
    ----------
    runs : sequence of Planned
        The runs to make.
    results : Results
        The table of a folder that is `locked`.
    places : mapping
        Keys outside a run's identity, such as `data-dir`.
    executor : Executor
    listener : callable

    Raises
    ------
    MachineError, UsageError
        If the table cannot be written.
    OSError
        If no process can be started.
    """
    for run in runs:
        if run.refused:
            results.record(run, run.refused)
            listener(Ended(run, run.refused, 0.0))
    todo = {run.name: run for run in runs if not run.refused}
    if not todo:
        return
    resources = executor.resources
    # A run has several worker processes if it takes a core of this machine, and there are more
    # cores than runs.
    takes_a_core = resources.cpus == 1 and not resources.gpus and not resources.address
    # Without a share of a GPU a run uses the CPU: the GPU belongs to other runs.
    machine: dict[str, Value] = {
        "threads": resources.cpus,
        "workers": max(1, executor.slots // len(todo)) if takes_a_core else 1,
        "device": "auto" if resources.gpus else "cpu",
    }
    tasks = []
    for run in todo.values():
        settings = machine | dict(run.settings) | dict(run.paths) | dict(places)
        number = int(settings.pop(SUPERNODES))
        tasks.append(Task(settings, number, str(results.folder), run.name))
    listener(None)
    for task, error, seconds in executor.make(tasks):
        run = todo[task.name]
        if not error and not completed(results.folder / run.name):
            error = (
                f"{results.folder} has no summary of it: all machines need this folder in common"
            )
        results.record(run, error)
        listener(Ended(run, error, seconds))


def run_sweep(
    plan: Plan, folder: Path, places: dict[str, Value], executor: Executor, console: Console
) -> int:
    """Make the missing runs of a sweep, and return the number of failed runs.

    Raises
    ------
    MachineError, UsageError, OSError
        See `make_runs` and `locked`.
    """
    with locked(folder):
        results = Results(folder)
        finished = results.finished(plan.runs)
        missing = [run for run in plan.runs if run.name not in finished]
        total = len(plan.runs)
        with Progress(console, plan.title, total, len(finished), executor.slots) as progress:
            make_runs(missing, results, places, executor, progress)
        return progress.failed
