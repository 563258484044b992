"""Where a cluster lies on a disk: one folder on the server, and one on each node."""

import os
import re
import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from curvfed.deployments.cluster import certificates
from curvfed.deployments.cluster.errors import ClusterError, WrongUsageError
from curvfed.deployments.cluster.ports import API_PORT, FLEET_PORT

CONNECTION = "cluster"
"""The name of the SuperLink in Flower's own configuration."""

SETTINGS = "cluster.toml"
PARTS = ("ca.crt", "ca.key", "server.crt", "server.key", "nodes", "flwr", SETTINGS)
"""What is made at first. The settings come last: with them it is a cluster."""


@dataclass(frozen=True)
class _Folder:
    path: Path

    @property
    def flower_home(self) -> Path:
        """FLWR_HOME of the daemon, and of the commands that talk to it."""
        return self.path / "flwr"

    @property
    def running(self) -> Path:
        """Process ids and logs."""
        return self.path / "running"


@dataclass(frozen=True)
class NodeFolder(_Folder):
    """A node's folder."""

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
    def superlink(self) -> str:
        """Address of the SuperLink, host:port.

        Raises
        ------
        ClusterError
            If this is no node's folder.
        """
        return str(_read(self.path / "node.toml", "curvfed cluster init --node NAME")["superlink"])


@dataclass(frozen=True)
class ServerFolder(_Folder):
    """The server's folder.

    Attributes
    ----------
    path : Path
    fleet_port, api_port : int
        Of the SuperLink: for its nodes, and for runs and registrations.
    """

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
    def database(self) -> Path:
        """What the SuperLink remembers: nodes and runs."""
        return self.path / "superlink.db"

    def node(self, name: str) -> NodeFolder:
        """The folder of a node whose key was made here."""
        return NodeFolder(self.path / "nodes" / name)

    def nodes(self) -> list[NodeFolder]:
        """Of all nodes whose keys were made here, by name."""
        return [NodeFolder(path) for path in sorted((self.path / "nodes").glob("[!.]*")) if path.is_dir()]

    def find_node(self, name: str) -> NodeFolder:
        """A node by its folder, or by its name where that lies beside the server's files.

        Raises
        ------
        ClusterError
            If there is none.
        """
        path = Path(name).expanduser().absolute()
        for node in (NodeFolder(path), self.node(name)):
            if node.path.is_dir():
                return node
        names = ", ".join(node.name for node in self.nodes()) or "none"
        raise ClusterError(f"there is no folder {path}, and no node {name!r} in {self.path}; there: {names}")

    @classmethod
    def make(
        cls, path: Path, names: Sequence[str], nodes: Sequence[str], fleet_port: int, api_port: int, days: int
    ) -> "ServerFolder":
        """Certificates, keys and settings of a new cluster; a process that is killed here leaves nothing in its way.

        Raises
        ------
        ClusterError
            If the folder has one already.
        WrongUsageError
            If there can be no such cluster.
        """
        folder, new = cls(path, fleet_port, api_port), cls(path / ".new")
        there = [part for part in PARTS if (path / part).exists()]
        # Beside `.new` and without settings they are those of a process that was killed as it moved them.
        if SETTINGS in there or (there and not new.path.exists()):
            raise ClusterError(
                f"{path} holds a cluster already, {', '.join(there)}, and is not overwritten; allowed is another "
                "--folder"
            )
        for name in nodes:
            _check_name(name)
        if len(set(nodes)) < len(nodes):
            raise WrongUsageError(f"nodes {', '.join(nodes)}: two have one name")
        certificates.check_names(names)
        certificates.check_days(days)
        if fleet_port == api_port:
            raise WrongUsageError(f"fleet-port and api-port are both {api_port}; allowed are two different ones")
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.chmod(0o700)  # it may have been there
        for part in (*there, new.path.name):
            _remove(path / part)
        new._fill(folder, names, nodes, days)
        # Within the folder, which may be a mount and then cannot be replaced as a whole.
        for part in PARTS:
            (new.path / part).rename(path / part)
        new.path.rmdir()
        return folder

    def _fill(self, place: "ServerFolder", names: Sequence[str], nodes: Sequence[str], days: int) -> None:
        """Make all parts here; `place` is where they will be."""
        self.path.mkdir(mode=0o700)
        (self.path / "nodes").mkdir(mode=0o700)
        certificates.make_authority(*self.authority)
        certificates.make_server(*self.server, self.authority, names, days)
        address = f"{names[0] if names else certificates.LOOPBACK[0]}:{place.fleet_port}"
        for name in nodes:
            self.add_node(name, address)
        authority = str(place.authority[0].absolute())
        connection = {"address": f"127.0.0.1:{place.api_port}", "root-certificates": authority}
        flower = {"superlink": {"default": CONNECTION, CONNECTION: connection}}
        certificates.write_new(self.flower_home / "config.toml", tomli_w.dumps(flower).encode())
        settings = {"superlink": address, "fleet-port": place.fleet_port, "api-port": place.api_port}
        certificates.write_new(self.path / SETTINGS, tomli_w.dumps(settings).encode())

    @classmethod
    def open(cls, path: Path) -> "ServerFolder":
        """A cluster that `make` made.

        Raises
        ------
        ClusterError
            If there is none.
        """
        settings = _read(path / SETTINGS, "curvfed cluster init")
        return cls(path, int(settings["fleet-port"]), int(settings["api-port"]))

    def add_node(self, name: str, address: str = "") -> NodeFolder:
        """A node's folder, to be brought to its machine: its key, the authority's certificate, the SuperLink's address."""
        _check_name(name)
        node = self.node(name)
        if node.path.exists():
            raise ClusterError(f"{node.path} exists and is not overwritten; allowed is another name")
        address = address or str(_read(self.path / SETTINGS, "init")["superlink"])
        new = NodeFolder(node.path.with_name(f".{name}.new"))
        _remove(new.path)  # of a process that was killed
        new.path.mkdir(parents=True, mode=0o700)
        new.flower_home.mkdir(mode=0o700)  # the rest may be mounted read-only
        certificates.make_node_key(new.key, new.public_key)
        certificates.write_new(new.authority, self.authority[0].read_bytes())
        certificates.write_new(new.path / "node.toml", tomli_w.dumps({"superlink": address}).encode())
        new.path.rename(node.path)
        return node

    def renew(self, names: Sequence[str], days: int) -> None:
        """A new server certificate by the same authority, by default for the names of before; nodes need nothing new."""
        names = names or certificates.names_of(self.server[0])
        certificates.check_names(names)
        certificates.check_days(days, self.authority[0])
        certificate, key = (path.with_name(f"{path.name}.new") for path in self.server)
        for path in (certificate, key):
            path.unlink(missing_ok=True)
        certificates.make_server(certificate, key, self.authority, names, days)
        os.replace(certificate, self.server[0])
        os.replace(key, self.server[1])


def _read(path: Path, command: str) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ClusterError(f"there is no {path}; it is made by `{command}`") from None
    except (OSError, ValueError) as error:
        raise ClusterError(f"{path} cannot be read: {error}") from None


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,63}", name):
        raise WrongUsageError(f"{name!r} is no name of a node; allowed are letters, digits, '.', '_' and '-'")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
