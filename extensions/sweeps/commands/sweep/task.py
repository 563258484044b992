"""Make a run of a sweep, in a process that makes many runs one after the other."""

import shutil
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

from curvfed.client_app.clients_in_memory import forget_all
from curvfed.deployments.arguments import Value, check_request
from curvfed.deployments.inprocess import simulated_nodes
from curvfed.deployments.preflight import preflight
from curvfed.deployments.simulation import run_simulation
from curvfed.deployments.start import collector_off
from curvfed.extensions.sweeps.commands.sweep.results import completed
from curvfed.server_app.app import reason
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.directory.run_lock import PATIENCE, RunLock
from curvfed.strategies.run_log import log, log_to_stdout

CUT_OFF = ("interrupted", "ended by Flower, whose own log says why")
"""Errors of a run that ended by SIGINT, or by SIGTERM from Ray; Flower takes no part in these
runs."""


def make(settings: dict[str, Value], num_supernodes: int, folder: str, name: str) -> str:
    """Make a run, or resume an interrupted one.

    Parameters
    ----------
    settings : dict
        The run config, with `threads`, and without the keys for the other arguments.
    num_supernodes : int
    folder : str
        The folder of all runs.
    name : str
        The name of this run.

    Returns
    -------
    str
        The reason of its failure; empty if it completed.
    """
    log_to_stdout("%(asctime)s %(message)s")
    run = Path(folder, name)
    # One thread per core of the run, whatever the machine's settings are; and the next run finds
    # torch's generator as this one did.
    threads = threadpool_limits(int(settings["threads"]))
    with threads, torch.random.fork_rng(devices=()):
        try:
            if run.exists():  # a killed sweep: its processes take a while to end
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
            with collector_off():  # data of a new kind import libraries
                request = preflight(check_request(settings, num_supernodes))
            run_simulation(request.config, simulated_nodes(num_supernodes))
        except Exception as error:
            log.info("the run failed", exc_info=True)
            return reason(error)
        finally:
            forget_all()
    return ""


def _can_resume(run: Path) -> bool:
    """Whether a run was killed or interrupted after it had saved a round or its sum."""
    if not any(run.glob("checkpoint/server/*.safetensors")):
        return False
    summary = RunFiles(run).summary
    return not summary or summary.get("error") in CUT_OFF
