"""Checks before a SuperLink or a SuperNode starts: addresses, ports, certificates, private keys, and who answers."""

import contextlib
import datetime
import os
import socket
import ssl
import stat
from pathlib import Path

from curvfed.deployments.cluster.certificates import time_left
from curvfed.deployments.cluster.errors import ClusterError, WrongUsageError
from curvfed.deployments.cluster.folder import NodeFolder
from curvfed.deployments.cluster.ports import LAST_PORT


def split_address(address: str) -> tuple[str, int]:
    """Host and port of an address.

    Raises
    ------
    WrongUsageError
        If it does not have that form.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 1 <= int(port) <= LAST_PORT:
        raise WrongUsageError(f"{address!r} is no address; allowed is HOST:PORT, PORT being 1 to {LAST_PORT}")
    return host.strip("[]"), int(port)


def check_port(host: str, port: int, what: str) -> None:
    """Refuse a port on which something listens.

    Raises
    ------
    ClusterError
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ClusterError(f"{what} cannot listen on {host}:{port}: {error.strerror}") from None


def is_open(host: str, port: int) -> bool:
    """Whether something listens there."""
    try:
        with socket.create_connection((host, port), 1.0):
            return True
    except OSError:
        return False


def check_certificate(path: Path, is_strict: bool = False) -> str:
    """Say how long a certificate is valid; one that ends soon is refused if `is_strict`, else a note is printed.

    Raises
    ------
    ClusterError
        If it cannot be read, has expired, or has not begun.
    """
    renew = "`curvfed cluster renew` makes a new one for the server"
    try:
        left = time_left(path)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"{path} cannot be read ({error}); {renew}, and a node's ca.crt is that of the server"
        ) from None
    if left < datetime.timedelta():
        raise ClusterError(f"{path} ended {-left.days} days ago; {renew}")
    soon = f"{path} ends in {left.days} days"
    if left.days < 30 and is_strict:
        raise ClusterError(f"{soon}; {renew}")
    if left.days < 30:
        print(f"note: {soon}; {renew}")
    return soon


def check_files(node: NodeFolder) -> str:
    """Refuse a node's folder that lacks a file, and a private key that others could read.

    Raises
    ------
    ClusterError
    """
    for path in (node.key, node.authority):
        if not path.is_file():
            raise ClusterError(f"there is no {path}; bring it from the server's nodes/{node.name}, by `scp -p`")
        if not os.access(path, os.R_OK):
            raise ClusterError(f"this user may not read {path}")
    return check_private(node.key)


def check_private(path: Path) -> str:
    """Say that a private key is private.

    Raises
    ------
    ClusterError
        If others could read it.
    """
    key = path.stat()
    # As ssh does: whoever gave another user's key to a group intended that.
    if key.st_uid == os.getuid() and key.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ClusterError(f"others may read or change {path}, mode {key.st_mode & 0o777:04o}: chmod 600 {path}")
    return f"{path}: private"


ANOTHER = (
    "the SuperLink at {address} is another cluster's: {authority} does not vouch for it. Stop it by its own `down`, or "
    "make a cluster with another --folder and --api-port"
)
"""What is wrong, and what to do, if another cluster has this one's port."""


def check_superlink(address: str, authority: Path, must_answer: bool = False) -> str:
    """Check that the SuperLink answers and is the one that the authority vouches for.

    If nothing answers and it need not, a note is printed: the SuperLink may start later, and the SuperNode waits for it.

    Raises
    ------
    ClusterError
        If something else answers, or the certificate is for other names; or if it must answer and does not.
    """
    try:
        _connect(address, authority)
    except ssl.SSLCertVerificationError as error:
        raise ClusterError(
            f"the SuperLink at {address} is not the one that {authority} vouches for: {error.verify_message}. Bring "
            "ca.crt from the server again, or use a name that its certificate has (`init --host`, `renew --host`)"
        ) from None
    except ssl.SSLError as error:
        raise ClusterError(f"the program that answers at {address} does not speak TLS: {error.reason}") from None
    except OSError as error:
        if must_answer:
            raise ClusterError(
                f"no SuperLink answers at {address} ({error}); start it, and let firewalls pass this port"
            ) from None
        print(f"note: no SuperLink at {address} yet ({error}); the SuperNode continues to try")
    return f"{address} answers"


def is_another(address: str, authority: Path) -> bool:
    """Whether a SuperLink answers there that the authority does not vouch for."""
    try:
        _connect(address, authority)
    except OSError as error:
        return isinstance(error, ssl.SSLCertVerificationError)
    return False


def _connect(address: str, authority: Path) -> None:
    """Make a TLS connection, and close it."""
    host, port = split_address(address)
    try:
        context = ssl.create_default_context(cafile=str(authority))
    except OSError as error:
        raise ClusterError(f"{authority} is no certificate: {error}") from None
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection((host, port), 5.0) as plain,
        contextlib.closing(context.wrap_socket(plain, server_hostname=host)),
    ):
        pass
