"""The status of a cluster: its programs on this machine, connected nodes, and ended runs."""

import datetime
import json
import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from curvfed.deployments.cluster import database, registry
from curvfed.deployments.cluster.certificates import time_left
from curvfed.deployments.cluster.checks.superlink import SilentError, check_server
from curvfed.deployments.cluster.daemons import Daemon, running
from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.cluster.flower_commands import BY, flwr
from curvfed.deployments.cluster.folder import ServerFolder

LAST_RUNS = 8

PAUSE = 2.5
NEWS = 10.0
"""Seconds between two queries of the connected nodes, and between two printed lines."""


def wait(folder: ServerFolder, number: int, limit: float) -> None:
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
    try:
        check_server(folder)
        nodes = registry.registered_nodes(folder)
    except ClusterError as error:
        return 0, " ".join(str(error).partition(BY)[0].split())
    return sum(
        node["status"] == "online" for node in nodes
    ), "the logs of the others have the reason"


def show(folder: ServerFolder) -> int:
    """Print the status; the exit status, 0 if the SuperLink answers.

    Raises
    ------
    ClusterError
        If its database is damaged.
    """
    console = Console()
    for daemon in running([folder.running, *(node.running for node in folder.nodes())]):
        console.print(str(daemon), soft_wrap=True)
    console.print(f"server certificate: {time_left(folder.server[0]).days} days left")
    database.check(folder)
    flwr(folder, "supernode", "list").show()
    try:
        nodes = registry.registered_nodes(folder)
        runs = flwr(folder, "list").show().ask()["runs"]
    except ClusterError as error:
        _show_silence(console, folder, str(error).partition(BY)[0])  # the command is shown above
        return 1
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
    return 0


def _warnings(directory: Path) -> str:
    """The warnings of an ended run, such as of missing or outlying clients, if its results are
    here."""
    try:
        summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
        return "; ".join(summary["warnings"])
    except (OSError, ValueError, LookupError, TypeError):  # missing, unreadable or damaged
        return ""


def _show_silence(console: Console, folder: ServerFolder, reason: str) -> None:
    """Print why the SuperLink does not answer."""
    is_silent = True
    try:
        check_server(folder)
    except SilentError:
        pass
    except ClusterError as error:
        reason = str(error)
        is_silent = False
    console.print(f"[red]{escape(reason)}[/red]", soft_wrap=True)
    if is_silent and (tail := Daemon(folder.running, "superlink").tail()):
        console.print(f"end of its log:\n{tail}", markup=False, soft_wrap=True)
