"""The start of a SuperLink or of a SuperNode, in place of this process or in the background."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from curvfed.deployments.cluster import warm
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
"""Seconds to wait for what starts in the background; a SuperNode may be there before its SuperLink. On a busy machine
Flower's imports alone take half of them."""

CONNECTED = "SuperNode ID"
"""What a SuperNode prints once the SuperLink has taken it."""

REFUSED = "Failed to activate SuperNode"
"""What it prints if the SuperLink does not, whatever the reason."""


def superlink(path: Path, bind: str, background: bool) -> None:
    """Run the SuperLink of the cluster in a folder, which nodes reach on the address `bind`.

    Raises
    ------
    ClusterError
        If it is running already, its certificate is over, a port is taken, or it ends at once.
    """
    folder = ServerFolder.open(path)
    check_certificate(folder.server[0])
    daemon = Daemon(folder.running, "superlink")
    daemon.check_free()
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
        The server's folder, where the node's may lie in.
    name : str
        The node's folder, or its name in the server's.
    given : str
        Its node-config.
    link : str, optional
        Address of the SuperLink, if not the one in the node's folder.
    own_port : int
        Of its own API; 0 for any that is free.
    is_cold : bool
        Whether everything is imported anew for every message.
    background : bool

    Raises
    ------
    WrongUsageError
        If it can never run so.
    ClusterError
        If something that it needs is not there, or the SuperLink does not take it.
    """
    folder = ServerFolder(path).find_node(name)
    address = link or folder.superlink
    split_address(address)
    check_files(folder)
    if own_port:
        check_port(LOOPBACK, own_port, "the SuperNode (its own API)")
    node_config = check_node(given)
    check_superlink(address, folder.authority)
    command = supernode_command(folder, address, node_config, own_port or free_ports(1)[0]).show()
    if not is_cold:
        command = replace(command, words=[sys.executable, "-P", warm.__file__, *command.words])
    daemon = Daemon(folder.running, folder.name)
    try:
        _serve(command, daemon, background, lambda said: CONNECTED in said, SUPERNODE_START)
    except ClusterError as error:
        if REFUSED not in str(error):
            raise
        raise ClusterError(
            f"{error}\nThe SuperLink does not take this key: it is not registered there (on the server: `curvfed cluster "
            f"register {folder.name}`), it was revoked, or its last SuperNode was killed and counts as connected for a "
            "minute yet"
        ) from None


def _serve(command: Command, daemon: Daemon, background: bool, is_up: Callable[[str], bool], patience: float) -> None:
    if not background:
        os.execvpe(command.words[0], command.words, command.environment)
    is_there = daemon.start(command, is_up, patience)
    print(daemon)
    if not is_there:
        print(f"note: not up after {patience:g} s; it goes on trying")
