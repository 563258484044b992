"""`curvfed simulate`: a run in this process, without SuperLink and Ray."""

import json
import signal

import typer
from rich.console import Console
from rich.markup import escape

from curvfed.deployments.arguments import read_request
from curvfed.deployments.parameters import Debug, Pairs, all_pairs
from curvfed.deployments.processes import signals
from curvfed.deployments.tables import summary_table


def simulate(pairs: Pairs = None, debug: Debug = False) -> None:
    """Run in this process, without SuperLink and Ray: same code, same results, faster start.

    curvfed simulate method=flatland dataset=cora data-dir=~/data num-supernodes=10 seed=1

    Exit status: 0 completed, 1 failed, 2 wrong usage, such as missing data (nothing
    is started, and no folder made), 130 interrupted by Ctrl-C or SIGTERM (the last
    checkpoint is saved, see the key resume).
    """
    console = Console()
    request = read_request(all_pairs(pairs, debug))
    # These imports take seconds, and a wrong key is reported at once.
    from curvfed.deployments.inprocess import simulated_nodes
    from curvfed.deployments.preflight import preflight
    from curvfed.deployments.workers import run_simulation
    from curvfed.server_app.app import reason

    preflight(request)
    try:
        with signals(signal.default_int_handler):  # batch systems end a job by SIGTERM
            folder = run_simulation(request.config, simulated_nodes(request.num_supernodes))
    except KeyboardInterrupt:
        console.print(
            "Interrupted. The last checkpoint is saved; continue with the same run-name and"
            " resume=true."
        )
        raise typer.Exit(130) from None
    except Exception as error:
        console.print(f"[red]The run failed:[/red] {escape(reason(error))}", soft_wrap=True)
        raise typer.Exit(1) from None
    console.print(summary_table(json.loads((folder / "summary.json").read_text())))
    page = folder / "report.html"
    print("report:", page if page.exists() else f"none; {folder} has the figures")
