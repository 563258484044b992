"""The number of worker processes of a simulation, and their GPUs."""

import sys
import threading
from dataclasses import dataclass

import torch

from curvfed.deployments.cores import read_cores
from curvfed.extensions.workers.commands.gpus import gpus_in_turn, gpus_of, workers_of
from curvfed.strategies.config.device import forked_answer
from curvfed.strategies.config.run_config import RunConfig
from curvfed.tasks.amounts import amount


@dataclass(frozen=True)
class WorkerPlan:
    """The worker processes of a simulation.

    Attributes
    ----------
    number : int
        1 is the run's process itself.
    reason : str
        Why it is this number; empty if there is one client.
    gpus : tuple of str
        The GPUs that the workers take in turn; empty for the CPU.
    is_short : bool
        Whether the configuration asks for more workers.
    """

    number: int
    reason: str = ""
    gpus: tuple[str, ...] = ()
    is_short: bool = False

    def __str__(self) -> str:
        place = "in one process"
        if self.number > 1:
            place = f"in {self.number} worker processes"
        return f"clients train {place}: {self.reason}"


def plan_workers(config: RunConfig, clients: int) -> WorkerPlan:
    """The worker processes of a simulation here and now.

    Parameters
    ----------
    config : RunConfig
        `workers` has the number, or None for as many as the free cores, or the GPUs, allow.
    clients : int
        Number of clients of the run.

    Raises
    ------
    ConfigError
        If this machine lacks the device.
    """
    gpus = tuple(gpus_of(config.device))
    share = 1.0 if config.row.is_one_shot else config.fraction_train
    most = max(1, round(share * clients))
    if most == 1:
        return WorkerPlan(1, gpus=gpus)
    cores = read_cores()
    if config.workers is not None:
        number = config.workers
        reason = f"workers = {config.workers}"
    elif gpus:
        number = min(len(gpus), cores.usable)
        reason = f"{amount(len(gpus), 'GPU')}, {cores.usable} cores"
    else:
        number = cores.free
        reason = str(cores)
    if number > most:
        number = most
        reason = f"{most} clients a round"
    if number > 1 and (obstacle := _obstacle(config, bool(gpus))):
        return WorkerPlan(1, obstacle, gpus, is_short=config.workers is not None)
    return WorkerPlan(number, reason, gpus)


def gpu_plan(config: RunConfig, clients: int) -> list[str]:
    """A line about the GPU of each worker of a simulation that starts now; none for the CPU."""
    plan = plan_workers(config, clients)
    with gpus_in_turn(plan.gpus, plan.number) as gpus:
        return [workers_of(gpus)] if gpus else []


def _obstacle(config: RunConfig, uses_gpu: bool) -> str:
    """Why this process cannot fork workers; "" if it can."""
    if not sys.platform.startswith("linux"):
        return "worker processes need Linux"
    if config.threads > 1:
        return f"threads = {config.threads} gives a client several cores"
    if set(threading.enumerate()) - {threading.main_thread()}:
        return "this program has other threads, which may hold locks, such as those of a notebook"
    if torch.cuda.is_initialized():
        return "this program already uses the GPU"
    if uses_gpu and not forked_answer(torch.cuda.is_available):
        return "this program already uses the GPU"
    return ""
