"""`curvfed simulate`: a run in this process, without SuperLink and Ray."""

import json
import signal
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from curvfed.deployments.processes import signals
from curvfed.deployments.request import read_request
from curvfed.deployments.tables import summary_table


def main(pairs: Sequence[str]) -> int:
    """Run with the keys in `pairs`, and return the exit status.

    Returns
    -------
    int
        0 completed, 1 failed, 130 interrupted by Ctrl-C, SIGTERM or SIGHUP.

    Raises
    ------
    UsageError, ConfigError
        If no machine can run it, or data are missing; nothing is started, and no folder is made.
    """
    console = Console()
    request = read_request(pairs)
    # These imports take seconds, and a wrong key is reported at once.
    from curvfed.deployments.inprocess import run_in_process, simulated_nodes
    from curvfed.deployments.preflight import preflight
    from curvfed.server_app.app import reason

    preflight(request)
    try:
        with signals(signal.default_int_handler):  # batch systems end a job by SIGTERM
            nodes = simulated_nodes(request.num_supernodes)
            folder = run_in_process(request.config, nodes)
    except KeyboardInterrupt:
        console.print(
            "Interrupted. The last checkpoint is saved; continue with the same run-name and"
            " resume=true."
        )
        return 130
    except Exception as error:
        console.print(f"[red]The run failed:[/red] {escape(reason(error))}", soft_wrap=True)
        return 1
    console.print(summary_table(json.loads((folder / "summary.json").read_text())))
    page = folder / "report.html"
    print("report:", page if page.exists() else f"none; {folder} has the figures")
    return 0
