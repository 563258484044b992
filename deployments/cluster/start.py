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
"""Seconds to wait for a program in the background. A SuperNode may start before its SuperLink. On a
busy machine Flower's imports alone take half of this time."""

CONNECTED = "SuperNode ID"
"""A SuperNode prints this when the SuperLink accepts it."""

REFUSED = "Failed to activate SuperNode"
"""A SuperNode prints this when the SuperLink refuses it, whatever the reason."""


LEASE_STARTS = 6
LEASE_PAUSE = 12.0
"""Starts of a node whose SuperNode was killed, and seconds between them: the SuperLink counts that
one as connected for a minute after its last sign of life."""


def superlink(path: Path, bind: str, health_port: int, background: bool) -> None:
    """Run the SuperLink of the cluster in a folder, which nodes reach on the address `bind`.

    Raises
    ------
    ClusterError
        If it already runs, its certificate has expired, its database is damaged, a port is taken,
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
        lambda said: all(is_open(*port) for port in ports),
        SUPERLINK_START,
    )


def supernode(
    path: Path,
    name: str,
    given: str,
    link: str | None,
    own_port: int,
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
    given : str
        The value of --node-config. Without `policy` in it, the policy is that in the node's folder.
    link : str, optional
        The address of the SuperLink, if it is not the one in the node's folder.
    own_port : int
        The port of the SuperNode's own API; 0 for any free one.
    health_port : int
        The port of its health service; 0 for none.
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
    _check_link(Link(address, folder.authority))
    command = supernode_command(
        folder, address, node_config, own_port or free_ports(1)[0], health_port
    ).show()
    if not is_cold:
        command = replace(
            command, words=[sys.executable, "-P", forked_clients.__file__, *command.words]
        )
    daemon = Daemon(folder.running, folder.name)
    for left in reversed(range(LEASE_STARTS if daemon.was_killed else 1)):
        try:
            _serve(command, daemon, background, lambda said: CONNECTED in said, SUPERNODE_START)
        except ClusterError as error:
            if REFUSED not in str(error):
                raise
            if not left:
                raise ClusterError(
                    f"{error}\nThe SuperLink does not accept this key: it is not registered there"
                    f" (on the server: `curvfed cluster register {folder.name}`), it was revoked,"
                    " or its last SuperNode was killed and still counts as connected for a minute"
                ) from None
            print(
                "its last SuperNode was killed and counts as connected for a minute: again in"
                f" {LEASE_PAUSE:g} s"
            )
            time.sleep(LEASE_PAUSE)
        else:
            break


def _check_link(link: Link) -> None:
    """Check the way to the SuperLink; one that does not answer may start later."""
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
    is_there = daemon.start(command, is_up, patience)
    print(daemon)
    if not is_there:
        print(f"note: not up after {patience:g} s; it continues to try")
