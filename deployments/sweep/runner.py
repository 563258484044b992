"""Make the runs of a sweep in Ray: each is an in-process simulation in a task of its own."""

import contextlib
import fcntl
import logging
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from curvfed.deployments.arguments import UsageError, Value
from curvfed.deployments.processes import socket_folder
from curvfed.deployments.resources import Resources
from curvfed.deployments.sweep.results import TOKEN_FILE, Ended, Progress, Results
from curvfed.server_app.report.study import SUPERNODES, Plan, Planned

STARTS = 3
"""Attempts to start Ray."""

OBJECT_STORE = 100 * 2**20
"""Bytes that Ray reserves for messages between tasks, which are short here."""

QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}


Listener = Callable[[Ended | None, int], None]
"""Called with each ended run, None at the start, and the number of running ones."""


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


def make_runs(
    runs: Sequence[Planned],
    results: Results,
    places: Mapping[str, Value],
    resources: Resources,
    listener: Listener,
) -> None:
    """Make runs, and record each in the table when it ends.

    An interrupted run is resumed from its last saved round; a failed one is repeated. A failing run
    does not stop the others. An interrupt ends the running ones, and their files stay.

    Parameters
    ----------
    runs : sequence of Planned
        The runs to make.
    results : Results
        The table of a folder that is `locked`.
    places : mapping
        Keys outside a run's identity, such as `data-dir`.
    resources : Resources
    listener : callable

    Raises
    ------
    UsageError
        If the Ray cluster cannot be reached, has too few resources for a run, or has a machine
        that does not see the folder; or if the table cannot be written.
    KeyboardInterrupt
        By Ctrl-C; once Ray runs, also by SIGTERM.
    """
    for run in runs:
        if run.refused:
            results.record(run, run.refused)
            listener(Ended(run, run.refused, 0.0), 0)
    todo = [run for run in runs if not run.refused]
    if not todo:
        return
    slots = _start(resources)
    import ray

    try:
        token = secrets.token_hex(16)
        (results.folder / TOKEN_FILE).write_text(token)
        # A run has several worker processes if it takes a core of this machine, and there are more
        # cores than runs.
        takes_a_core = resources.cpus == 1 and not resources.gpus and not resources.address
        workers = max(1, slots // len(todo)) if takes_a_core else 1
        # No retries: Ray would repeat a run that ran out of memory.
        task = ray.remote(
            num_cpus=resources.cpus * workers, num_gpus=resources.gpus, max_retries=0
        )(make_run)
        # Without a share of a GPU a run uses the CPU: the GPU belongs to other runs.
        machine: dict[str, Value] = {
            "threads": resources.cpus,
            "workers": workers,
            "device": "auto" if resources.gpus else "cpu",
        }
        # Ray starts the runs in this order, and as many at a time as its resources allow.
        pending: dict[Any, Planned] = {}
        for run in todo:
            settings = machine | dict(run.settings) | dict(run.paths) | dict(places)
            number = int(settings.pop(SUPERNODES))
            pending[task.remote(settings, number, str(results.folder), run.name, token)] = run
        listener(None, min(slots, len(pending)))
        while pending:
            (reference,), _ = ray.wait(list(pending))
            run = pending.pop(reference)
            error, seconds = _outcome(reference)
            results.record(run, error)
            listener(Ended(run, error, seconds), min(slots, len(pending)))
    finally:
        ray.shutdown()  # ends the tasks too, and Ray itself if this sweep started it


def _start(resources: Resources) -> int:
    """Connect to Ray or start it, and return the number of runs that it can make at a time.

    Raises
    ------
    UsageError
        If it cannot be reached, or has too few resources for a run.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # Otherwise Ray warns that it hides GPUs from tasks without a share, which have device=cpu.
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    if not resources.address and "ray" not in sys.modules:
        # Ray listens on all addresses and runs any code that it receives; with a token it accepts
        # only this process.
        variables = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            # After this time, 60 s by default, Ray's processes end if this one was killed. They
            # also end this one if they answer no sooner, on a machine that is busy with others.
            "RAY_gcs_rpc_server_reconnect_timeout_s": "30",
            "RAY_TMPDIR": str(socket_folder()),
        }
        os.environ.update(variables)
    import ray

    try:
        if resources.address:
            ray.init(address=resources.address, **QUIET)
        else:
            _start_local()
    except Exception as error:  # Ray raises errors of many classes
        raise UsageError(
            f"no Ray cluster at {resources.address or 'this machine'}: {error}", key="no-ray"
        ) from None
    # Ray's own handler would not wait for the end of the runs.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    available: dict[str, float] = ray.cluster_resources()
    cpus = int(available.get("CPU", 0))
    gpus = int(available.get("GPU", 0))
    slots = cpus // resources.cpus
    if resources.gpus >= 1:
        slots = min(slots, gpus // int(resources.gpus))
    elif resources.gpus:  # a share of one GPU
        slots = min(slots, gpus * int(1 / resources.gpus + 1e-9))
    if not slots:
        ray.shutdown()
        raise UsageError(
            f"a run needs {resources.cpus} CPUs and {resources.gpus:g} GPUs, but Ray has"
            f" {cpus} and {gpus}; see --cpus and --gpus",
            key="resources",
        )
    return slots


def _start_local() -> None:
    """Start a Ray that ends with this process.

    On a busy machine its processes can miss each other's start. The next attempt finds their files
    in the disk cache.
    """
    import ray

    existing = set(psutil.Process().children())
    for start in range(STARTS):
        try:
            ray.init(
                address="local", include_dashboard=False, object_store_memory=OBJECT_STORE, **QUIET
            )
            return
        except Exception:
            for process in set(psutil.Process().children()) - existing:
                process.kill()
            if start == STARTS - 1:
                raise


def make_run(
    settings: dict[str, Value], num_supernodes: int, folder: str, name: str, token: str
) -> tuple[str, float]:
    """Call `make` in the process of a run, which imports the modules of a run. The process has this
    function's name.

    Returns
    -------
    error : str
    seconds : float
    """
    begun = time.monotonic()
    from curvfed.deployments.sweep.task import make

    return make(settings, num_supernodes, folder, name, token), time.monotonic() - begun


def _outcome(reference: Any) -> tuple[str, float]:
    """The result of an ended task, or the reason why its process ended without one.

    Raises
    ------
    UsageError
        If the machine cannot make runs.
    """
    import ray

    try:
        error, seconds = ray.get(reference)
        return str(error), float(seconds)
    except ray.exceptions.RayTaskError as failure:
        if isinstance(failure.cause, UsageError):
            raise failure.cause from None
        return f"the process of the run failed: {failure.cause!r}", 0.0
    except ray.exceptions.RayError as failure:
        return f"the process of the run ended: {failure}", 0.0


def run_sweep(
    plan: Plan, folder: Path, places: dict[str, Value], resources: Resources, console: Console
) -> int:
    """Make the missing runs of a sweep, and return the number of failed runs.

    Raises
    ------
    UsageError
    KeyboardInterrupt
        The completed runs are saved.
    """
    try:
        with locked(folder):
            results = Results(folder)
            finished = results.finished(plan.runs)
            missing = [run for run in plan.runs if run.name not in finished]
            with Progress(console, plan.title, len(plan.runs), len(finished)) as progress:
                if missing:
                    make_runs(missing, results, places, resources, progress)
            return progress.failed
    except KeyboardInterrupt:
        console.print("Interrupted. Completed runs are saved; the same command continues.")
        raise
