"""The folders of a cluster: one on the server, and one on each node."""

import os
import tomllib
from pathlib import Path
from typing import Any

from curvfed.deployments.cluster.errors import ClusterError
from curvfed.strategies.base.keys import toml_text

CONNECTION = "cluster"
"""The name of the SuperLink in Flower's own configuration."""

SETTINGS = "cluster.toml"

FLEET_PORT = 9092
API_PORT = 8000
"""Flower's own default ports: for nodes, and for runs and registrations."""


class NodeFolder:
    """The folder of a node.

    Attributes
    ----------
    path : Path
    name : str
        The name under which the node is registered.
    key, public_key : Path
        The key pair that authenticates the node; the public key is registered at the server.
    authority : Path
        The certificate that authenticates the SuperLink.
    policy : Path
        The node's own rules (`curvfed.client_app.node.policy`).
    flower_home : Path
        FLWR_HOME of the SuperNode.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self.key = path / "node.key"
        self.public_key = path / "node.key.pub"
        self.authority = path / "ca.crt"
        self.policy = path / "policy.toml"
        self.flower_home = path / "flwr"

    @property
    def superlink(self) -> str:
        """The address of the SuperLink, host:port.

        Raises
        ------
        ClusterError
            If this is no node's folder.
        """
        return str(_read(self.path / "node.toml", "curvfed cluster init --node NAME")["superlink"])


class ServerFolder:
    """The folder of the server.

    Attributes
    ----------
    path : Path
    fleet_port, api_port : int
        Ports of the SuperLink, for nodes and for runs and registrations.
    authority, server : tuple of Path
        Certificate and key.
    database, database_backup : Path
        The SuperLink's records of nodes and runs.
    flower_home : Path
        FLWR_HOME of the SuperLink and of the commands that connect to it.
    """

    def __init__(self, path: Path, fleet_port: int = FLEET_PORT, api_port: int = API_PORT) -> None:
        self.path = path
        self.fleet_port = fleet_port
        self.api_port = api_port
        self.authority = path / "ca.crt", path / "ca.key"
        self.server = path / "server.crt", path / "server.key"
        self.database = path / "superlink.db"
        self.database_backup = path / "superlink.backup.db"
        self.flower_home = path / "flwr"

    @property
    def superlink(self) -> str:
        """The address of the SuperLink for new nodes, host:port."""
        return str(_read(self.path / SETTINGS, "curvfed cluster init")["superlink"])

    def node(self, name: str) -> NodeFolder:
        """The folder of a node whose key was made here."""
        return NodeFolder(self.path / "nodes" / name)

    def nodes(self) -> list[NodeFolder]:
        """The folders of all nodes whose keys were made here, by name."""
        return [
            NodeFolder(path)
            for path in sorted((self.path / "nodes").glob("[!.]*"))
            if path.is_dir()
        ]

    def find_node(self, name: str) -> NodeFolder:
        """Find a node by the path of its folder, or by its name in this folder.

        Raises
        ------
        ClusterError
            If there is no such node.
        """
        path = Path(name).expanduser().absolute()
        for node in (NodeFolder(path), self.node(name)):
            if node.path.is_dir():
                return node
        names = ", ".join(node.name for node in self.nodes()) or "none"
        raise ClusterError(
            f"there is no folder {path}, and no node {name!r} in {self.path}; there: {names}",
            key="no-node",
        )

    @classmethod
    def open(cls, path: Path) -> "ServerFolder":
        """Open a cluster that `curvfed cluster init` made.

        Raises
        ------
        ClusterError
            If there is none.
        """
        settings = _read(path / SETTINGS, "curvfed cluster init")
        return cls(path, int(settings["fleet-port"]), int(settings["api-port"]))


def check_files(node: NodeFolder) -> str:
    """Report that a node's folder has its key and certificate.

    Raises
    ------
    ClusterError
    """
    for path in (node.key, node.authority):
        if not path.is_file():
            raise ClusterError(f"there is no {path}", key="missing-file")
        if not os.access(path, os.R_OK):
            raise ClusterError(f"this user may not read {path}", key="unreadable")
    return f"{node.path}: key and certificate"


def _read(path: Path, command: str) -> dict[str, Any]:
    try:
        return tomllib.loads(toml_text(path.read_bytes()))
    except FileNotFoundError:
        raise ClusterError(
            f"there is no {path}; `{command}` makes it", key="missing-file"
        ) from None
    except (OSError, ValueError) as error:
        raise ClusterError(f"{path} cannot be read: {error}", key="unreadable") from None
