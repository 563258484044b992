"""The folders of a cluster: one on the server, and one on each node."""

import os
import re
import shutil
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

from curvfed.deployments.cluster import certificates
from curvfed.deployments.cluster.errors import ClusterError, WrongUsageError
from curvfed.deployments.cluster.policy_file import POLICY
from curvfed.deployments.cluster.ports import API_PORT, FLEET_PORT
from curvfed.strategies.base.dotted import toml_text

CONNECTION = "cluster"
"""The name of the SuperLink in Flower's own configuration."""

SETTINGS = "cluster.toml"
PARTS = ("ca.crt", "ca.key", "server.crt", "server.key", "nodes", "flwr", SETTINGS)
"""The files and folders that `make` writes."""


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
    running : Path
        Folder of its process id and log.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self.key = path / "node.key"
        self.public_key = path / "node.key.pub"
        self.authority = path / "ca.crt"
        self.policy = path / "policy.toml"
        self.flower_home = path / "flwr"
        self.running = path / "running"

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
    running : Path
        Folder of its process id and log.
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
        self.running = path / "running"

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
    def make(
        cls,
        path: Path,
        names: Sequence[str],
        nodes: Sequence[str],
        fleet_port: int,
        api_port: int,
        days: int,
    ) -> "ServerFolder":
        """Make the certificates, keys and settings of a new cluster.

        The settings are first written under another name and renamed at the end. Until then the
        folder is no cluster, and the next call removes the files of a killed process.

        Raises
        ------
        ClusterError
            If the folder has a cluster already.
        WrongUsageError
            If names, days or ports cannot be those of a cluster.
        """
        folder = cls(path, fleet_port, api_port)
        settings = path / SETTINGS
        unfinished = path / f".{SETTINGS}"
        existing = [name for name in PARTS if (path / name).exists()]
        if settings.exists() or (existing and not unfinished.exists()):
            raise ClusterError(
                f"{path} holds a cluster already, {', '.join(existing)}, and is not overwritten;"
                " allowed is another --folder",
                key="exists",
            )
        for name in nodes:
            _check_name(name)
        if len(set(nodes)) < len(nodes):
            raise WrongUsageError(f"nodes {', '.join(nodes)}: two have one name", key="node-name")
        certificate_names = certificates.server_names(names)
        certificates.check_days(days)
        if fleet_port == api_port:
            raise WrongUsageError(
                f"fleet-port and api-port are both {api_port}; allowed are two different ones",
                key="ports",
            )
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.chmod(0o700)  # the folder may have existed
        for name in existing:
            _remove(path / name)
        unfinished.unlink(missing_ok=True)
        address = f"{names[0] if names else certificates.LOOPBACK[0]}:{fleet_port}"
        ports = {"superlink": address, "fleet-port": fleet_port, "api-port": api_port}
        certificates.write_new(unfinished, tomli_w.dumps(ports).encode())
        certificates.make_authority(*folder.authority)
        certificates.make_server(*folder.server, folder.authority, certificate_names, days)
        (path / "nodes").mkdir(mode=0o700)
        for name in nodes:
            folder.add_node(name, address)
        connection = {
            "address": f"127.0.0.1:{api_port}",
            "root-certificates": str(folder.authority[0].absolute()),
        }
        flower = {"superlink": {"default": CONNECTION, CONNECTION: connection}}
        certificates.write_new(folder.flower_home / "config.toml", tomli_w.dumps(flower).encode())
        unfinished.rename(settings)
        return folder

    @classmethod
    def open(cls, path: Path) -> "ServerFolder":
        """Open a cluster that `make` made.

        Raises
        ------
        ClusterError
            If there is none.
        """
        settings = _read(path / SETTINGS, "curvfed cluster init")
        return cls(path, int(settings["fleet-port"]), int(settings["api-port"]))

    def add_node(self, name: str, address: str = "") -> NodeFolder:
        """Make the folder of a node: key, policy, the authority's certificate, the SuperLink's
        address."""
        _check_name(name)
        node = self.node(name)
        if node.path.exists():
            raise ClusterError(
                f"{node.path} exists and is not overwritten; allowed is another name", key="exists"
            )
        address = address or str(_read(self.path / SETTINGS, "init")["superlink"])
        new = NodeFolder(node.path.with_name(f".{name}.new"))
        _remove(new.path)  # a killed process may have left it
        new.path.mkdir(parents=True, mode=0o700)
        new.flower_home.mkdir(mode=0o700)  # the rest may be mounted read-only
        certificates.make_node_key(new.key, new.public_key)
        certificates.write_new(new.authority, self.authority[0].read_bytes())
        certificates.write_new(new.policy, POLICY.encode())
        certificates.write_new(
            new.path / "node.toml", tomli_w.dumps({"superlink": address}).encode()
        )
        new.path.rename(node.path)
        return node

    def renew(self, names: Sequence[str], days: int) -> None:
        """Make a new server certificate by the same authority, by default for the same names. Nodes
        need no change."""
        old = certificates.names_of(self.server[0])
        certificate_names = certificates.server_names(names) if names else old
        certificates.check_days(days, certificates.time_left(self.authority[0]).days)
        certificate, key = (path.with_name(f"{path.name}.new") for path in self.server)
        for path in (certificate, key):
            path.unlink(missing_ok=True)
        certificates.make_server(certificate, key, self.authority, certificate_names, days)
        os.replace(certificate, self.server[0])
        os.replace(key, self.server[1])


def _read(path: Path, command: str) -> dict[str, Any]:
    try:
        return tomllib.loads(toml_text(path.read_bytes()))
    except FileNotFoundError:
        raise ClusterError(
            f"there is no {path}; `{command}` makes it", key="missing-file"
        ) from None
    except (OSError, ValueError) as error:
        raise ClusterError(f"{path} cannot be read: {error}", key="unreadable") from None


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,63}", name):
        raise WrongUsageError(
            f"{name!r} is no name of a node; allowed are letters, digits, '.', '_' and '-'",
            key="node-name",
        )


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
