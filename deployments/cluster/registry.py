"""Which nodes may take part: names and Flower's ids."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from curvfed.deployments.cluster import commands
from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.cluster.folder import ServerFolder
from curvfed.tasks.atomic_file import write_atomically


def known(folder: ServerFolder) -> dict[str, str]:
    """Flower's id of each registered node, by name: Flower keeps the names to itself."""
    try:
        found: dict[str, str] = json.loads(_file(folder).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def present(folder: ServerFolder) -> list[dict[str, Any]]:
    """What Flower tells of each registered node; in its own list those that were revoked stay for ever.

    Raises
    ------
    ClusterError
        If the SuperLink does not answer.
    """
    nodes = commands.list_nodes(folder).ask()["nodes"]
    return [node for node in nodes if node["status"] != "unregistered"]


def named(folder: ServerFolder, text: str) -> str:
    """A text that has Flower's ids of nodes, with the names of these nodes after it."""
    who = [f"{identity} is {name}" for name, identity in known(folder).items() if re.search(rf"\b{identity}\b", text)]
    return f"{text} ({', '.join(who)})" if who else text


def register(folder: ServerFolder, nodes: Sequence[str]) -> None:
    """Register nodes by name, or by the files of their public keys; all of the folder's by default.

    Raises
    ------
    ClusterError
        If a key is not there, or Flower refuses it.
    """
    ids = known(folder)
    names = list(nodes) or [node.name for node in folder.nodes() if node.name not in ids]
    if not names:
        print("nothing to register: every node of this folder is")
    for given in names:
        key = Path(given).expanduser() if given.endswith(".pub") else folder.node(given).public_key
        name = key.name.removesuffix(".pub").removesuffix(".key") if given.endswith(".pub") else given
        if not key.is_file():
            raise ClusterError(f"there is no public key {key}")
        if name in ids:
            raise ClusterError(f"{name} is registered already, as {ids[name]}; `revoke {name}` undoes it")
        try:
            ids[name] = str(commands.register(folder, key.absolute(), name).show().ask()["node-id"])
        except ClusterError as error:
            if "already in use" not in str(error):
                raise
            raise ClusterError(
                f"{error}\nA revoked key is never taken again; without its folder `add {name}` makes a new one"
            ) from None
        _write(folder, ids)
        print(f"registered: {name} as {ids[name]}")


def revoke(folder: ServerFolder, nodes: Sequence[str]) -> None:
    """Take nodes' right to take part, by name or by Flower's id.

    Raises
    ------
    ClusterError
        If one is not registered.
    """
    ids = known(folder)
    for given in nodes:
        identity = ids.get(given, given)
        if not identity.isdigit():
            raise ClusterError(f"{given} is not registered; registered are {', '.join(ids) or 'none'}")
        commands.unregister(folder, identity).show().ask()
        ids = {name: value for name, value in ids.items() if value != identity}
        _write(folder, ids)
        print(f"revoked: {given}")


def _file(folder: ServerFolder) -> Path:
    return folder.path / "registered.json"


def _write(folder: ServerFolder, ids: dict[str, str]) -> None:
    write_atomically(_file(folder), json.dumps(ids, indent=1).encode())
