"""`curvfed cluster register`: nodes whose keys the SuperLink accepts."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from curvfed.deployments.cluster import database, registry
from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.cluster.flower_commands import SILENT, Command, flwr
from curvfed.deployments.cluster.folder import ServerFolder
from curvfed.deployments.cluster.options import open_folder
from curvfed.deployments.groups import Application

SUPERLINK_START = 120.0
PAUSE = 1.0
"""Seconds to wait for a SuperLink that starts, and between two attempts. On a busy machine Flower's
imports take half a minute."""

app = Application(add_completion=False)


@app.command()
def register(
    ctx: typer.Context,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="[NAME|FILE.pub]...")] = None,
) -> None:
    """Register nodes, by their names or public keys; default: all nodes of init. A SuperLink that
    starts is waited for."""
    register_nodes(open_folder(ctx), nodes or [])


def register_nodes(folder: ServerFolder, nodes: Sequence[str]) -> None:
    """Register nodes by name or by the files of their public keys; by default all nodes of the
    folder.

    Raises
    ------
    ClusterError
        If a key is missing, or Flower refuses it.
    """
    ids = registry.read_names(folder)
    names = list(nodes) or [node.name for node in folder.nodes() if node.name not in ids]
    if not names:
        print("nothing to register: every node of this folder is registered")
    for name in names:
        key = folder.node(name).public_key
        if name.endswith(".pub"):
            key = Path(name).expanduser()
            name = key.name.removesuffix(".pub").removesuffix(".key")
        if not key.is_file():
            raise ClusterError(f"there is no public key {key}", key="missing-file")
        if name in ids:
            raise ClusterError(
                f"{name} is registered already, as {ids[name]}; `revoke {name}` undoes it",
                key="registered",
            )
        options = ["--name", name, "--format", "json"]
        command = flwr(folder, "supernode", "register", key.absolute(), options=options)
        try:
            ids[name] = str(_ask(command.show())["node-id"])
        except ClusterError as error:
            if "already in use" not in str(error):
                raise
            raise ClusterError(
                f"{error}\nA revoked key is never accepted again; once its folder is removed,"
                f" `add {name}` makes a new one",
                key="revoked-key",
            ) from None
        registry.write_names(folder, ids)
        database.back_up(folder)
        registry.audit(folder, registry.REGISTERED, name, node=ids[name])
        print(f"registered: {name} as {ids[name]}")


def _ask(command: Command) -> dict[str, Any]:
    """The answer to a command, which a SuperLink that starts may give later."""
    deadline = time.monotonic() + SUPERLINK_START
    announced = False
    while True:
        try:
            return command.ask()
        except ClusterError as error:
            if error.kind != SILENT or time.monotonic() > deadline:
                raise
        if not announced:
            print(f"waiting up to {SUPERLINK_START:g} s for the SuperLink", flush=True)
            announced = True
        time.sleep(PAUSE)
