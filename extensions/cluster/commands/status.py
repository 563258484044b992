"""`curvfed cluster status`: whether the SuperLink answers, the connected nodes, and the results of
runs; and `doctor`: every check of the server or of a node."""

import datetime
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from curvfed.deployments.application import expanded
from curvfed.deployments.terminal import print_rows
from curvfed.extensions.cluster.commands import ClusterError, database, registry
from curvfed.extensions.cluster.commands.flower_commands import BY, flwr
from curvfed.extensions.cluster.commands.folder import (
    Node,
    NodeConfig,
    ServerFolder,
    SuperLink,
    open_folder,
)
from curvfed.tasks.amounts import amount

LONGEST_NOTES = 160
"""Characters of the notes on a run."""

LAST_RUNS = 8

ENDS = {"completed": "completed", "failed": "failed", "stopped": "failed"}
"""The first word of a summary's status, by Flower's status of an ended run."""

PAUSE = 2.5
NEWS = 10.0
"""Seconds between two queries of the connected nodes, and between two printed lines."""


def status(
    ctx: typer.Context,
    wait: Annotated[
        int, typer.Option(min=0, metavar="N", help="First wait until N nodes are connected.")
    ] = 0,
    within: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="S",
            help="Seconds to wait without any news of a node (600 if it starts on this machine);"
            " after that, exit status 1.",
        ),
    ] = 120,
) -> None:
    """Show whether the SuperLink answers, connected nodes, and the results of runs."""
    folder = open_folder(ctx)
    if wait:
        wait_for_nodes(folder, wait, within)
    raise typer.Exit(show(folder))


def wait_for_nodes(folder: ServerFolder, number: int, limit: float) -> None:
    """Wait until this many nodes are connected, and print every ten seconds which are not.

    Raises
    ------
    ClusterError
        If for `limit` seconds, or `CONNECT_TIME` with a node on this machine, no further node
        connects nor takes a step of its start.
    """
    begin = time.monotonic()
    changed = begin
    due = begin
    seen: object = None
    while True:
        connected, missing, reason = _missing_nodes(folder)
        if connected >= number:
            return
        now = time.monotonic()
        state = (connected, missing)
        if state != seen:
            seen = state
            changed = now
        texts = [f"{name} {step or NOT_HERE}" for name, step in missing.items()]
        words = reason or "; ".join(texts) or "no other is registered"
        news = (
            f"{connected} of {amount(number, 'node')} connected after {now - begin:.0f} s; {words}"
        )
        patience = max(limit, CONNECT_TIME) if any(missing.values()) else limit
        if now - changed >= patience:
            raise ClusterError(news, key="not-connected")
        if now >= due:
            print(news, flush=True)
            due = now + NEWS
        left = limit - (now - changed)
        time.sleep(min(PAUSE, left) if left > 0 else PAUSE)


CONNECT_TIME = 600.0
"""Seconds that a SuperNode on this machine has to connect: its imports take minutes on a busy
one."""

NOT_HERE = "has not connected (its log has the reason)"
"""The state of a node on another machine, or without a process on this one."""


def _missing_nodes(folder: ServerFolder) -> tuple[int, dict[str, str], str]:
    """The number of connected nodes; by its name what each other one does, as far as it runs on
    this machine; and the reason why the server cannot be asked."""
    from curvfed.extensions.cluster.commands.link import check_server  # imports Flower

    try:
        check_server(folder)
        nodes = registry.heard_nodes(folder)
    except ClusterError as error:
        return 0, {}, " ".join(str(error).partition(BY)[0].split())
    online = sum(node["status"] == "online" for node in nodes)
    missing = {}
    for node in nodes:
        if node["status"] != "online":
            name = node.get("name") or node.get("node-id", "a node")
            missing[name] = folder.node(name).current_step()
    return online, missing, ""


def show(folder: ServerFolder) -> int:
    """Print the status; the exit status, 0 if the SuperLink answers and no check finds a fault."""
    from curvfed.extensions.cluster.commands.checks import (
        STATUS,
        run_checks,
        server_checks,
    )

    faults = run_checks(server_checks(folder), STATUS)
    if not faults or _answers(folder):
        _print_tables(folder)
    return 1 if faults else 0


def _answers(folder: ServerFolder) -> bool:
    """Whether the SuperLink of this folder can be asked."""
    from curvfed.extensions.cluster.commands.link import check_server  # imports Flower

    try:
        check_server(folder)
    except ClusterError:
        return False
    return True


def _print_tables(folder: ServerFolder) -> None:
    """Print the registered nodes and the last runs."""
    flwr(folder, "supernode", "list").show()
    nodes = registry.heard_nodes(folder)
    runs = flwr(folder, "list").show().ask()["runs"]
    rows = []
    for node in nodes:
        since = node["online-at"] if node["status"] == "online" else node["offline-at"]
        rows.append((node["name"] or "–", node["node-id"], node["status"], since or ""))
    print_rows(("node", "id", "state", "since"), rows)
    run_rows = _run_rows(runs[:LAST_RUNS], registry.read_names(folder, registry.RUNS))
    if run_rows:
        print_rows(("run", "state", "started", "took", "notes"), run_rows)


def _run_rows(
    runs: Sequence[Mapping[str, Any]], names: Mapping[str, str]
) -> list[tuple[str, str, str, str, str]]:
    """The row of each run of Flower's list, the latest first; `names` has their directories.

    The results in a directory are those of the last run that wrote there: a run that was resumed
    has the details of Flower alone.
    """
    rows = []
    seen: set[Path] = set()
    for run in runs:
        took = str(datetime.timedelta(seconds=round(run["elapsed"])))
        details = run["status-details"].partition("\n")[0].removeprefix("N/A")
        details = details.removeprefix("ServerApp failed with exception: ")
        state = run["status"].removeprefix("finished:")
        directory = Path(names.get(run["run-id"], run["run-id"]))
        notes = "" if directory in seen else _notes(directory, state)
        seen.add(directory)
        rows.append((directory.name, state, run["pending-at"], took, _shortened(notes or details)))
    return rows


def _notes(directory: Path, state: str) -> str:
    """The error of a failed run, or else the warnings of an ended one, such as of missing or
    outlying clients, if its results are here; empty if they are of another run in this folder,
    which ended in another way or has not ended."""
    from curvfed.server_app.directory.run_files import RunFiles  # its import takes a while

    summary = RunFiles(directory).summary
    if ENDS.get(state) != str(summary.get("status")).partition(" ")[0]:
        return ""
    return summary.get("error") or "; ".join(map(str, summary.get("warnings", [])))


def _shortened(notes: str) -> str:
    """Notes that leave the other columns room; the run's own files have the rest."""
    return notes if len(notes) <= LONGEST_NOTES else f"{notes[: LONGEST_NOTES - 1]}…"


ANY_PART = "partition-id=0 num-partitions=1"
"""The configuration for a node without one."""


def _without_config() -> str:
    raise ClusterError(
        "this node was not started from this folder, so its data, state-path, device and keys are"
        " not known, and not checked; give the --node-config of `curvfed cluster supernode`",
        key="node-config",
    )


def doctor(
    ctx: typer.Context,
    node: Node = None,
    node_config: NodeConfig = "",
    superlink: SuperLink = None,
    results: Annotated[
        Path | None,
        typer.Option(
            parser=expanded, metavar="DIR", help="The server's runs; default: ~/curvfed/results."
        ),
    ] = None,
    restore: Annotated[
        bool,
        typer.Option("--restore", help="First replace a damaged superlink.db by its backup."),
    ] = False,
) -> None:
    """Check the server or a node, and print faults and remedies; exit status 1 if there is a
    fault."""
    from curvfed.extensions.cluster.commands.checks import (
        DOCTOR,
        Check,
        node_checks,
        run_checks,
        server_checks,
    )
    from curvfed.extensions.cluster.commands.node_config import read_config

    if node is not None:
        folder = ServerFolder(ctx.obj).find_node(node)
        text = node_config or folder.last_config()
        config = read_config(text or ANY_PART, folder.policy)
        checks = node_checks(folder, config, superlink or folder.superlink)
        if not text:
            checks.append(Check("node-config", _without_config))
    else:
        server = open_folder(ctx)
        if restore:
            database.restore_database(server)
        checks = server_checks(server, results)
    wrong = run_checks(checks, DOCTOR)
    print(f"found wrong: {wrong}")
    raise typer.Exit(int(wrong > 0))
