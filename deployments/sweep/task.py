"""One run, in a process of Ray's that makes others before and after it."""

import contextlib
import json
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from threadpoolctl import threadpool_limits

from curvfed.client_app.clients_in_memory import forget_all
from curvfed.deployments.pairs import UsageError, Value
from curvfed.deployments.preflight import preflight
from curvfed.deployments.request import checked
from curvfed.deployments.simulate import simulate
from curvfed.deployments.sweep.results import LOGS, TOKEN_FILE, completed
from curvfed.server_app.app import reason
from curvfed.server_app.directory.run_lock import PATIENCE, RunLock

log = logging.getLogger("curvfed")

CUT_OFF = ("interrupted", "ended by Flower, whose own log says why")
"""Errors of a run that a signal has ended: SIGINT, and SIGTERM by Ray. There is no Flower here to end it."""


def make(settings: dict[str, Value], num_supernodes: int, folder: str, name: str, token: str) -> str:
    """Make a run, or go on with one that was cut off; its lines of log go to `logs/<name>.log`.

    Parameters
    ----------
    settings : dict
        Its run config, `threads` included, without what is told by the others.
    num_supernodes : int
    folder, name : str
        Of all runs, and of this one.
    token : str
        What the folder's token file holds if it is the sweep's own.

    Returns
    -------
    str
        Why it failed; empty if it completed.

    Raises
    ------
    UsageError
        If this machine does not see the folder.
    """
    place, run = Path(folder), Path(folder, name)
    try:
        shared = (place / TOKEN_FILE).read_text() == token
    except OSError:
        shared = False
    if not shared:
        host = os.uname().nodename
        raise UsageError(f"{host} does not see {folder}; all machines of a Ray cluster need that folder in common")
    with _logged(place / LOGS / f"{name}.log"), _limited(int(settings["threads"])):
        try:
            if run.exists():  # Ray takes seconds to end a task of an earlier sweep that was killed
                lock = RunLock(run)
                lock.acquire(PATIENCE)
                lock.release()
            if completed(run):
                return ""
            resume = _can_go_on(run)
            if run.exists() and not resume:
                shutil.rmtree(run)
            settings |= {"results-dir": folder, "run-name": name, "resume": resume}
            preflight(checked(dict(settings), num_supernodes))
            simulate(settings, num_supernodes)
        except Exception as error:
            log.info("the run failed", exc_info=True)
            return reason(error)
        finally:
            forget_all()
    return "" if completed(run) else "it left no summary"


def _can_go_on(run: Path) -> bool:
    """Whether a run was cut off, by a kill or an interrupt, after it had done whole rounds, or decoded its hulls."""
    if not any(any((run / "checkpoint" / store).glob("*.safetensors")) for store in ("server", "hulls")):
        return False
    try:
        return json.loads((run / "summary.json").read_text(encoding="utf-8"))["error"] in CUT_OFF
    except FileNotFoundError:
        return True


@contextlib.contextmanager
def _limited(threads: int) -> Iterator[None]:
    """As many threads for the arithmetic as the run has cores, whatever the machine's own settings say."""
    os.environ["OMP_NUM_THREADS"] = str(threads)  # for libraries that are loaded from now on
    with threadpool_limits(threads):
        yield


@contextlib.contextmanager
def _logged(path: Path) -> Iterator[None]:
    """The app's lines into a file, and into nothing else."""
    path.parent.mkdir(exist_ok=True)
    handler = logging.FileHandler(path, mode="a", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    before, level = (log.handlers, log.propagate), log.level
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.handlers, log.propagate = before
        log.setLevel(level)
        handler.close()
