"""A running Ray cluster that makes the runs of a sweep on several machines."""

import logging
import os
from collections.abc import Sequence
from typing import Any

from curvfed.deployments.arguments import UsageError
from curvfed.deployments.errors import MachineError
from curvfed.deployments.resources import Resources
from curvfed.extensions.sweeps.commands.sweep.child import Task, make_run
from curvfed.extensions.sweeps.commands.sweep.pool import num_slots


class RayCluster:
    """A connection to a Ray cluster; each run is a task there.

    Parameters
    ----------
    resources : Resources
        The resources of a run, and the address.

    Attributes
    ----------
    slots : int
        Number of runs at a time.

    Raises
    ------
    MachineError
        If the cluster cannot be reached.
    UsageError
        If it has too few resources for a run.
    """

    def __init__(self, resources: Resources) -> None:
        # Otherwise Ray warns that it hides GPUs from tasks without a share, which have device=cpu.
        os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
        import ray

        try:
            ray.init(address=resources.address, log_to_driver=False, logging_level=logging.CRITICAL)
        except Exception as error:  # Ray raises errors of many classes
            raise MachineError(
                f"no Ray cluster at {resources.address}: {error}", key="no-ray"
            ) from None
        self._pending: dict[Any, Task] = {}
        available: dict[str, float] = ray.cluster_resources()
        cpus = int(available.get("CPU", 0))
        gpus = int(available.get("GPU", 0))
        self.resources = resources
        self.slots = num_slots(resources, cpus, gpus)
        if not self.slots:
            self.close()
            raise UsageError(
                f"a run needs {resources.cpus} CPUs and {resources.gpus:g} GPUs, but Ray has"
                f" {cpus} and {gpus}; see --cpus and --gpus",
                key="resources",
            )

    @property
    def running(self) -> int:
        """The number of runs that have begun and not ended."""
        return min(self.slots, len(self._pending))

    def add(self, tasks: Sequence[Task]) -> None:
        """Begin runs, or let Ray queue them; see `Pool.add`."""
        import ray

        # No retries: Ray would repeat a run that ran out of memory.
        remote = ray.remote(
            num_cpus=self.resources.cpus, num_gpus=self.resources.gpus, max_retries=0
        )(make_run)
        # Ray starts the runs in this order, and as many at a time as its resources allow.
        for task in tasks:
            self._pending[remote.remote(task.with_workers(1))] = task

    def next(self) -> tuple[Task, str, float]:
        """Wait for the next run to end; see `Pool.next`."""
        import ray

        (reference,), _ = ray.wait(list(self._pending))
        try:
            error, seconds = ray.get(reference)
        except ray.exceptions.RayError as failure:
            error = f"the process of the run ended: {failure}"
            seconds = 0.0
        return self._pending.pop(reference), error, seconds

    def close(self) -> None:
        """End the tasks, and leave the cluster."""
        import ray

        ray.shutdown()
