"""`curvfed cluster init`: the certificates, keys and settings of a new cluster."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tomli_w
import typer

from curvfed.deployments.cluster import certificates
from curvfed.deployments.cluster.add import add_node, check_name
from curvfed.deployments.cluster.errors import ClusterError, WrongUsageError
from curvfed.deployments.cluster.folder import (
    API_PORT,
    CONNECTION,
    FLEET_PORT,
    SETTINGS,
    ServerFolder,
)
from curvfed.deployments.cluster.options import LAST_PORT, SERVER_DAYS, Days
from curvfed.deployments.groups import Application

PARTS = ("ca.crt", "ca.key", "server.crt", "server.key", "nodes", "flwr", SETTINGS)
"""The files and folders of a new cluster."""

app = Application(add_completion=False)


@app.command()
def init(
    ctx: typer.Context,
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name or address of the server for nodes; repeatable."),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name of a node; a key is made for it; repeatable."),
    ] = None,
    fleet_port: Annotated[
        int, typer.Option(min=1, max=LAST_PORT, metavar="P", help="Port for nodes.")
    ] = FLEET_PORT,
    api_port: Annotated[
        int,
        typer.Option(
            min=1, max=LAST_PORT, metavar="P", help="Port for runs and registrations, on loopback."
        ),
    ] = API_PORT,
    days: Days = SERVER_DAYS,
) -> None:
    """Make certificates, keys and settings; nothing is overwritten."""
    folder = make_cluster(ctx.obj, host or [], node or [], fleet_port, api_port, days)
    authority, key = (path.name for path in folder.authority)
    print(f"cluster: {folder.path}")
    print(f"  {authority}  the authority's certificate, for every node; {key} stays here")
    print(
        f"  {folder.server[0].name}  for {', '.join(host or ['this machine alone'])}, {days} days"
    )
    for new in folder.nodes():
        print(
            f"  nodes/{new.name}  copy this folder to {new.name}'s machine, over a connection that"
            " others cannot read"
        )


def make_cluster(
    path: Path,
    names: Sequence[str],
    nodes: Sequence[str],
    fleet_port: int,
    api_port: int,
    days: int,
) -> ServerFolder:
    """Make the certificates, keys and settings of a new cluster.

    The settings are first written under another name and renamed at the end. Until then the folder
    is no cluster, and the next call removes the files of a killed process.

    Raises
    ------
    ClusterError
        If the folder has a cluster already.
    WrongUsageError
        If names, days or ports cannot be those of a cluster.
    """
    folder = ServerFolder(path, fleet_port, api_port)
    settings = path / SETTINGS
    unfinished = path / f".{SETTINGS}"
    existing = [name for name in PARTS if (path / name).exists()]
    if settings.exists() or (existing and not unfinished.exists()):
        raise ClusterError(
            f"{path} holds a cluster already, {', '.join(existing)}, and is not overwritten;"
            " allowed is another --folder",
            key="exists",
        )
    for name in nodes:
        check_name(name)
    if len(set(nodes)) < len(nodes):
        raise WrongUsageError(f"nodes {', '.join(nodes)}: two have one name", key="node-name")
    certificate_names = certificates.server_names(names)
    certificates.check_days(days)
    if fleet_port == api_port:
        raise WrongUsageError(
            f"fleet-port and api-port are both {api_port}; allowed are two different ones",
            key="ports",
        )
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.chmod(0o700)  # the folder may have existed
    for name in existing:
        _remove(path / name)
    unfinished.unlink(missing_ok=True)
    address = f"{names[0] if names else certificates.LOOPBACK[0]}:{fleet_port}"
    ports = {"superlink": address, "fleet-port": fleet_port, "api-port": api_port}
    certificates.write_new(unfinished, tomli_w.dumps(ports).encode())
    certificates.make_authority(*folder.authority)
    certificates.make_server(*folder.server, folder.authority, certificate_names, days)
    (path / "nodes").mkdir(mode=0o700)
    for name in nodes:
        add_node(folder, name, address)
    connection = {
        "address": f"127.0.0.1:{api_port}",
        "root-certificates": str(folder.authority[0].absolute()),
    }
    flower = {"superlink": {"default": CONNECTION, CONNECTION: connection}}
    certificates.write_new(folder.flower_home / "config.toml", tomli_w.dumps(flower).encode())
    unfinished.rename(settings)
    return folder


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
