"""`curvfed cluster init`, `add` and `renew`: the certificates, keys and settings of a cluster."""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import click
import tomli_w
import typer

from curvfed.extensions.cluster.commands import ClusterError, WrongUsageError, certificates
from curvfed.extensions.cluster.commands.flower_commands import write_connection
from curvfed.extensions.cluster.commands.folder import (
    API_PORT,
    FLEET_PORT,
    LAST_PORT,
    SERVER_DAYS,
    SETTINGS,
    Days,
    NodeFolder,
    ServerFolder,
    open_folder,
)
from curvfed.strategies.base.shared_tables import GROUP_SIZE

PARTS = ("ca.crt", "ca.key", "server.crt", "server.key", "nodes", "flwr", SETTINGS)
"""The files and folders of a new cluster."""


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
    group_size: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help="Smallest number of nodes in a secure sum: all members of a group but one can see"
            " what the last one sent. Default: 5; on a terminal the command asks for more than 9"
            " nodes.",
        ),
    ] = None,
) -> None:
    """Make certificates, keys and settings; nothing is overwritten."""
    names = node or []
    if group_size is None and len(names) >= 2 * GROUP_SIZE and sys.stdin.isatty():
        print(
            f"{len(names)} nodes are summed in groups, with all members of a group or not at all."
            " All members but one can compute what the last one sent, with the server; a larger"
            " group waits for more nodes."
        )
        group_size = typer.prompt(
            "Smallest number of nodes in a group", default=GROUP_SIZE, type=click.IntRange(min=2)
        )
    size = group_size or GROUP_SIZE
    folder = make_cluster(ctx.obj, host or [], names, fleet_port, api_port, days, group_size=size)
    authority, key = (path.name for path in folder.authority)
    print(f"cluster: {folder.path}")
    print(f"  {authority}  the authority's certificate, for every node; {key} stays here")
    print(
        f"  {folder.server[0].name}  for {', '.join(host or ['this machine alone'])}, {days} days"
    )
    if len(names) >= 2 * size:
        print(
            f"  secure sums over groups of {size} to {2 * size - 1} nodes, once they have a roster"
        )
    for new in folder.nodes():
        print(
            f"  nodes/{new.name}  copy this folder to {new.name}'s machine, over a connection that"
            " others cannot read"
        )
    if names:
        print(f"  a node on this machine needs no copy: its commands take its name, {names[0]}")
        print(INSTALL)


INSTALL = """\
on each node's machine, beside the two files that `make wheel` leaves in dist/:
  python3 -m venv ~/curvfed-env
  ~/curvfed-env/bin/pip install --require-hashes -r requirements-node.txt
  . ~/curvfed-env/bin/activate"""
"""How a node's machine gets curvfed."""


def make_cluster(
    path: Path,
    names: Sequence[str],
    nodes: Sequence[str],
    fleet_port: int,
    api_port: int,
    days: int,
    *,
    group_size: int = GROUP_SIZE,
) -> ServerFolder:
    """Make the certificates, keys and settings of a new cluster.

    The settings are first written under another name and renamed at the end. Until then the folder
    is not a cluster, and the next call removes the files of a killed process.

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
    host = certificates.node_host(names)
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
    if ":" in host:
        address = f"[{host}]:{fleet_port}"
    else:
        address = f"{host}:{fleet_port}"
    ports = {"superlink": address, "fleet-port": fleet_port, "api-port": api_port}
    sizes = {} if group_size == GROUP_SIZE else {"group-size": group_size}
    certificates.write_new(unfinished, tomli_w.dumps(ports | sizes).encode())
    certificates.make_authority(*folder.authority)
    certificates.make_server(*folder.server, folder.authority, certificate_names, days)
    (path / "nodes").mkdir(mode=0o700)
    for name in nodes:
        add_node(folder, name, address, group_size)
    write_connection(folder)
    unfinished.rename(settings)
    return folder


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


POLICY = """\
# What this node gives to a run, whatever the run requests: docs/security.md, "policy.toml".
# Every line is a comment: the default, or an example. Changes take effect with the next message.

[data]
# path = "/srv/cells.h5ad"        # the node's own data; or data-path in its --node-config
# Keys for reading a file of points. A run with other values of its points.* keys is refused:
# label-key = "label"
# embedding-key = "X_poincare"
# classes = ["a", "b"]            # without this line: all classes
# curvature = -1.0
# classes-at = 1                  # of a folder of images, likewise for images.classes-at
# The shares of training and test records; without these lines those of the first run:
# train-size = 0.75
# test-size = 0.25
# public = ["cora", "digits"]     # default, without own data: any named data set, no path

[runs]
# methods = ["hull", "fedavg"]    # without this line: all
# calibrations = ["ffc"]          # without this line: all, but none beside a line methods
# keys = { "local-epochs" = [1, 2], "hull.epsilon" = { min = 0.01 } }
# lost-state = "refuse"           # lost personal parameters: "refuse", "previous", "fresh"
# code = "installed"              # or "any", or digests of bundles whose own code may run here too
# starts = []                     # digests of allowed starts from a file (init-from), or "any"
# configurations = 1              # in how many ways a start, or the data, may be asked for sums
# A run's "model" of another package, another "secure.clip", and for public data its "data-dir",
# must be listed in keys.

[leaves]
# secure-sum = false              # true: updates and scores leave it only in secure sums
# share-statistics = false        # without this line: if the run requests them
# hull-max-share = 1.0            # the largest share of its points that hulls of all runs reveal
# hull-min-class-size = 5         # hull, moments or counts of a class with fewer examples stay here

[sums]
# group-size = 5                  # smallest group of a roster; the same at every node
# contributors = 3                # minimum number of nodes in a secure sum
# weight-share = 0.5              # the largest share of a sum's examples that the node may have
# others-examples = 10            # minimum number of examples of all other nodes together
# min-holders = 3                 # what fewer members have stays here: classes, entities of links
# regroups-per-quarter = 1        # how often its members may change: `curvfed cluster regroup`

[privacy]
# max-epsilon = 3.0               # budget of all runs together; without this line: none
# delta = 1e-05                   # the probability beside it
"""
"""The `policy.toml` of a new node; each line is a comment with the default."""


def add(ctx: typer.Context, names: Annotated[list[str], typer.Argument(metavar="NAME...")]) -> None:
    """Make keys for further nodes."""
    folder = open_folder(ctx, is_changed=True)
    for name in names:
        new = add_node(folder, name, folder.superlink, folder.group_size)
        print(f"made: {new.path}")


def add_node(
    folder: ServerFolder, name: str, address: str, group_size: int = GROUP_SIZE
) -> NodeFolder:
    """Make the folder of a node: key, policy, the authority's certificate, and the address of the
    SuperLink.

    Raises
    ------
    ClusterError
        If it exists.
    WrongUsageError
        If the name cannot be that of a node.
    """
    check_name(name)
    node = folder.node(name)
    if node.path.exists():
        raise ClusterError(
            f"{node.path} exists and is not overwritten; allowed is another name", key="exists"
        )
    new = NodeFolder(node.path.with_name(f".{name}.new"))
    shutil.rmtree(new.path, ignore_errors=True)  # a killed process may have left it
    new.path.mkdir(parents=True, mode=0o700)
    new.flower_home.mkdir(mode=0o700)  # the rest may be mounted read-only
    certificates.make_node_key(new.key, new.public_key)
    certificates.write_new(new.authority, folder.authority[0].read_bytes())
    policy = POLICY
    if group_size != GROUP_SIZE:
        policy = re.sub("(?m)^# group-size = [0-9]+ ", f"group-size = {group_size} ", policy)
    certificates.write_new(new.policy, policy.encode())
    settings = tomli_w.dumps({"superlink": address})
    certificates.write_new(new.path / "node.toml", settings.encode())
    new.path.rename(node.path)
    return node


def check_name(name: str) -> None:
    """Refuse a text that cannot be the name of a node.

    Raises
    ------
    WrongUsageError
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
        raise WrongUsageError(
            f"{name!r} is no name of a node; allowed are A-Z, a-z, digits, '.', '_' and '-'",
            key="node-name",
        )


def renew(
    ctx: typer.Context,
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="New names; default: those of the old certificate."),
    ] = None,
    days: Days = SERVER_DAYS,
) -> None:
    """Make a new server certificate by the same authority."""
    folder = open_folder(ctx, is_changed=True)
    certificates.check_authority(folder.authority)
    names = certificates.server_names(host) if host else certificates.names_of(folder.server[0])
    certificates.check_days(days, certificates.time_left(folder.authority[0]).days)
    certificate, key = (path.with_name(f"{path.name}.new") for path in folder.server)
    for path in (certificate, key):
        path.unlink(missing_ok=True)
    certificates.make_server(certificate, key, folder.authority, names, days)
    os.replace(certificate, folder.server[0])
    os.replace(key, folder.server[1])
    print(f"renewed: {folder.server[0]}; it takes effect when the SuperLink starts again")
