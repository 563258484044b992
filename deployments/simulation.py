"""The simulator of a run: this process, or that of an extension in the group
`curvfed.simulators`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.errors import ConfigError
from curvfed.tasks import plugins

GROUP = "simulators"
"""The group of entry points, without `curvfed.`; its objects are of `Simulator`."""


@dataclass(frozen=True)
class Simulator:
    """A way to run with simulated nodes.

    Attributes
    ----------
    run : callable
        As `run_simulation`; its results are those of one process.
    plan : callable
        From the configuration and the number of clients to lines for `curvfed check`.
    """

    run: Callable[[RunConfig, list[dict[str, Any]]], Path]
    plan: Callable[[RunConfig, int], list[str]]


def takes_workers() -> bool:
    """Whether a run here may have several worker processes: an extension adds a simulator."""
    return bool(plugins.additions(GROUP))


def simulator(config: RunConfig) -> Simulator | None:
    """The simulator that an extension adds; None for this process.

    Raises
    ------
    ConfigError
        If the run needs worker processes, and no extension has them.
    """
    for name in plugins.additions(GROUP):
        added: Simulator = plugins.addition(GROUP, name)
        return added
    if config.workers is not None and config.workers > 1:
        raise ConfigError(
            f"workers = {config.workers}: allowed here is 1{plugins.absent_hint(GROUP)}",
            key="workers",
        )
    return None


def run_simulation(config: RunConfig, node_configs: list[dict[str, Any]]) -> Path:
    """Run with the clients of this machine; see
    `curvfed.deployments.inprocess.run_in_process`."""
    from curvfed.deployments.inprocess import run_in_process  # imports the server

    added = simulator(config)
    run = added.run if added else run_in_process
    return run(config, node_configs)


def simulation_plan(config: RunConfig, clients: int) -> list[str]:
    """Lines about a simulation that starts now."""
    added = simulator(config)
    return added.plan(config, clients) if added else []
