"""`curvfed cluster status`: what answers, the connected nodes, and the results of runs."""

import datetime
import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from curvfed.deployments.cluster import registry
from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.cluster.flower_commands import BY, flwr
from curvfed.deployments.cluster.folder import ServerFolder
from curvfed.deployments.cluster.options import open_folder
from curvfed.deployments.groups import Application

LAST_RUNS = 8

PAUSE = 2.5
NEWS = 10.0
"""Seconds between two queries of the connected nodes, and between two printed lines."""

app = Application(add_completion=False)


@app.command()
def status(
    ctx: typer.Context,
    wait: Annotated[
        int, typer.Option(min=0, metavar="N", help="First wait until N nodes are connected.")
    ] = 0,
    within: Annotated[
        float,
        typer.Option(
            min=0, metavar="S", help="Seconds to wait for them; after that, exit status 1."
        ),
    ] = 120,
) -> None:
    """Show whether the SuperLink answers, connected nodes, and the results of runs."""
    folder = open_folder(ctx)
    if wait:
        wait_for_nodes(folder, wait, within)
    raise typer.Exit(show(folder))


def wait_for_nodes(folder: ServerFolder, number: int, limit: float) -> None:
    """Wait until this many nodes are connected, and print the number every ten seconds.

    Raises
    ------
    ClusterError
        If they are not connected within `limit` seconds.
    """
    begin = time.monotonic()
    due = 0.0
    while True:
        connected, reason = _count_connected(folder)
        if connected >= number:
            return
        waited = time.monotonic() - begin
        news = f"{connected} of {number} nodes are connected after {waited:.0f} s; {reason}"
        if waited >= limit:
            raise ClusterError(news, key="not-connected")
        if waited >= due:
            print(news, flush=True)
            due = waited + NEWS
        time.sleep(min(PAUSE, limit - waited))


def _count_connected(folder: ServerFolder) -> tuple[int, str]:
    """The number of connected nodes, and the reason why others are not, or its place."""
    from curvfed.deployments.cluster.link import check_server  # imports Flower

    try:
        check_server(folder)
        nodes = registry.registered_nodes(folder)
    except ClusterError as error:
        return 0, " ".join(str(error).partition(BY)[0].split())
    online = sum(node["status"] == "online" for node in nodes)
    return online, "the logs of the others have the reason"


def show(folder: ServerFolder) -> int:
    """Print the status; the exit status, 0 if the SuperLink answers and no check finds a fault."""
    from curvfed.deployments.cluster.checks import STATUS, run_checks, server_checks

    faults = run_checks(server_checks(folder), STATUS)
    if not faults or _answers(folder):
        _print_tables(folder)
    return 1 if faults else 0


def _answers(folder: ServerFolder) -> bool:
    """Whether the SuperLink of this folder can be asked."""
    from curvfed.deployments.cluster.link import check_server  # imports Flower

    try:
        check_server(folder)
    except ClusterError:
        return False
    return True


def _print_tables(folder: ServerFolder) -> None:
    """Print the registered nodes and the last runs."""
    flwr(folder, "supernode", "list").show()
    nodes = registry.registered_nodes(folder)
    runs = flwr(folder, "list").show().ask()["runs"]
    console = Console()
    table = Table("node", "id", "", "since")
    for node in nodes:
        since = node["online-at"] if node["status"] == "online" else node["offline-at"]
        table.add_row(node["name"] or "–", node["node-id"], node["status"], since or "")
    console.print(table)
    names = registry.read_names(folder, registry.RUNS)
    table = Table("run", "", "started", "took", "")
    for run in runs[:LAST_RUNS]:
        took = str(datetime.timedelta(seconds=round(run["elapsed"])))
        details = run["status-details"].partition("\n")[0].removeprefix("N/A")
        state = run["status"].removeprefix("finished:")
        directory = Path(names.get(run["run-id"], run["run-id"]))
        notes = _warnings(directory) or details
        table.add_row(directory.name, state, run["pending-at"], took, escape(notes))
    if runs:
        console.print(table)


def _warnings(directory: Path) -> str:
    """The warnings of an ended run, such as of missing or outlying clients, if its results are
    here."""
    try:
        summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
        return "; ".join(summary["warnings"])
    except (OSError, ValueError, LookupError, TypeError):  # missing, unreadable or damaged
        return ""
