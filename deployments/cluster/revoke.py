"""`curvfed cluster revoke`: nodes that the SuperLink never accepts again."""

from typing import Annotated

import typer

from curvfed.deployments.cluster import database, registry
from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.cluster.flower_commands import flwr
from curvfed.deployments.cluster.options import open_folder
from curvfed.deployments.groups import Application

app = Application(add_completion=False)


@app.command()
def revoke(
    ctx: typer.Context,
    nodes: Annotated[list[str], typer.Argument(metavar="NAME...")],
) -> None:
    """Exclude nodes permanently, by their names or by Flower's ids."""
    folder = open_folder(ctx)
    ids = registry.read_names(folder)
    for node in nodes:
        identity = ids.get(node, node)
        if not identity.isdigit():
            raise ClusterError(
                f"{node} is not registered; registered are {', '.join(ids) or 'none'}",
                key="not-registered",
            )
        flwr(folder, "supernode", "unregister", identity).show().ask()
        ids = {name: value for name, value in ids.items() if value != identity}
        registry.write_names(folder, ids)
        database.back_up(folder)
        registry.audit(folder, registry.REVOKED, node, node=identity)
        print(f"revoked: {node}")
