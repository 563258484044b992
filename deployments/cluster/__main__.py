"""A cluster of real machines: one SuperLink, a SuperNode beside each site's data, TLS and a key per node.

    on the server       curvfed cluster init --host fl.example.org --node north --node south
                        curvfed cluster superlink --background
                        curvfed cluster register
    on a node, where its folder was brought
                        curvfed cluster supernode north --node-config 'partition-id=0 data-path="graph.pt"'
    on the server       curvfed cluster run method=flatland num-rounds=20
                        curvfed cluster status
                        curvfed cluster down

Every command of Flower's is printed before it runs. Exit status: 0 done, 1 failed, 2 wrong usage, 128 + n stopped by
signal n (130 for Ctrl-C). Wrong usage is what can never be right, such as a port or a value of `--node-config`; what is
not there yet, or not on this machine, is 1.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from curvfed.deployments.cluster import commands, registry, status, submit
from curvfed.deployments.cluster.daemons import Daemon, stop_all
from curvfed.deployments.cluster.errors import ClusterError, WrongUsageError
from curvfed.deployments.cluster.folder import API_PORT, FLEET_PORT, LAST_PORT, NodeFolder, ServerFolder
from curvfed.deployments.cluster.node_check import check_node
from curvfed.deployments.cluster.preflight import (
    check_certificate,
    check_files,
    check_port,
    check_superlink,
    is_open,
    split_address,
)
from curvfed.deployments.isolated import free_ports
from curvfed.deployments.pairs import UsageError
from curvfed.strategies.run_config import ConfigError

DEFAULT_FOLDER = Path.home() / "curvfed" / "cluster"

SUPERLINK_START, SUPERNODE_START = 120.0, 60.0
"""Seconds to wait for what starts in the background; a SuperNode may be there before its SuperLink. On a busy machine
Flower's imports alone take half of them."""

CONNECTED = "SuperNode ID"
"""What a SuperNode prints once the SuperLink has taken it."""

REFUSED = "Failed to activate SuperNode"
"""What it prints if the SuperLink does not, whatever the reason."""


def init(options: argparse.Namespace) -> int:
    """Certificates, keys, settings."""
    folder = ServerFolder.make(
        options.folder, options.host, options.node, options.fleet_port, options.api_port, options.days
    )
    print(f"cluster: {folder.path}")
    authority, key = (path.name for path in folder.authority)
    print(f"  {authority}  the authority's certificate, which every node has; {key} stays here")
    print(f"  {folder.server[0].name}  for {', '.join(options.host or ['this machine alone'])}, {options.days} days")
    for node in folder.nodes():
        print(f"  nodes/{node.name}  bring this folder to {node.name}'s machine, by a way that others cannot read")
    return 0


def add(options: argparse.Namespace) -> int:
    """Keys of further nodes."""
    folder = ServerFolder.open(options.folder)
    for name in options.names:
        print(f"made: {folder.add_node(name).path}")
    return 0


def renew(options: argparse.Namespace) -> int:
    """A new server certificate."""
    folder = ServerFolder.open(options.folder)
    folder.renew(options.host, options.days)
    print(f"renewed: {folder.server[0]}; it counts from the SuperLink's next start")
    return 0


def superlink(options: argparse.Namespace) -> int:
    """Run the SuperLink."""
    folder = ServerFolder.open(options.folder)
    check_certificate(folder.server[0])
    if (found := Daemon(folder.running, "superlink").process()) is not None:
        raise ClusterError(f"the SuperLink is running already, process {found.pid}; `down` stops it")
    check_port(options.bind, folder.fleet_port, "the SuperLink (nodes)")
    check_port(commands.LOOPBACK, folder.api_port, "the SuperLink (runs)")
    command = commands.superlink(folder, options.bind).show()
    ports = ((commands.LOOPBACK, folder.api_port), (options.bind, folder.fleet_port))
    daemon = Daemon(folder.running, "superlink")
    return _serve(
        command, daemon, options.background, lambda said: all(is_open(*port) for port in ports), SUPERLINK_START
    )


def supernode(options: argparse.Namespace) -> int:
    """Run a SuperNode."""
    folder = _node(ServerFolder(options.folder), options.node)
    address = options.superlink or folder.superlink
    split_address(address)
    check_files(folder)
    if options.port:
        check_port(commands.LOOPBACK, options.port, "the SuperNode (its own API)")
    node_config = check_node(options.node_config)
    check_superlink(address, folder.authority)
    port = options.port or free_ports(1)[0]
    command = commands.supernode(folder, address, node_config, port).show()
    if not options.cold:
        command = replace(command, words=[sys.executable, "-m", "curvfed.deployments.cluster.warm", *command.words])
    daemon = Daemon(folder.running, folder.name)
    try:
        return _serve(command, daemon, options.background, lambda said: CONNECTED in said, SUPERNODE_START)
    except ClusterError as error:
        if REFUSED not in str(error):
            raise
        raise ClusterError(
            f"{error}\nThe SuperLink does not take this key: it is not registered there (on the server: `python -m "
            f"curvfed.deployments.cluster register {folder.name}`), it was revoked, or its last SuperNode was killed and "
            "counts as connected for a minute yet"
        ) from None


def _serve(
    command: commands.Command, daemon: Daemon, background: bool, is_up: Callable[[str], bool], patience: float
) -> int:
    if not background:
        os.execvpe(command.words[0], command.words, command.environment)
    is_there = daemon.start(command, is_up, patience)
    process = daemon.process()
    print(f"{daemon.name}: process {process.pid if process else '?'}, log {daemon.log}")
    if not is_there:
        print(f"note: not up after {patience:g} s; it goes on trying")
    return 0


def register(options: argparse.Namespace) -> int:
    """Let nodes take part."""
    registry.register(ServerFolder.open(options.folder), options.nodes)
    return 0


def revoke(options: argparse.Namespace) -> int:
    """Let nodes take part no more."""
    registry.revoke(ServerFolder.open(options.folder), options.nodes)
    return 0


def show_status(options: argparse.Namespace) -> int:
    """What runs, and how the runs went."""
    folder = ServerFolder.open(options.folder)
    if options.wait:
        status.wait(folder, options.wait)
    return status.show(folder)


def run(options: argparse.Namespace) -> int:
    """Run a method."""
    folder = ServerFolder.open(options.folder)
    return submit.run(folder, submit.configuration(options.pairs), options.retries)


def down(options: argparse.Namespace) -> int:
    """Stop what runs in the background."""
    folder = ServerFolder(options.folder)
    if options.nodes:
        folders = [_node(folder, name) for name in options.nodes]
        stopped = stop_all([node.running for node in folders if node.superlink])
    else:
        ServerFolder.open(options.folder)
        stopped = stop_all([*(node.running for node in folder.nodes()), folder.running])
    print("stopped: " + (", ".join(stopped) or "nothing was running in the background"))
    return 0


def _node(folder: ServerFolder, name: str) -> NodeFolder:
    """A node by its folder, or by its name where that lies beside the server's files."""
    path = Path(name).expanduser()
    if path.is_dir():
        return NodeFolder(path.absolute())
    if (node := folder.node(name)).path.is_dir():
        return node
    names = ", ".join(node.name for node in folder.nodes()) or "none"
    raise ClusterError(f"there is no folder {path.absolute()}, and no node {name!r} in {folder.path}; there: {names}")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="curvfed cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument(
        "--folder", type=_path, default=DEFAULT_FOLDER, metavar="DIR", help=f"the server's folder ({DEFAULT_FOLDER})"
    )
    actions = top.add_subparsers(dest="action", required=True, metavar="COMMAND")

    one = actions.add_parser("init", help="certificates, keys and settings; overwrites nothing")
    one.add_argument("--host", action="append", default=[], metavar="NAME",
                     help="name or address by which nodes reach the server; may be repeated")  # fmt: skip
    one.add_argument("--node", action="append", default=[], metavar="NAME", help="a node to make a key for; repeatable")
    one.add_argument("--fleet-port", type=_port, default=FLEET_PORT, metavar="P", help=f"for nodes ({FLEET_PORT})")
    one.add_argument("--api-port", type=_port, default=API_PORT, metavar="P",
                     help=f"for runs and registrations, on loopback ({API_PORT})")  # fmt: skip
    one.add_argument("--days", type=int, default=365, metavar="N", help="until the server's certificate ends (365)")
    one.set_defaults(act=init)

    one = actions.add_parser("add", help="keys of further nodes")
    one.add_argument("names", nargs="+", metavar="NAME")
    one.set_defaults(act=add)

    one = actions.add_parser("renew", help="a new server certificate by the same authority")
    one.add_argument("--host", action="append", default=[], metavar="NAME", help="other names than those of before")
    one.add_argument("--days", type=int, default=365, metavar="N")
    one.set_defaults(act=renew)

    one = actions.add_parser("superlink", help="run the SuperLink")
    one.add_argument("--bind", default="0.0.0.0", metavar="ADDRESS", help="where nodes may come in (0.0.0.0)")
    one.add_argument("--background", action="store_true", help="return once it is up; `down` stops it")
    one.set_defaults(act=superlink)

    one = actions.add_parser("supernode", help="run a SuperNode")
    one.add_argument("node", metavar="NODE", help="its folder, or its name where it runs beside the server")
    one.add_argument("--node-config", required=True, metavar="'KEY=VALUE …'",
                     help="partition-id and data-path of this node, and more: docs/deployment.md")  # fmt: skip
    one.add_argument("--superlink", metavar="HOST:PORT", help="where the SuperLink is, if not as init was told")
    one.add_argument("--port", type=_port, default=0, metavar="P", help="of its own API on loopback (any free one)")
    one.add_argument("--cold", action="store_true", help="import everything anew for every message, as Flower does")
    one.add_argument("--background", action="store_true", help="return once it runs; `down` stops it")
    one.set_defaults(act=supernode)

    one = actions.add_parser("register", help="let nodes take part")
    one.add_argument("nodes", nargs="*", metavar="NAME|FILE.pub", help="all of init's by default")
    one.set_defaults(act=register)

    one = actions.add_parser("revoke", help="let nodes take part no more")
    one.add_argument("nodes", nargs="+", metavar="NAME", help="or the id that Flower gave it")
    one.set_defaults(act=revoke)

    one = actions.add_parser("status", help="what runs, who is connected, how runs went")
    one.add_argument("--wait", type=_count, default=0, metavar="N", help="first wait until N nodes are connected")
    one.set_defaults(act=show_status)

    one = actions.add_parser("run", help="run a method and wait for its end")
    one.add_argument(
        "pairs", nargs="*", metavar="key=value", help="run config; strings need no quotes; or a .toml file"
    )
    one.add_argument("--retries", type=_count, default=0, metavar="N",
                     help="after a failure go on from the checkpoint, up to N times (0)")  # fmt: skip
    one.set_defaults(act=run)

    one = actions.add_parser("down", help="stop what runs in the background")
    one.add_argument("nodes", nargs="*", metavar="NODE", help="these alone, by folder or name; on a node: its folder")
    one.set_defaults(act=down)
    return top


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; allowed is 1 to {LAST_PORT}")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of them; allowed is a whole one, 0 or more")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says, and return the exit status."""
    options = parser().parse_args(arguments)
    errors = Console(stderr=True)
    try:
        return int(options.act(options))
    except (UsageError, ConfigError, WrongUsageError) as error:
        errors.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        return 2
    except ClusterError as error:
        errors.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        return 1


if __name__ == "__main__":
    sys.exit(main())
