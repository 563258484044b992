"""The registered nodes, and the names of nodes and runs: Flower's lists have only ids."""

import getpass
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from curvfed.client_app.node.ledger import REGISTERED, REVOKED, Ledger
from curvfed.deployments.cluster import database
from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.cluster.flower_commands import flwr
from curvfed.deployments.cluster.folder import ServerFolder
from curvfed.tasks.stored_files import write_atomically

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
    Ledger(ledger_path(folder)).append(
        kind, run=name, by=os.environ.get("SUDO_USER") or getpass.getuser(), **fields
    )


def register(folder: ServerFolder, nodes: Sequence[str]) -> None:
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
        command = flwr(
            folder,
            "supernode",
            "register",
            key.absolute(),
            options=["--name", name, "--format", "json"],
        )
        try:
            ids[name] = str(command.show().ask()["node-id"])
        except ClusterError as error:
            if "already in use" not in str(error):
                raise
            raise ClusterError(
                f"{error}\nA revoked key is never accepted again; once its folder is removed,"
                f" `add {name}` makes a new one",
                key="revoked-key",
            ) from None
        write_names(folder, ids)
        database.back_up(folder)
        audit(folder, REGISTERED, name, node=ids[name])
        print(f"registered: {name} as {ids[name]}")


def revoke(folder: ServerFolder, nodes: Sequence[str]) -> None:
    """Exclude nodes from the cluster, by name or by Flower's id.

    Raises
    ------
    ClusterError
        If one is not registered.
    """
    ids = read_names(folder)
    for node in nodes:
        identity = ids.get(node, node)
        if not identity.isdigit():
            raise ClusterError(
                f"{node} is not registered; registered are {', '.join(ids) or 'none'}",
                key="not-registered",
            )
        flwr(folder, "supernode", "unregister", identity).show().ask()
        ids = {name: value for name, value in ids.items() if value != identity}
        write_names(folder, ids)
        database.back_up(folder)
        audit(folder, REVOKED, node, node=identity)
        print(f"revoked: {node}")
