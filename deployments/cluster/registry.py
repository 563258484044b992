"""The registered nodes, and the names of nodes and runs: Flower's lists have only ids."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.cluster.flower_commands import flwr
from curvfed.deployments.cluster.folder import ServerFolder
from curvfed.deployments.cluster.ledger import user
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


def read_names(folder: ServerFolder, file: str = NODES) -> dict[str, str]:
    """The stored names of nodes or of runs."""
    try:
        names: dict[str, str] = json.loads((folder.path / file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return names


def write_names(folder: ServerFolder, names: Mapping[str, str], file: str = NODES) -> None:
    """Store names for later commands."""
    write_atomically(folder.path / file, json.dumps(names, indent=1).encode())


def registered_nodes(folder: ServerFolder) -> list[dict[str, Any]]:
    """Flower's entry of each registered node, with its `name`. Revoked nodes, which Flower lists
    forever, are left out.

    Raises
    ------
    ClusterError
        If the SuperLink does not answer.
    """
    names = {identity: name for name, identity in read_names(folder).items()}
    nodes = flwr(folder, "supernode", "list").ask()["nodes"]
    return [
        node | {"name": names.get(node["node-id"], "")}
        for node in nodes
        if node["status"] != "unregistered"
    ]


def check_registered(folder: ServerFolder) -> str:
    """Report that all nodes whose keys were made here are registered.

    Raises
    ------
    ClusterError
    """
    ids = read_names(folder)
    missing = [node.name for node in folder.nodes() if node.name not in ids]
    if missing:
        raise ClusterError(f"not registered: {', '.join(missing)}", key="not-registered")
    return f"{len(ids)} nodes"


def check_nodes(folder: ServerFolder) -> str:
    """Report that all registered nodes are connected.

    Raises
    ------
    ClusterError
    """
    nodes = registered_nodes(folder)
    offline = [
        f"{node['name'] or node['node-id']} since {node['offline-at'] or 'ever'}"
        for node in nodes
        if node["status"] != "online"
    ]
    if offline:
        raise ClusterError(f"not connected: {', '.join(offline)}", key="not-connected")
    return f"{len(nodes)} connected"


def add_names(folder: ServerFolder, text: str) -> str:
    """A text, followed by the names of the nodes whose ids it has."""
    names = [
        f"{identity} is {name}"
        for name, identity in read_names(folder).items()
        if re.search(rf"\b{identity}\b", text)
    ]
    return f"{text} ({', '.join(names)})" if names else text


def ledger_path(folder: ServerFolder) -> Path:
    """The server's ledger, with a line for each action on nodes and runs."""
    return folder.path / "ledger-server.jsonl"


def audit(folder: ServerFolder, kind: str, name: str, **fields: str) -> None:
    """Add a line to the server's ledger: an action on a node or a run, and the user of this
    machine."""
    from curvfed.client_app.node.ledger import Ledger  # imports Flower

    Ledger(ledger_path(folder)).append(kind, run=name, by=user(), **fields)
