"""Checks before a SuperLink or a SuperNode starts: addresses, ports, certificates, and private
keys."""

import datetime
import os
import socket
import stat
from pathlib import Path

from curvfed.deployments.cluster.certificates import server_names, time_left
from curvfed.deployments.cluster.errors import ClusterError, WrongUsageError
from curvfed.deployments.cluster.folder import NodeFolder
from curvfed.deployments.cluster.ports import LAST_PORT


def split_address(address: str) -> tuple[str, int]:
    """Host and port of an address.

    Raises
    ------
    WrongUsageError
        If it has another form.
    """
    allowed = (
        f"{address!r} is no address; allowed is HOST:PORT, without https://, PORT being 1 to"
        f" {LAST_PORT}"
    )
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 1 <= int(port) <= LAST_PORT:
        raise WrongUsageError(allowed, key="address")
    try:
        server_names([host])
    except WrongUsageError:
        raise WrongUsageError(allowed, key="address") from None
    return host, int(port)


def check_port(host: str, port: int, program: str) -> None:
    """Refuse a port in use.

    Raises
    ------
    ClusterError
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ClusterError(
                f"{program} cannot listen on {host}:{port}: {error.strerror}", key="port-in-use"
            ) from None


def is_open(host: str, port: int) -> bool:
    """Whether a program listens on the port."""
    try:
        with socket.create_connection((host, port), 1.0):
            return True
    except OSError:
        return False


def check_certificate(path: Path, is_strict: bool = False) -> str:
    """Report how long a certificate is valid; one that ends soon is refused if `is_strict`, or else
    noted.

    Raises
    ------
    ClusterError
        If it cannot be read, has expired, or has not begun.
    """
    renew = "`curvfed cluster renew` makes a new one for the server"
    try:
        remaining = time_left(path)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"{path} cannot be read ({error}); {renew}, and a node's ca.crt is that of the server",
            key="unreadable",
        ) from None
    if remaining < datetime.timedelta():
        raise ClusterError(
            f"{path} ended {-remaining.days} days ago; {renew}", key="expired-certificate"
        )
    validity = f"{path} ends in {remaining.days} days"
    if remaining.days < 30:
        if is_strict:
            raise ClusterError(f"{validity}; {renew}", key="expired-certificate")
        print(f"note: {validity}; {renew}")
    return validity


def check_files(node: NodeFolder) -> str:
    """Refuse a node's folder without its files, or with a private key that others can read.

    Raises
    ------
    ClusterError
    """
    for path in (node.key, node.authority):
        if not path.is_file():
            raise ClusterError(
                f"there is no {path}; bring it from the server's nodes/{node.name}, by `scp -p`",
                key="missing-file",
            )
        if not os.access(path, os.R_OK):
            raise ClusterError(f"this user may not read {path}", key="unreadable")
    return check_private(node.key)


def check_private(path: Path) -> str:
    """Report that a private key is private.

    Raises
    ------
    ClusterError
        If others can read it.
    """
    key = path.stat()
    # As ssh does: a group that reads another user's key is intended.
    if key.st_uid == os.getuid() and key.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ClusterError(
            f"others may read or change {path}, mode {key.st_mode & 0o777:04o}: chmod 600 {path}",
            key="open-key",
        )
    return f"{path}: private"
