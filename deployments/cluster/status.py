"""What of a cluster runs, who is connected, how its runs went."""

import contextlib
import datetime

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from curvfed.deployments.cluster import commands, registry, submit
from curvfed.deployments.cluster.certificates import valid_until
from curvfed.deployments.cluster.daemons import Daemon, running, wait_until
from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.cluster.folder import ServerFolder
from curvfed.deployments.cluster.preflight import is_another

LAST_RUNS = 8

PATIENCE = 600.0
"""Seconds that nodes have to come up: the first start from a shared disk is slow."""


def wait(folder: ServerFolder, number: int) -> None:
    """Wait until so many nodes are connected.

    Raises
    ------
    ClusterError
        If they are not in time.
    """

    connected = 0

    def enough() -> bool:
        nonlocal connected
        with contextlib.suppress(ClusterError):  # the SuperLink may come up yet
            connected = sum(node["status"] == "online" for node in registry.present(folder))
        return connected >= number

    if not wait_until(enough, PATIENCE, pause=3.0):
        raise ClusterError(f"{connected} of {number} nodes are connected after {PATIENCE:g} s; their logs say why")


def show(folder: ServerFolder) -> int:
    """Print it; 0 if the SuperLink answers."""
    console = Console()
    for daemon in [*running(folder.running), *(d for node in folder.nodes() for d in running(node.running))]:
        process = daemon.process()
        console.print(f"{daemon.name}: process {process.pid if process else '?'}, log {daemon.log}", soft_wrap=True)
    left = valid_until(folder.server[0]) - datetime.datetime.now(datetime.UTC)
    console.print(f"server certificate: {left.days} days left")
    try:
        commands.list_nodes(folder).show()
        nodes = registry.present(folder)
        runs = commands.list_runs(folder).show().ask()["runs"]
    except ClusterError as error:
        address = f"{commands.LOOPBACK}:{folder.api_port}"
        if is_another(address, folder.authority[0]):
            console.print(
                f"[red]the SuperLink at {address} is another cluster's[/red]: {folder.authority[0]} does not vouch for "
                "it. Stop it by its own `down`, or make a cluster with another --folder and --api-port",
                soft_wrap=True,
            )
            return 1
        reason = str(error).partition(commands.BY)[0]  # the command stands above
        console.print(f"[red]{escape(reason)}[/red]", soft_wrap=True)
        if tail := Daemon(folder.running, "superlink").tail():
            console.print(f"end of its log:\n{tail}", markup=False, soft_wrap=True)
        return 1
    names = {identity: name for name, identity in registry.known(folder).items()}
    table = Table("node", "id", "", "since")
    for node in nodes:
        since = node["online-at"] if node["status"] == "online" else node["offline-at"]
        table.add_row(names.get(node["node-id"], "–"), node["node-id"], node["status"], since or "")
    console.print(table)
    called = submit.names(folder)
    table = Table("run", "", "started", "took", "")
    for run in runs[:LAST_RUNS]:
        took = str(datetime.timedelta(seconds=round(run["elapsed"])))
        details = run["status-details"].partition("\n")[0].removeprefix("N/A")
        state = run["status"].removeprefix("finished:")
        table.add_row(called.get(run["run-id"], run["run-id"]), state, run["pending-at"], took, escape(details))
    if runs:
        console.print(table)
    return 0
