"""`curvfed cluster superlink` and `supernode`: Flower's programs in place of this process."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from curvfed.deployments import patient_flower
from curvfed.deployments.processes import LOOPBACK, free_ports
from curvfed.extensions.cluster.commands import database, registry
from curvfed.extensions.cluster.commands.flower_commands import (
    Command,
    flower_program,
    write_connection,
)
from curvfed.extensions.cluster.commands.folder import (
    CONNECTS,
    LAST_PORT,
    Bind,
    HealthPort,
    NodeFolder,
    ServerFolder,
    SuperLink,
    open_folder,
)

PATIENT = (sys.executable, "-P", patient_flower.__file__)
"""The words before a program of Flower; by its path it imports Flower alone."""


def superlink(ctx: typer.Context, bind: Bind = "0.0.0.0", health_port: HealthPort = 0) -> None:
    """Run the SuperLink in the foreground; its log is on standard error."""
    from curvfed.extensions.cluster.commands.checks import START, run_checks, server_checks

    folder = open_folder(ctx, is_changed=True)
    run_checks(server_checks(folder, bind=bind), START)
    write_connection(folder)
    database.back_up_database(folder)
    registry.note_start(folder)
    command = flower_superlink(folder, bind, health_port)
    replace(command, words=[*PATIENT, *command.words]).show().become()


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


def supernode(
    ctx: typer.Context,
    node: Annotated[str, typer.Argument(metavar="NODE")],
    node_config: Annotated[
        str,
        typer.Option(
            metavar="'KEY=VALUE …'",
            help="partition-id, data-path and other keys of this node: docs/deployment.md.",
        ),
    ],
    superlink: SuperLink = None,
    port: Annotated[
        int,
        typer.Option(
            min=0,
            max=LAST_PORT,
            metavar="P",
            help="Port of its own API, on loopback; 0: any free one.",
        ),
    ] = 0,
    health_port: HealthPort = 0,
    cold: Annotated[
        bool,
        typer.Option("--cold", help="Start a new process for each message, as Flower does."),
    ] = False,
) -> None:
    """Run a SuperNode in the foreground; its log is on standard error. NODE is its folder, with its
    policy.toml, or its name if it runs on the server's machine."""
    from curvfed.deployments.run_results import toml_pairs
    from curvfed.extensions.cluster.commands import forked_clients
    from curvfed.extensions.cluster.commands.checks import START, node_checks, run_checks
    from curvfed.extensions.cluster.commands.node_config import note_user, read_config

    folder = ServerFolder(ctx.obj).find_node(node)
    address = superlink or folder.superlink
    config = read_config(node_config, folder.policy)
    run_checks(node_checks(folder, config, address, port), START, folder.note_step)
    folder.note_config(toml_pairs(config))
    note_user(Path(config["state-path"]), folder)
    folder.note_step(CONNECTS)
    api_port = port or free_ports(1)[0]
    command = flower_supernode(folder, address, toml_pairs(config), api_port, health_port)
    guarded = [sys.executable, "-P", forked_clients.__file__]
    if cold:
        guarded.append(forked_clients.COLD)
    replace(command, words=[*guarded, *PATIENT, *command.words]).show().become()


def flower_supernode(
    folder: NodeFolder, superlink: str, node_config: str, port: int, health_port: int = 0
) -> Command:
    """Flower's command: the SuperNode's own API listens on `port` of the loopback interface."""
    options = {
        "--superlink": superlink,
        "--root-certificates": folder.authority,
        "--auth-supernode-private-key": folder.key,
        "--node-config": node_config,
        "--host": LOOPBACK,
        "--port": port,
    }
    return flower_program("flower-supernode", options, health_port, folder.flower_home)
