"""Between a node and its server: passes all on, but changes one byte of the next long message
upwards when asked to.

    python tampering.py PORT SERVER_HOST SERVER_PORT FILE

Listens on loopback. When FILE exists, a byte is changed and FILE removed.
"""

import contextlib
import socket
import sys
import threading
from pathlib import Path

LONG = 4096
"""Bytes; a request for work is shorter, a reply with parameters longer."""


def serve(port: int, server: tuple[str, int], request: Path) -> None:
    """Until killed."""
    with socket.create_server(("127.0.0.1", port), backlog=16) as listener:
        while True:
            node, _ = listener.accept()
            try:
                link = socket.create_connection(server, timeout=5)
            except OSError:
                node.close()
                continue
            link.settimeout(None)
            for one, other, may_change in ((node, link, request), (link, node, None)):
                threading.Thread(
                    target=_pass_on, args=(one, other, may_change), daemon=True
                ).start()


def _pass_on(one: socket.socket, other: socket.socket, request: Path | None) -> None:
    with contextlib.suppress(OSError):
        while data := bytearray(one.recv(65536)):
            if request is not None and len(data) >= LONG and request.exists():
                data[-1] ^= 1
                request.unlink()
            other.sendall(data)
    for end in (one, other):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    serve(int(sys.argv[1]), (sys.argv[2], int(sys.argv[3])), Path(sys.argv[4]))
