"""Make a run of a sweep, in a process of Ray that makes many runs one after the other."""

import contextlib
import json
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from threadpoolctl import threadpool_limits

from curvfed.client_app.clients_in_memory import forget_all
from curvfed.deployments.arguments import UsageError, Value, check_request
from curvfed.deployments.inprocess import simulated_nodes
from curvfed.deployments.preflight import preflight
from curvfed.deployments.sweep.results import LOGS, TOKEN_FILE, completed
from curvfed.deployments.workers import run_simulation
from curvfed.server_app.app import reason
from curvfed.server_app.directory.run_lock import PATIENCE, RunLock
from curvfed.strategies.run_log import log

CUT_OFF = ("interrupted", "ended by Flower, whose own log says why")
"""Errors of a run that ended by SIGINT, or by SIGTERM from Ray; no Flower takes part in these
runs."""


def make(
    settings: dict[str, Value], num_supernodes: int, folder: str, name: str, token: str
) -> str:
    """Make a run, or resume an interrupted one; its log is `logs/<name>.log`.

    Parameters
    ----------
    settings : dict
        The run config, with `threads`, and without the keys for the other arguments.
    num_supernodes : int
    folder : str
        The folder of all runs.
    name : str
        The name of this run.
    token : str
        The content of the folder's token file, if this machine sees the same folder.

    Returns
    -------
    str
        The reason of its failure; empty if it completed.

    Raises
    ------
    UsageError
        If this machine does not see the folder.
    """
    results = Path(folder)
    run = results / name
    try:
        is_shared = (results / TOKEN_FILE).read_text() == token
    except OSError:
        is_shared = False
    if not is_shared:
        host = os.uname().nodename
        raise UsageError(
            f"{host} does not see {folder}; all machines of a Ray cluster need that folder in"
            " common",
            key="not-shared",
        )
    # One thread per core of the run, whatever the machine's settings are.
    threads = int(settings["threads"])
    os.environ["OMP_NUM_THREADS"] = str(threads)  # for libraries loaded later
    with _logged(results / LOGS / f"{name}.log"), threadpool_limits(threads):
        try:
            if run.exists():  # a killed sweep: Ray takes seconds to end its tasks
                lock = RunLock(run)
                lock.acquire(PATIENCE)
                lock.release()
            if completed(run):
                return ""
            resume = _can_resume(run)
            if run.exists() and not resume:
                shutil.rmtree(run)
            settings |= {"results-dir": folder, "run-name": name, "resume": resume}
            settings["report"] = False  # a report takes longer than many a run
            request = preflight(check_request(settings, num_supernodes))
            run_simulation(request.config, simulated_nodes(num_supernodes))
        except Exception as error:
            log.info("the run failed", exc_info=True)
            return reason(error)
        finally:
            forget_all()
    return "" if completed(run) else "it has no summary"


def _can_resume(run: Path) -> bool:
    """Whether a run was killed or interrupted after it had saved a round or its decoded hulls."""
    saved = [
        *run.glob("checkpoint/server/*.safetensors"),
        *run.glob("checkpoint/hulls/*.safetensors"),
    ]
    if not saved:
        return False
    try:
        return json.loads((run / "summary.json").read_text(encoding="utf-8"))["error"] in CUT_OFF
    except FileNotFoundError:
        return True


@contextlib.contextmanager
def _logged(path: Path) -> Iterator[None]:
    """Write the app's log to a file only."""
    path.parent.mkdir(exist_ok=True)
    handler = logging.FileHandler(path, mode="a", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    handlers = log.handlers
    propagate = log.propagate
    level = log.level
    log.handlers = [handler]
    log.propagate = False
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.handlers = handlers
        log.propagate = propagate
        log.setLevel(level)
        handler.close()
