"""Where a cluster lies on a disk: one folder on the server, and one on each node."""

import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from deployments.cluster import certificates
from deployments.cluster.errors import ClusterError

CONNECTION = "cluster"
"""The name of the SuperLink in Flower's own configuration."""

FLEET_PORT, API_PORT = 9092, 8000
"""Flower's own defaults: for nodes, and for runs and registrations."""


@dataclass(frozen=True)
class ServerFolder:
    """The server's folder.

    Attributes
    ----------
    path : Path
    fleet_port, api_port : int
        Of the SuperLink: for its nodes, and for runs and registrations.
    """

    path: Path
    fleet_port: int = FLEET_PORT
    api_port: int = API_PORT

    @property
    def authority(self) -> tuple[Path, Path]:
        """Certificate and key."""
        return self.path / "ca.crt", self.path / "ca.key"

    @property
    def server(self) -> tuple[Path, Path]:
        """Certificate and key."""
        return self.path / "server.crt", self.path / "server.key"

    @property
    def flower_home(self) -> Path:
        """FLWR_HOME of the SuperLink and of the commands that talk to it."""
        return self.path / "flwr"

    @property
    def database(self) -> Path:
        """What the SuperLink remembers: nodes and runs."""
        return self.path / "superlink.db"

    @property
    def running(self) -> Path:
        """Process ids and logs."""
        return self.path / "running"

    def node(self, name: str) -> "NodeFolder":
        """The folder of a node whose key was made here."""
        return NodeFolder(self.path / "nodes" / name)

    def nodes(self) -> "list[NodeFolder]":
        """Of all nodes whose keys were made here, by name."""
        return [NodeFolder(path) for path in sorted((self.path / "nodes").glob("*")) if path.is_dir()]

    @classmethod
    def make(
        cls, path: Path, names: Sequence[str], nodes: Sequence[str], fleet_port: int, api_port: int, days: int
    ) -> "ServerFolder":
        """Certificates, keys and settings of a new cluster.

        Raises
        ------
        ClusterError
            If the folder has one already.
        """
        folder = cls(path, fleet_port, api_port)
        if (path / "cluster.toml").exists() or folder.authority[0].exists():
            raise ClusterError(f"{path} holds a cluster already and is not overwritten; allowed is another --folder")
        # All that can be wrong is looked at first: half a cluster would stand in the way of a whole one.
        for name in nodes:
            _check_name(name)
        if len(set(nodes)) < len(nodes):
            raise ClusterError(f"nodes {', '.join(nodes)}: two have one name")
        certificates.check_names(names)
        if days < 1:
            raise ClusterError(f"days is {days}; allowed is 1 or more")
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.chmod(0o700)  # it may have been there
        certificates.make_authority(*folder.authority)
        certificates.make_server(*folder.server, folder.authority, names, days)
        address = f"{names[0] if names else certificates.LOOPBACK[0]}:{fleet_port}"
        for name in nodes:
            folder.add_node(name, address)
        connection = {"address": f"127.0.0.1:{api_port}", "root-certificates": str(folder.authority[0].absolute())}
        flower = {"superlink": {"default": CONNECTION, CONNECTION: connection}}
        certificates.write_new(folder.flower_home / "config.toml", tomli_w.dumps(flower).encode())
        settings = {"superlink": address, "fleet-port": fleet_port, "api-port": api_port}
        certificates.write_new(path / "cluster.toml", tomli_w.dumps(settings).encode())
        return folder

    @classmethod
    def open(cls, path: Path) -> "ServerFolder":
        """A cluster that `make` made.

        Raises
        ------
        ClusterError
            If there is none.
        """
        settings = _read(path / "cluster.toml", "python -m deployments.cluster init")
        return cls(path, int(settings["fleet-port"]), int(settings["api-port"]))

    def add_node(self, name: str, address: str = "") -> "NodeFolder":
        """A node's folder, to be brought to its machine: its key, the authority's certificate, the SuperLink's address."""
        _check_name(name)
        node = self.node(name)
        if node.path.exists():
            raise ClusterError(f"{node.path} exists and is not overwritten; allowed is another name")
        address = address or str(_read(self.path / "cluster.toml", "init")["superlink"])
        node.path.mkdir(parents=True, mode=0o700)
        node.flower_home.mkdir(mode=0o700)  # the rest may be mounted read-only
        certificates.make_node_key(node.key, node.public_key)
        certificates.write_new(node.authority, self.authority[0].read_bytes())
        certificates.write_new(node.path / "node.toml", tomli_w.dumps({"superlink": address}).encode())
        return node

    def renew(self, names: Sequence[str], days: int) -> None:
        """A new server certificate by the same authority, by default for the names of before; nodes need nothing new."""
        names = names or certificates.names_of(self.server[0])
        certificates.check_names(names)
        if days < 1:
            raise ClusterError(f"days is {days}; allowed is 1 or more")
        certificate, key = (path.with_name(f"{path.name}.new") for path in self.server)
        for path in (certificate, key):
            path.unlink(missing_ok=True)
        certificates.make_server(certificate, key, self.authority, names, days)
        os.replace(certificate, self.server[0])
        os.replace(key, self.server[1])


@dataclass(frozen=True)
class NodeFolder:
    """A node's folder."""

    path: Path

    @property
    def name(self) -> str:
        """By which it is registered."""
        return self.path.name

    @property
    def key(self) -> Path:
        """Private."""
        return self.path / "node.key"

    @property
    def public_key(self) -> Path:
        """To be registered at the server."""
        return self.path / "node.key.pub"

    @property
    def authority(self) -> Path:
        """The certificate by which the node knows the SuperLink."""
        return self.path / "ca.crt"

    @property
    def flower_home(self) -> Path:
        """FLWR_HOME of the SuperNode."""
        return self.path / "flwr"

    @property
    def running(self) -> Path:
        """Process id and log."""
        return self.path / "running"

    @property
    def superlink(self) -> str:
        """Address of the SuperLink, host:port.

        Raises
        ------
        ClusterError
            If this is no node's folder.
        """
        return str(_read(self.path / "node.toml", "python -m deployments.cluster init --node NAME")["superlink"])


def _read(path: Path, command: str) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ClusterError(f"there is no {path}; it is made by `{command}`") from None
    except (OSError, ValueError) as error:
        raise ClusterError(f"{path} cannot be read: {error}") from None


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,63}", name):
        raise ClusterError(f"{name!r} is no name of a node; allowed are letters, digits, '.', '_' and '-'")
