"""Start a SuperLink or a SuperNode, in place of this process or in the background."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from curvfed.deployments.cluster import database, forked_clients
from curvfed.deployments.cluster.checks.clock import check_clock
from curvfed.deployments.cluster.checks.connections import (
    check_certificate,
    check_files,
    check_port,
    is_open,
    split_address,
)
from curvfed.deployments.cluster.checks.node import check_node
from curvfed.deployments.cluster.checks.superlink import Link, SilentError, check_superlink
from curvfed.deployments.cluster.daemons import Daemon
from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.cluster.flower_commands import ONE_PORT, Command
from curvfed.deployments.cluster.flower_commands import superlink as superlink_command
from curvfed.deployments.cluster.flower_commands import supernode as supernode_command
from curvfed.deployments.cluster.folder import ServerFolder
from curvfed.deployments.processes import LOOPBACK, free_ports

SUPERLINK_START = 120.0
SUPERNODE_START = 60.0
"""Seconds to wait for a program in the background. A SuperNode can start before its SuperLink. On a
busy machine Flower's imports alone take half of this time."""

CONNECTED = "SuperNode ID"
"""A SuperNode prints this when the SuperLink accepts it."""

REFUSED = "Failed to activate SuperNode"
"""A SuperNode prints this when the SuperLink refuses it, for any reason."""

LEASE_STARTS = 6
LEASE_PAUSE = 12.0
"""Number of starts of a node whose SuperNode was killed, and seconds between them: the SuperLink
counts the killed one as connected for a minute."""


def superlink(path: Path, bind: str, health_port: int, background: bool) -> None:
    """Run the SuperLink of the cluster in a folder; nodes reach it at the address `bind`.

    Raises
    ------
    ClusterError
        If it already runs, its certificate has expired, its database is damaged, a port is in use,
        or it ends at once.
    """
    folder = ServerFolder.open(path)
    check_certificate(folder.server[0])
    daemon = Daemon(folder.running, "superlink")
    daemon.check_free()
    ports = [(LOOPBACK, folder.api_port), *([] if ONE_PORT else [(bind, folder.fleet_port)])]
    for port in ports:
        check_port(*port, "the SuperLink")
    database.check(folder)
    database.back_up(folder)
    command = superlink_command(folder, bind, health_port).show()
    _serve(
        command,
        daemon,
        background,
        lambda output: all(is_open(*port) for port in ports),
        SUPERLINK_START,
    )


def supernode(
    path: Path,
    name: str,
    node_config: str,
    address: str | None,
    port: int,
    health_port: int,
    is_cold: bool,
    background: bool,
) -> None:
    """Run a SuperNode.

    Parameters
    ----------
    path : Path
        The server's folder, which may contain the node's.
    name : str
        The node's folder, or its name within the server's.
    node_config : str
        The value of --node-config. Without `policy` in it, the policy is that in the node's folder.
    address : str, optional
        The address of the SuperLink; default: that in the node's folder.
    port : int
        The port of the SuperNode's own API; 0 for any free one.
    health_port : int
        The port of its health service; 0 for none.
    is_cold : bool
        Whether each message starts a process that imports all modules.
    background : bool

    Raises
    ------
    WrongUsageError
        If no machine can run it with these arguments.
    ClusterError
        If a file is missing or unfit, or the SuperLink refuses the node.
    """
    folder = ServerFolder(path).find_node(name)
    address = address or folder.superlink
    split_address(address)
    check_files(folder)
    if port:
        check_port(LOOPBACK, port, "the SuperNode (its own API)")
    checked_config = check_node(node_config, folder.policy)
    _check_link(Link(address, folder.authority))
    command = supernode_command(
        folder, address, checked_config, port or free_ports(1)[0], health_port
    ).show()
    if not is_cold:
        fork = [sys.executable, "-P", forked_clients.__file__]
        command = replace(command, words=[*fork, *command.words])
    daemon = Daemon(folder.running, folder.name)
    starts = LEASE_STARTS if daemon.was_killed else 1
    for start in range(starts):
        try:
            _serve(command, daemon, background, lambda output: CONNECTED in output, SUPERNODE_START)
        except ClusterError as error:
            if REFUSED not in str(error):
                raise
            if start == starts - 1:
                raise ClusterError(
                    f"{error}\nThe SuperLink does not accept this key: it is not registered there"
                    f" (on the server: `curvfed cluster register {folder.name}`), it was revoked,"
                    " or its last SuperNode was killed and still counts as connected for a minute",
                    key="refused-key",
                ) from None
            print(
                "its last SuperNode was killed and counts as connected for a minute: again in"
                f" {LEASE_PAUSE:g} s"
            )
            time.sleep(LEASE_PAUSE)
        else:
            break


def _check_link(link: Link) -> None:
    """Check the connection to the SuperLink; a silent SuperLink may start later."""
    try:
        check_superlink(link)
        print("  clock   ", check_clock(link))
    except SilentError as error:
        print(f"note: {error}. The SuperNode starts, and continues to try")


def _serve(
    command: Command,
    daemon: Daemon,
    background: bool,
    is_up: Callable[[str], bool],
    patience: float,
) -> None:
    if not background:
        os.execvpe(command.words[0], command.words, command.environment)
    was_up = daemon.start(command, is_up, patience)
    print(daemon)
    if not was_up:
        print(f"note: not up after {patience:g} s; it continues to try")
