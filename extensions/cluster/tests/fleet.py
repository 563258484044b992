"""A SuperLink's port for nodes: Flower's own check of nodes, and what may lie before it."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from types import SimpleNamespace

import grpc
import pytest
from flwr.proto.fleet_pb2_grpc import FleetServicer, add_FleetServicer_to_server
from flwr.server.superlink.fleet.grpc_rere.node_auth_server_interceptor import (
    NodeAuthServerInterceptor,
)

from curvfed.extensions.cluster.commands.flower_commands import ONE_PORT
from curvfed.extensions.cluster.commands.folder import ServerFolder


@contextlib.contextmanager
def fleet_server(folder: ServerFolder, is_for_nodes: bool = True) -> Iterator[int]:
    """Flower's check of nodes, before a service that is never reached, with TLS of the cluster;
    yields its port.

    Without `is_for_nodes` it is a gRPC server that knows no nodes.
    """
    if ONE_PORT:
        pytest.skip(
            f"Flower {version('flwr')} serves nodes by HTTP at the SuperLink's one port; this is about"
            " the gRPC port of the pinned version"
        )
    unknown = SimpleNamespace(
        state=lambda: SimpleNamespace(get_node_id_by_public_key=lambda key: None)
    )
    interceptors = [NodeAuthServerInterceptor(unknown)] if is_for_nodes else []
    server = grpc.server(ThreadPoolExecutor(2), interceptors=interceptors)
    if is_for_nodes:
        add_FleetServicer_to_server(FleetServicer(), server)
    pair = [(folder.server[1].read_bytes(), folder.server[0].read_bytes())]
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials(pair))
    server.start()
    try:
        yield port
    finally:
        server.stop(0)


@contextlib.contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A program on loopback that does the same with every connection; yields its port."""

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


def plain_http(connection: socket.socket) -> None:
    """A web server without TLS, or a proxy that lets nobody pass."""
    with connection, contextlib.suppress(OSError):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")


def proxy(connection: socket.socket) -> None:
    """A proxy that lets everybody pass: CONNECT HOST:PORT, then bytes in both directions."""

    def copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    with connection, contextlib.suppress(OSError):
        host, _, port = connection.recv(65536).split()[1].decode().rpartition(":")
        with socket.create_connection((host, int(port))) as further:
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=copy, args=(further, connection), daemon=True)
            back.start()
            copy(connection, further)
            back.join()


def silence(connection: socket.socket) -> None:
    """A program that takes connections and says nothing until the other side ends."""
    with connection, contextlib.suppress(OSError):
        while connection.recv(65536):
            pass


@contextlib.contextmanager
def web_server(folder: ServerFolder) -> Iterator[int]:
    """A web server with TLS of the cluster, as on the port for runs; yields its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*folder.server)

    def answer(connection: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            context.wrap_socket(connection, server_side=True) as secure,
        ):
            plain_http(secure)

    with listening(answer) as port:
        yield port
