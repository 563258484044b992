"""The runs of a sweep in Ray: each a whole in-process simulation in a task of its own."""

import contextlib
import fcntl
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployments.pairs import UsageError, Value
from deployments.simulate import simulate
from deployments.sweep.plan import SUPERNODES, Planned
from deployments.sweep.results import Results, completed

log = logging.getLogger("curvfed")

LOGS = "logs"
ADDRESS_FILE = ".shared-with"
"""Proof to tasks on other machines that they see the sweep's folder."""


@dataclass(frozen=True)
class Resources:
    """What a run is given.

    Attributes
    ----------
    cpus : int
        Cores, and threads of its arithmetic.
    gpus : float
        Share of a GPU, 0 for none.
    address : str
        Of a Ray cluster that is there; empty for one of this machine's own, for as long as the sweep lasts.
    """

    cpus: int = 1
    gpus: float = 0.0
    address: str = ""


@dataclass(frozen=True)
class Ended:
    """A run that has come to its end.

    Attributes
    ----------
    run : Planned
    error : str
        Why it failed; empty if it completed.
    seconds : float
    """

    run: Planned
    error: str
    seconds: float


Listener = Callable[[Ended | None, int], None]
"""Told of each run that ended, and of how many are being made; None at the start."""


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Make the folder and keep other sweeps out of it.

    Raises
    ------
    UsageError
        If it cannot be made, or another sweep works in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / ".lock", "w")
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another sweep works in {folder}; let it end, or name another folder by --results"
            ) from None
        yield


def carry_out(
    runs: Sequence[Planned], results: Results, places: Mapping[str, Value], resources: Resources, listener: Listener
) -> None:
    """Make the runs that have not completed, and write down each as it ends.

    A run that had begun goes on from its last whole round; one that had failed is made anew. A run that fails does not
    stop the others. An interrupt ends the runs being made and keeps all that is on disk.

    Parameters
    ----------
    runs : sequence of Planned
        Only those to be made.
    results : Results
        Of a folder that is `held`.
    places : mapping
        Keys that are no part of what a run is: `data-dir`, `device`.
    resources : Resources
    listener : callable

    Raises
    ------
    UsageError
        If the Ray cluster cannot be reached, or has not what a run is to be given.
    """
    todo = []
    for run in runs:
        if run.refused:
            results.record(run, run.refused)
            listener(Ended(run, run.refused, 0.0), 0)
        else:
            todo.append(run)
    if not todo:
        return
    import ray

    slots = min(_start(resources), len(todo))
    try:
        _carry_out(todo, results, places, resources, listener, slots)
    finally:
        ray.shutdown()  # ends the tasks too, where the cluster is this sweep's own


def _start(resources: Resources) -> int:
    """Reach or start Ray; how many runs it can make at a time."""
    import ray

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if resources.address:
            ray.init(address=resources.address, **quiet)
        else:
            ray.init(address="local", include_dashboard=False, **quiet)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"no Ray cluster at {resources.address or 'this machine'}: {error}") from None
    there = ray.cluster_resources()
    slots = int(there.get("CPU", 0) // resources.cpus)
    if resources.gpus:
        slots = min(slots, int(there.get("GPU", 0) / resources.gpus + 1e-9))
    if slots < 1:
        ray.shutdown()
        raise UsageError(
            f"a run is to have {resources.cpus} CPUs and {resources.gpus:g} GPUs, but Ray has {there.get('CPU', 0):g} and "
            f"{there.get('GPU', 0):g}; see --cpus and --gpus"
        )
    return slots


def _carry_out(
    todo: Sequence[Planned], results: Results, places: Mapping[str, Value], resources: Resources, listener: Listener,
    slots: int,
) -> None:  # fmt: skip
    import ray

    # Not retried: Ray would make a run again that a bad configuration or too little memory has ended.
    task = ray.remote(num_cpus=resources.cpus, num_gpus=resources.gpus, max_retries=0)(_make)
    token = str(time.time_ns())
    (results.folder / ADDRESS_FILE).write_text(token)
    waiting = list(reversed(todo))
    running: dict[Any, tuple[Planned, float]] = {}
    listener(None, slots)
    while waiting or running:
        while waiting and len(running) < slots:
            run = waiting.pop()
            settings = {"threads": resources.cpus} | dict(run.settings) | dict(places)
            number = int(settings.pop(SUPERNODES))
            reference = task.remote(settings, number, str(results.folder), run.name, token)
            running[reference] = (run, time.monotonic())
        done, _ = ray.wait(list(running), timeout=1.0)
        for reference in done:
            run, since = running.pop(reference)
            try:
                error = ray.get(reference)
            except ray.exceptions.RayError as failure:
                error = f"the process of the run ended: {str(failure).strip().splitlines()[0]}"
            results.record(run, error)
            listener(Ended(run, error, time.monotonic() - since), min(slots, len(waiting) + len(running)))


def _make(settings: dict[str, Value], num_supernodes: int, folder: str, name: str, token: str) -> str:
    """One run, in a process that makes others before and after it; why it failed, or "".

    Its lines of log go to `logs/<name>.log`.
    """
    place = Path(folder)
    try:
        if (place / ADDRESS_FILE).read_text() != token:
            raise OSError
    except OSError:
        return f"{os.uname().nodename} does not see {folder}: all machines of the cluster need that folder in common"
    settings = settings | {"results-dir": folder, "run-name": name, "resume": _can_go_on(place / name)}
    if not settings["resume"]:
        shutil.rmtree(place / name, ignore_errors=True)
    with _logged(place / LOGS / f"{name}.log"):
        try:
            simulate(settings, num_supernodes)
        except Exception as error:
            log.debug("the run failed", exc_info=True)
            return str(error) or type(error).__name__
    return "" if completed(place / name) else "it left no summary"


def _can_go_on(folder: Path) -> bool:
    """Whether a run was cut off, by a kill or an interrupt, after it had done whole rounds."""
    if not any((folder / "checkpoint").rglob("*.safetensors")):
        return False
    try:
        summary = (folder / "summary.json").read_text()
    except OSError:
        return True
    return '"error": "interrupted"' in summary


@contextlib.contextmanager
def _logged(path: Path) -> Iterator[None]:
    """The app's lines into a file, and into nothing else."""
    path.parent.mkdir(exist_ok=True)
    handler = logging.FileHandler(path, mode="a", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    before = log.handlers[:], log.level, log.propagate
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.handlers, log.propagate = before[0], before[2]
        log.setLevel(before[1])
        handler.close()
