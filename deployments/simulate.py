"""`curvfed simulate`: one run in this process, without SuperLink and Ray."""

import contextlib
import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flwr.app import Context, RecordDict
from rich.console import Console
from rich.markup import escape

from curvfed.client_app.app import app as client_app
from curvfed.deployments.inprocess import InProcessGrid, simulated_nodes
from curvfed.deployments.pairs import NUM_SUPERNODES, Value
from curvfed.deployments.preflight import preflight
from curvfed.deployments.processes import signals
from curvfed.deployments.request import read_request
from curvfed.deployments.tables import summary_table
from curvfed.server_app.app import main as server_main
from curvfed.server_app.app import reason
from curvfed.server_app.directory.run_directory import default_name
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.parse import parse


def simulate(
    settings: dict[str, Value], num_supernodes: int = NUM_SUPERNODES, node_configs: list[dict[str, Any]] | None = None,
    intercept: Any = None,
) -> Path:  # fmt: skip
    """Run in-process.

    Parameters
    ----------
    settings : dict
        Run-config keys that differ from their defaults.
    num_supernodes : int
    node_configs : list of dict, optional
        Node configurations, as real nodes have them; default: those of simulated nodes.
    intercept : callable, optional
        See `InProcessGrid`.

    Returns
    -------
    Path
        The run directory.

    Raises
    ------
    Exception
        Any error that ended the run; its summary is written.
    """
    nodes = simulated_nodes(num_supernodes) if node_configs is None else node_configs
    run_config = defaults() | settings
    if not run_config["run-name"] and not run_config["resume"]:
        with contextlib.suppress(ConfigError):  # the ServerApp refuses it, and leaves a summary that says so
            run_config["run-name"] = default_name(parse(run_config))
    grid = InProcessGrid(client_app, run_config, nodes, intercept)
    server_main(grid, Context(1, 1, {}, RecordDict(), run_config))
    config = parse(run_config)
    return config.results_path / config.run_name


def main(pairs: Sequence[str]) -> int:
    """Run as `pairs` say; the exit status.

    Returns
    -------
    int
        0 completed, 1 failed, 130 interrupted by Ctrl-C, SIGTERM or SIGHUP.

    Raises
    ------
    UsageError, ConfigError
        If it can never run, or data are absent; nothing is started, and no folder is made.
    """
    console = Console()
    request = preflight(read_request(pairs))
    try:
        with signals(signal.default_int_handler):  # batch systems end a job by SIGTERM
            folder = simulate(request.settings, request.num_supernodes)
    except KeyboardInterrupt:
        console.print("Interrupted. The last checkpoint is kept; go on with the same run-name and resume=true.")
        return 130
    except Exception as error:
        console.print(f"[red]The run failed:[/red] {escape(reason(error))}", soft_wrap=True)
        return 1
    console.print(summary_table(json.loads((folder / "summary.json").read_text())))
    print("report:", folder / "report.html")
    return 0
