"""The nodes of the SuperLink, which `curvfed cluster register` and `revoke` accept and exclude."""

import contextlib
import datetime
import json
import re
import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from curvfed.extensions.cluster.commands import ClusterError
from curvfed.extensions.cluster.commands.database import back_up_database
from curvfed.extensions.cluster.commands.flower_commands import SILENT, Command, flwr
from curvfed.extensions.cluster.commands.folder import ServerFolder, cluster_command, open_folder
from curvfed.extensions.cluster.commands.ledger import user
from curvfed.tasks.amounts import amount
from curvfed.tasks.stored_files import write_atomically

REGISTERED = "registered"
REVOKED = "revoked"
RUN = "run"
RESUMED = "resumed"
"""Kinds of lines in the server's ledger."""

NODES = "registered.json"
RUNS = "runs.json"
"""Files in the server's folder: the id of each node by its name, and the name of each run by its
id."""

UNHEARD = "not heard since the SuperLink started"
"""Words for a node that Flower still counts as online after a restart."""

NOT_FOUND = "Node ID not found"
"""Flower's words for a node that is not registered, or not any more."""

SUPERLINK_START = 120.0
PAUSE = 1.0
"""Seconds to wait for a SuperLink that starts, and between two attempts. On a busy machine Flower's
imports take half a minute."""


def read_names(folder: ServerFolder, file: str = NODES) -> dict[str, str]:
    """The stored names of nodes or of runs; empty before the first.

    Raises
    ------
    ClusterError
        If the file of the nodes is damaged: the next registration would lose their ids.
    """
    path = folder.path / file
    try:
        names: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
            raise ValueError("it is no table of names and ids")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        if file != NODES:
            return {}
        raise ClusterError(
            f"{path} cannot be read ({error}): put a backup of it there, or write it anew as"
            f' {{"NAME": "ID"}}, with the ids in {ledger_path(folder)}; nothing was changed',
            key="damaged-names",
        ) from None
    return names


def registered_remedy(folder: ServerFolder) -> str:
    """The remedy for nodes that are not registered; empty if an error has another one."""
    try:
        read_names(folder)
    except ClusterError:
        return ""
    return f"`{cluster_command('register', folder.path)}` lets them take part"


def write_names(folder: ServerFolder, names: Mapping[str, str], file: str = NODES) -> None:
    """Store names for later commands."""
    write_atomically(folder.path / file, json.dumps(names, indent=1).encode())


def registered_nodes(folder: ServerFolder) -> list[dict[str, Any]]:
    """Flower's entry of each registered node, with its `name`. Revoked nodes, which Flower lists
    forever, are left out.

    Raises
    ------
    ClusterError
        If the SuperLink does not answer, or the file of their names is damaged.
    """
    names = {identity: name for name, identity in read_names(folder).items()}
    nodes = flwr(folder, "supernode", "list").ask()["nodes"]
    return [
        node | {"name": names.get(node["node-id"], "")}
        for node in nodes
        if node["status"] != "unregistered"
    ]


def heard_nodes(folder: ServerFolder) -> list[dict[str, Any]]:
    """The registered nodes, where those that this SuperLink has not heard since its start are
    offline since then, with "unheard": Flower counts them as online for a minute.

    Raises
    ------
    ClusterError
        If the SuperLink does not answer.
    """
    nodes = registered_nodes(folder)
    try:
        started = datetime.datetime.fromtimestamp(_start_file(folder).stat().st_mtime, datetime.UTC)
        silent = _last_heard_before(started.timestamp(), folder.database)
    except (OSError, sqlite3.Error):
        return nodes
    gone = {"status": "offline", "offline-at": f"{started:%Y-%m-%d %H:%M:%SZ}", "unheard": True}
    return [
        node | gone if node["status"] == "online" and node["node-id"] in silent else node
        for node in nodes
    ]


def _last_heard_before(time: float, database: Path) -> set[str]:
    """Flower's ids of the nodes whose last heartbeat is older than a time, in seconds of Unix."""
    from flwr.common.constant import HEARTBEAT_PATIENCE

    connection = sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)
    with contextlib.closing(connection):
        rows = connection.execute(
            "SELECT node_id FROM node WHERE online_until - ? * heartbeat_interval < ?",
            (HEARTBEAT_PATIENCE, time),
        ).fetchall()
    return {str(identity % 2**64) for (identity,) in rows}  # stored with a sign


def note_start(folder: ServerFolder) -> None:
    """Store the time at which a SuperLink starts."""
    with contextlib.suppress(OSError):
        _start_file(folder).touch()


def _start_file(folder: ServerFolder) -> Path:
    return folder.flower_home / "started"


def check_registered(folder: ServerFolder) -> str:
    """Report that all nodes with keys made here are registered.

    Raises
    ------
    ClusterError
    """
    ids = read_names(folder)
    missing = [node.name for node in folder.nodes() if node.name not in ids]
    if missing:
        raise ClusterError(f"not registered: {', '.join(missing)}", key="not-registered")
    return amount(len(ids), "node")


def check_nodes(folder: ServerFolder) -> str:
    """Report that all registered nodes are connected.

    Raises
    ------
    ClusterError
    """
    nodes = heard_nodes(folder)
    offline = [
        f"{node['name'] or node['node-id']} since {node['offline-at'] or 'ever'}"
        for node in nodes
        if node["status"] != "online"
    ]
    if offline:
        raise ClusterError(f"not connected: {', '.join(offline)}", key="not-connected")
    return f"{len(nodes)} connected"


def add_names(folder: ServerFolder, text: str) -> str:
    """A text, followed by the names of the nodes with ids in it, if these can be read."""
    ids: dict[str, str] = {}
    with contextlib.suppress(ClusterError):
        ids = read_names(folder)
    names = [
        f"{identity} is {name}"
        for name, identity in ids.items()
        if re.search(rf"\b{identity}\b", text)
    ]
    if names:
        return f"{text} ({', '.join(names)})"
    return text


def ledger_path(folder: ServerFolder) -> Path:
    """The server's ledger, with a line for each action on nodes and runs."""
    return folder.path / "ledger-server.jsonl"


def audit(folder: ServerFolder, kind: str, name: str, **fields: str) -> None:
    """Add a line to the server's ledger: an action on a node or a run, and the user of this
    machine."""
    from curvfed.client_app.node.ledger import Ledger  # imports Flower

    Ledger(ledger_path(folder)).append(kind, run=name, by=user(), **fields)


def register(
    ctx: typer.Context,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="[NAME|FILE.pub]...")] = None,
) -> None:
    """Register nodes, by their names or public keys; default: all nodes of init. A SuperLink that
    starts is waited for."""
    register_nodes(open_folder(ctx, is_changed=True), nodes or [])


def register_nodes(folder: ServerFolder, nodes: Sequence[str]) -> None:
    """Register nodes by name or by the files of their public keys; by default all nodes of the
    folder.

    Raises
    ------
    ClusterError
        If a key is missing, or Flower refuses it.
    """
    ids = read_names(folder)
    names = list(nodes) or [node.name for node in folder.nodes() if node.name not in ids]
    if not names:
        print("nothing to register: every node of this folder is registered")
    for name in names:
        key = folder.node(name).public_key
        if name.endswith(".pub"):
            key = Path(name).expanduser()
            name = key.name.removesuffix(".pub").removesuffix(".key")
        if not key.is_file():
            raise ClusterError(f"there is no public key {key}", key="missing-file")
        if name in ids:
            raise ClusterError(
                f"{name} is registered already, as {ids[name]}; `revoke {name}` undoes it",
                key="registered",
            )
        options = ["--name", name, "--format", "json"]
        command = flwr(folder, "supernode", "register", key.absolute(), options=options)
        try:
            ids[name] = str(_ask(command.show())["node-id"])
        except ClusterError as error:
            if "already in use" not in str(error):
                raise
            raise ClusterError(
                f"{error}\nA revoked key is never accepted again; once its folder is removed,"
                f" `add {name}` makes a new one",
                key="revoked-key",
            ) from None
        write_names(folder, ids)
        back_up_database(folder)
        audit(folder, REGISTERED, name, node=ids[name])
        print(f"registered: {name} as {ids[name]}")


def _ask(command: Command) -> dict[str, Any]:
    """The answer to a command, which a SuperLink that starts may give later."""
    deadline = time.monotonic() + SUPERLINK_START
    announced = False
    while True:
        try:
            return command.ask()
        except ClusterError as error:
            if error.kind != SILENT or time.monotonic() > deadline:
                raise
        if not announced:
            print(f"waiting up to {SUPERLINK_START:g} s for the SuperLink", flush=True)
            announced = True
        time.sleep(PAUSE)


def revoke(
    ctx: typer.Context,
    nodes: Annotated[list[str], typer.Argument(metavar="NAME...")],
) -> None:
    """Exclude nodes permanently, by their names or by Flower's ids."""
    folder = open_folder(ctx, is_changed=True)
    ids = read_names(folder)
    for node in nodes:
        identity = ids.get(node, node)
        if not identity.isdigit():
            raise ClusterError(
                f"{node} is not registered; registered are {', '.join(ids) or 'none'}",
                key="not-registered",
            )
        try:
            flwr(folder, "supernode", "unregister", identity).show().ask()
        except ClusterError as error:
            # Revoked by Flower's own command, or by one that was killed before the next line.
            if node not in ids or NOT_FOUND not in str(error):
                raise
        ids = {name: value for name, value in ids.items() if value != identity}
        write_names(folder, ids)
        back_up_database(folder)
        audit(folder, REVOKED, node, node=identity)
        print(f"revoked: {node}")
