"""The folders of a cluster, one on the server and one on each node, and the options that several of
its commands have."""

import contextlib
import json
import os
import shlex
import tomllib
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer

from curvfed.extensions.cluster.commands import ClusterError
from curvfed.strategies.base.keys import toml_text
from curvfed.strategies.base.run_keys import home
from curvfed.strategies.base.shared_tables import GROUP_SIZE
from curvfed.tasks.stored_files import write_atomically

CONNECTS = "connects to the server"
"""The last step of a node's start, which Flower's SuperNode makes."""

SETTINGS = "cluster.toml"

FLEET_PORT = 9092
API_PORT = 8000
"""Flower's own default ports: for nodes, and for runs and registrations."""

PORTS = ("fleet-port", "api-port")
EXAMPLES = {
    "superlink": 'superlink = "fl.example.org:9092"',
    "fleet-port": "fleet-port = 9092",
    "api-port": "api-port = 8000",
}
"""A line for each of the settings that a folder must have."""

LAST_PORT = 65535
SERVER_DAYS = 365

Days = Annotated[int, typer.Option(metavar="N", help="Days until the server's certificate ends.")]
HealthPort = Annotated[
    int,
    typer.Option(
        min=0,
        max=LAST_PORT,
        metavar="P",
        help="Port of its gRPC health service, on loopback; 0: none.",
    ),
]
SuperLink = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Address of the SuperLink; default: that of init."),
]
Node = Annotated[
    str | None,
    typer.Argument(metavar="[NODE]", help="On a node: its folder. Default: the server."),
]
NodeConfig = Annotated[
    str,
    typer.Option(metavar="'KEY=VALUE …'", help="The node's configuration, as for supernode."),
]
Bind = Annotated[str, typer.Option(metavar="ADDRESS", help="Address that nodes connect to.")]


def cluster_command(words: str, folder: Path) -> str:
    """A command of `curvfed cluster` for this folder, as a user types it, for remedies.

    Examples
    --------
    >>> cluster_command("status", Path("/srv/my fl"))
    "curvfed cluster --folder '/srv/my fl' status"
    """
    option = "" if folder == default_folder() else f" --folder {shlex.quote(str(folder))}"
    return f"curvfed cluster{option} {words}"


def default_folder() -> Path:
    """The server's folder without `--folder`."""
    return home() / "cluster"


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
    start : Path
        The process of the node, and the step of its start: see `note_step`.
    started_with : Path
        The configuration of its last start, as `--node-config` has it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self.key = path / "node.key"
        self.public_key = path / "node.key.pub"
        self.authority = path / "ca.crt"
        self.policy = path / "policy.toml"
        self.flower_home = path / "flwr"
        self.start = path / "start.json"
        self.started_with = self.flower_home / "node-config.txt"

    def note_step(self, step: str) -> None:
        """Store the current step of this node's start, for a server on this machine."""
        with contextlib.suppress(OSError):
            begun = psutil.Process().create_time()
            text = json.dumps({"process": os.getpid(), "begun": begun, "step": step})
            write_atomically(self.start, text.encode(), private=True)

    def note_config(self, text: str) -> None:
        """Store the configuration with which the node starts."""
        with contextlib.suppress(OSError):
            write_atomically(self.started_with, text.encode(), private=True)

    def last_config(self) -> str:
        """The configuration of the node's last start; "" before the first."""
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return self.started_with.read_text(encoding="utf-8")
        return ""

    def current_step(self) -> str:
        """The step of this node's start; "" if no process of it runs on this machine."""
        try:
            noted = json.loads(self.start.read_text(encoding="utf-8"))
            process = psutil.Process(int(noted["process"]))
            # The number of a process that has ended is used again.
            return str(noted["step"]) if process.create_time() == noted["begun"] else ""
        except (OSError, ValueError, LookupError, TypeError, psutil.Error):
            return ""

    @property
    def superlink(self) -> str:
        """The address of the SuperLink, host:port.

        Raises
        ------
        ClusterError
            If this is not a node's folder.
        """
        settings = _read(self.path / "node.toml", "curvfed cluster init --node NAME")
        return str(settings["superlink"])


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
        return str(_read(self.path / SETTINGS, cluster_command("init", self.path))["superlink"])

    @property
    def group_size(self) -> int:
        """The smallest size of a group of a secure sum, for the policies of new nodes."""
        settings = _read(self.path / SETTINGS, cluster_command("init", self.path))
        return int(settings.get("group-size", GROUP_SIZE))

    def node(self, name: str) -> NodeFolder:
        """The folder of a node with a key made here."""
        return NodeFolder(self.path / "nodes" / name)

    def nodes(self) -> list[NodeFolder]:
        """The folders of all nodes with keys made here, by name."""
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
            If the node does not exist.
        """
        path = Path(name).expanduser().absolute()
        for node in (NodeFolder(path), self.node(name)):
            if node.path.is_dir():
                return node
        names = [node.name for node in self.nodes()]
        hint = f"; a node on this machine is called by its name, {path.name}"
        raise ClusterError(
            f"there is no folder {path}, and no node {name!r} in {self.path}; there:"
            f" {', '.join(names) or 'none'}{hint if path.name in names else ''}",
            key="no-node",
        )

    @classmethod
    def open(cls, path: Path) -> "ServerFolder":
        """Open a cluster that `curvfed cluster init` made.

        Raises
        ------
        ClusterError
            If it is missing.
        """
        settings = _read(path / SETTINGS, cluster_command("init", path))
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
    """The settings in `cluster.toml` or `node.toml`, which have an address, or ports too."""
    try:
        settings = tomllib.loads(toml_text(path.read_bytes()))
    except FileNotFoundError:
        raise ClusterError(
            f"there is no {path}; `{command}` makes it", key="missing-file"
        ) from None
    except (OSError, ValueError) as error:
        raise ClusterError(f"{path} cannot be read: {error}", key="unreadable") from None
    names = ("superlink", *PORTS) if path.name == SETTINGS else ("superlink",)
    for name in names:
        kind = int if name in PORTS else str
        value = settings.get(name)
        if type(value) is not kind or not value:
            given = "is missing" if value is None else f"= {value!r}"
            raise ClusterError(
                f"{path}: {name} {given}; allowed is a line such as {EXAMPLES[name]}",
                key="settings",
            )
    return settings


def open_folder(ctx: typer.Context, is_changed: bool = False) -> ServerFolder:
    """The server's folder of this command, which also writes there if `is_changed`.

    Raises
    ------
    ClusterError
        If it lacks a cluster, or this user may not write in it.
    """
    folder = ServerFolder.open(ctx.obj)
    # Checked first: what Flower has begun or revoked by then stays so.
    if is_changed and not os.access(folder.path, os.W_OK | os.X_OK):
        raise ClusterError(
            f"this user may not write in {folder.path}; run this command as its owner, by sudo -u",
            key="unwritable",
        )
    return folder
