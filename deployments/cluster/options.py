"""Options that several commands of a cluster have."""

from typing import Annotated

import typer

from curvfed.deployments.cluster.folder import ServerFolder

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


def open_folder(ctx: typer.Context) -> ServerFolder:
    """The server's folder of this command.

    Raises
    ------
    ClusterError
        If it has no cluster.
    """
    return ServerFolder.open(ctx.obj)
