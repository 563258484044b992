"""Start a SuperLink or a SuperNode, in place of this process or in the background."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from curvfed.deployments.cluster import forked_clients
from curvfed.deployments.cluster.connection_checks import (
    check_certificate,
    check_files,
    check_port,
    check_superlink,
    is_open,
    split_address,
)
from curvfed.deployments.cluster.daemons import Daemon
from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.cluster.flower_commands import Command
from curvfed.deployments.cluster.flower_commands import superlink as superlink_command
from curvfed.deployments.cluster.flower_commands import supernode as supernode_command
from curvfed.deployments.cluster.folder import ServerFolder
from curvfed.deployments.cluster.node_check import check_node
from curvfed.deployments.processes import LOOPBACK, free_ports

SUPERLINK_START, SUPERNODE_START = 120.0, 60.0
"""Seconds to wait for a program in the background. A SuperNode may start before its SuperLink. On a busy machine Flower's
imports alone take half of this time."""

CONNECTED = "SuperNode ID"
"""A SuperNode prints this when the SuperLink accepts it."""

REFUSED = "Failed to activate SuperNode"
"""A SuperNode prints this when the SuperLink refuses it, whatever the reason."""


def superlink(path: Path, bind: str, background: bool) -> None:
    """Run the SuperLink of the cluster in a folder, which nodes reach on the address `bind`.

    Raises
    ------
    ClusterError
        If it already runs, its certificate has expired, its database is damaged, a port is taken, or it ends at once.
    """
    folder = ServerFolder.open(path)
    check_certificate(folder.server[0])
    daemon = Daemon(folder.running, "superlink")
    daemon.check_free()
    folder.check_database()
    check_port(bind, folder.fleet_port, "the SuperLink (nodes)")
    check_port(LOOPBACK, folder.api_port, "the SuperLink (runs)")
    ports = ((LOOPBACK, folder.api_port), (bind, folder.fleet_port))
    command = superlink_command(folder, bind).show()
    _serve(command, daemon, background, lambda said: all(is_open(*port) for port in ports), SUPERLINK_START)


def supernode(
    path: Path, name: str, given: str, link: str | None, own_port: int, is_cold: bool, background: bool
) -> None:
    """Run a SuperNode.

    Parameters
    ----------
    path : Path
        The server's folder, which may contain the node's.
    name : str
        The node's folder, or its name within the server's.
    given : str
        The value of --node-config. Without `policy` in it, the policy is that in the node's folder.
    link : str, optional
        The address of the SuperLink, if it is not the one in the node's folder.
    own_port : int
        The port of the SuperNode's own API; 0 for any free one.
    is_cold : bool
        Whether every message starts a process that imports everything anew.
    background : bool

    Raises
    ------
    WrongUsageError
        If it can never run with these arguments.
    ClusterError
        If something that it needs is absent, or the SuperLink refuses it.
    """
    folder = ServerFolder(path).find_node(name)
    address = link or folder.superlink
    split_address(address)
    check_files(folder)
    if own_port:
        check_port(LOOPBACK, own_port, "the SuperNode (its own API)")
    node_config = check_node(given, folder.policy)
    check_superlink(address, folder.authority)
    command = supernode_command(folder, address, node_config, own_port or free_ports(1)[0]).show()
    if not is_cold:
        command = replace(command, words=[sys.executable, "-P", forked_clients.__file__, *command.words])
    daemon = Daemon(folder.running, folder.name)
    try:
        _serve(command, daemon, background, lambda said: CONNECTED in said, SUPERNODE_START)
    except ClusterError as error:
        if REFUSED not in str(error):
            raise
        raise ClusterError(
            f"{error}\nThe SuperLink does not accept this key: it is not registered there (on the server: `curvfed cluster "
            f"register {folder.name}`), it was revoked, or its last SuperNode was killed and still counts as connected for "
            "a minute"
        ) from None


def _serve(command: Command, daemon: Daemon, background: bool, is_up: Callable[[str], bool], patience: float) -> None:
    if not background:
        os.execvpe(command.words[0], command.words, command.environment)
    is_there = daemon.start(command, is_up, patience)
    print(daemon)
    if not is_there:
        print(f"note: not up after {patience:g} s; it continues to try")
