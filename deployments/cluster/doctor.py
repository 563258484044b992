"""`curvfed cluster doctor`: every check of the server or of a node."""

from pathlib import Path
from typing import Annotated

import typer

from curvfed.deployments.cluster import database
from curvfed.deployments.cluster.folder import ServerFolder
from curvfed.deployments.cluster.options import Node, NodeConfig, SuperLink, open_folder
from curvfed.deployments.groups import Application
from curvfed.deployments.parameters import expanded

ANY_PART = "partition-id=0 num-partitions=1"
"""The configuration for a node without one."""

app = Application(add_completion=False)


@app.command()
def doctor(
    ctx: typer.Context,
    node: Node = None,
    node_config: NodeConfig = "",
    superlink: SuperLink = None,
    results: Annotated[
        Path | None,
        typer.Option(
            parser=expanded, metavar="DIR", help="The server's runs; default: ~/curvfed/results."
        ),
    ] = None,
    restore: Annotated[
        bool,
        typer.Option("--restore", help="First replace a damaged superlink.db by its backup."),
    ] = False,
) -> None:
    """Check the server or a node, and print faults and remedies; exit status 1 if there is a
    fault."""
    from curvfed.deployments.cluster.checks import DOCTOR, node_checks, run_checks, server_checks
    from curvfed.deployments.cluster.node_config import read_config

    if node is not None:
        folder = ServerFolder(ctx.obj).find_node(node)
        config = read_config(node_config or ANY_PART, folder.policy)
        checks = node_checks(folder, config, superlink or folder.superlink)
    else:
        server = open_folder(ctx)
        if restore:
            database.restore(server)
        checks = server_checks(server, results)
    wrong = run_checks(checks, DOCTOR)
    print(f"found wrong: {wrong}")
    raise typer.Exit(int(wrong > 0))
