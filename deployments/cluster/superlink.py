"""`curvfed cluster superlink`: Flower's SuperLink in place of this process."""

import typer

from curvfed.deployments.cluster import database
from curvfed.deployments.cluster.flower_commands import Command, flower_program
from curvfed.deployments.cluster.folder import ServerFolder
from curvfed.deployments.cluster.options import Bind, HealthPort, open_folder
from curvfed.deployments.groups import Application
from curvfed.deployments.processes import LOOPBACK

app = Application(add_completion=False)


@app.command()
def superlink(ctx: typer.Context, bind: Bind = "0.0.0.0", health_port: HealthPort = 0) -> None:
    """Run the SuperLink in the foreground; its log is on standard error."""
    from curvfed.deployments.cluster.checks import START, run_checks, server_checks

    folder = open_folder(ctx)
    run_checks(server_checks(folder, bind=bind), START)
    database.back_up(folder)
    flower_superlink(folder, bind, health_port).show().become()


def flower_superlink(folder: ServerFolder, bind: str, health_port: int = 0) -> Command:
    """Flower's command: nodes reach the SuperLink at the address `bind`, and only this machine
    submits runs and registrations."""
    certificate, key = folder.server
    options = {
        "--host": LOOPBACK,
        "--port": folder.api_port,
        "--fleet-api-address": f"{bind}:{folder.fleet_port}",
        "--ssl-ca-certfile": folder.authority[0],
        "--ssl-certfile": certificate,
        "--ssl-keyfile": key,
        "--database": folder.database,
    }
    flags = ["--enable-supernode-auth", "--disable-runtime-dependency-installation"]
    return flower_program("flower-superlink", options, health_port, folder.flower_home, flags)
