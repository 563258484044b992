"""What the commands of a cluster do. Each returns its exit status, and prints what it cannot do."""

import functools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ParamSpec

from rich.console import Console
from rich.markup import escape

from curvfed.deployments.cluster import commands, registry, submit, warm
from curvfed.deployments.cluster import status as status_of
from curvfed.deployments.cluster.daemons import Daemon, stop_all
from curvfed.deployments.cluster.errors import ClusterError, WrongUsageError
from curvfed.deployments.cluster.folder import NodeFolder, ServerFolder
from curvfed.deployments.cluster.node_check import check_node
from curvfed.deployments.cluster.preflight import (
    check_certificate,
    check_files,
    check_port,
    check_superlink,
    is_open,
    split_address,
)
from curvfed.deployments.isolated import free_ports
from curvfed.deployments.pairs import UsageError
from curvfed.strategies.base.errors import ConfigError

Given = ParamSpec("Given")

SUPERLINK_START, SUPERNODE_START = 120.0, 60.0
"""Seconds to wait for what starts in the background; a SuperNode may be there before its SuperLink. On a busy machine
Flower's imports alone take half of them."""

CONNECTED = "SuperNode ID"
"""What a SuperNode prints once the SuperLink has taken it."""

REFUSED = "Failed to activate SuperNode"
"""What it prints if the SuperLink does not, whatever the reason."""


def _told(act: Callable[Given, int]) -> Callable[Given, int]:
    """What it cannot do is printed: 2 for what can never be right, 1 for what is not there yet, or not on this machine."""

    @functools.wraps(act)
    def told(*words: Given.args, **options: Given.kwargs) -> int:
        try:
            return act(*words, **options)
        except (UsageError, ConfigError, ClusterError) as error:
            Console(stderr=True).print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
            return 1 if isinstance(error, ClusterError) and not isinstance(error, WrongUsageError) else 2

    return told


@_told
def init(path: Path, hosts: list[str], nodes: list[str], fleet_port: int, api_port: int, days: int) -> int:
    """Certificates, keys, settings."""
    folder = ServerFolder.make(path, hosts, nodes, fleet_port, api_port, days)
    print(f"cluster: {folder.path}")
    authority, key = (path.name for path in folder.authority)
    print(f"  {authority}  the authority's certificate, which every node has; {key} stays here")
    print(f"  {folder.server[0].name}  for {', '.join(hosts or ['this machine alone'])}, {days} days")
    for node in folder.nodes():
        print(f"  nodes/{node.name}  bring this folder to {node.name}'s machine, by a way that others cannot read")
    return 0


@_told
def add(path: Path, names: list[str]) -> int:
    """Keys of further nodes."""
    folder = ServerFolder.open(path)
    for name in names:
        print(f"made: {folder.add_node(name).path}")
    return 0


@_told
def renew(path: Path, hosts: list[str], days: int) -> int:
    """A new server certificate."""
    folder = ServerFolder.open(path)
    folder.renew(hosts, days)
    print(f"renewed: {folder.server[0]}; it counts from the SuperLink's next start")
    return 0


@_told
def superlink(path: Path, bind: str, background: bool) -> int:
    """Run the SuperLink."""
    folder = ServerFolder.open(path)
    check_certificate(folder.server[0])
    if (found := Daemon(folder.running, "superlink").process()) is not None:
        raise ClusterError(f"the SuperLink is running already, process {found.pid}; `down` stops it")
    check_port(bind, folder.fleet_port, "the SuperLink (nodes)")
    check_port(commands.LOOPBACK, folder.api_port, "the SuperLink (runs)")
    command = commands.superlink(folder, bind).show()
    ports = ((commands.LOOPBACK, folder.api_port), (bind, folder.fleet_port))
    daemon = Daemon(folder.running, "superlink")
    return _serve(command, daemon, background, lambda said: all(is_open(*port) for port in ports), SUPERLINK_START)


@_told
def supernode(
    path: Path, name: str, given: str, link: str | None, own_port: int, is_cold: bool, background: bool
) -> int:
    """Run a SuperNode, `given` being its node-config; `own_port` 0 is any that is free."""
    folder = _node(ServerFolder(path), name)
    address = link or folder.superlink
    split_address(address)
    check_files(folder)
    if own_port:
        check_port(commands.LOOPBACK, own_port, "the SuperNode (its own API)")
    node_config = check_node(given)
    check_superlink(address, folder.authority)
    command = commands.supernode(folder, address, node_config, own_port or free_ports(1)[0]).show()
    if not is_cold:
        command = replace(command, words=[sys.executable, "-P", warm.__file__, *command.words])
    daemon = Daemon(folder.running, folder.name)
    try:
        return _serve(command, daemon, background, lambda said: CONNECTED in said, SUPERNODE_START)
    except ClusterError as error:
        if REFUSED not in str(error):
            raise
        raise ClusterError(
            f"{error}\nThe SuperLink does not take this key: it is not registered there (on the server: `curvfed cluster "
            f"register {folder.name}`), it was revoked, or its last SuperNode was killed and counts as connected for a "
            "minute yet"
        ) from None


def _serve(
    command: commands.Command, daemon: Daemon, background: bool, is_up: Callable[[str], bool], patience: float
) -> int:
    if not background:
        os.execvpe(command.words[0], command.words, command.environment)
    is_there = daemon.start(command, is_up, patience)
    process = daemon.process()
    print(f"{daemon.name}: process {process.pid if process else '?'}, log {daemon.log}")
    if not is_there:
        print(f"note: not up after {patience:g} s; it goes on trying")
    return 0


@_told
def register(path: Path, nodes: list[str]) -> int:
    """Let nodes take part."""
    registry.register(ServerFolder.open(path), nodes)
    return 0


@_told
def revoke(path: Path, nodes: list[str]) -> int:
    """Let nodes take part no more."""
    registry.revoke(ServerFolder.open(path), nodes)
    return 0


@_told
def status(path: Path, wait: int) -> int:
    """What runs, and how the runs went; first wait until so many nodes are connected."""
    folder = ServerFolder.open(path)
    if wait:
        status_of.wait(folder, wait)
    return status_of.show(folder)


@_told
def run(path: Path, pairs: Sequence[str], retries: int) -> int:
    """Run a method."""
    folder = ServerFolder.open(path)
    return submit.run(folder, submit.configuration(pairs), retries)


@_told
def down(path: Path, nodes: list[str]) -> int:
    """Stop what runs in the background."""
    folder = ServerFolder(path)
    if nodes:
        folders = [_node(folder, name) for name in nodes]
        stopped = stop_all([node.running for node in folders if node.superlink])
    else:
        ServerFolder.open(path)
        stopped = stop_all([*(node.running for node in folder.nodes()), folder.running])
    print("stopped: " + (", ".join(stopped) or "nothing was running in the background"))
    return 0


def _node(folder: ServerFolder, name: str) -> NodeFolder:
    """A node by its folder, or by its name where that lies beside the server's files."""
    path = Path(name).expanduser()
    if path.is_dir():
        return NodeFolder(path.absolute())
    if (node := folder.node(name)).path.is_dir():
        return node
    names = ", ".join(node.name for node in folder.nodes()) or "none"
    raise ClusterError(f"there is no folder {path.absolute()}, and no node {name!r} in {folder.path}; there: {names}")
