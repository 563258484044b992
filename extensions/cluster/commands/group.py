"""The group `curvfed cluster`: each command is a function, or an application, of its name in a
module of this folder, imported when it runs or its help is shown."""

import errno
import importlib
from pathlib import Path
from typing import Annotated, Any

import click
import typer

from curvfed.deployments.application import Application, Commands, click_command, expanded
from curvfed.extensions.cluster.commands import ClusterError

MODULES = {
    "init": "setup",
    "add": "setup",
    "renew": "setup",
    "superlink": "flower",
    "supernode": "flower",
    "service": "service",
    "doctor": "status",
    "register": "registry",
    "revoke": "registry",
    "status": "status",
    "ledger": "ledger",
    "regroup": "ledger",
    "run": "run",
}
"""The module of each command, in the order of the list."""


FAULTS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
"""Faults of this user's rights, or of a disk."""


class ClusterCommands(Commands):
    """The commands of a cluster, in the order of `MODULES`."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a fault of rights or of a disk is an error of one line."""
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.errno not in FAULTS:
                raise
            place = f"{error.filename}: " if error.filename else ""
            raise ClusterError(f"{place}{error.strerror}", key="unwritable") from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, or None."""
        if cmd_name not in MODULES:
            return None
        module = importlib.import_module(f"curvfed.extensions.cluster.commands.{MODULES[cmd_name]}")
        return click_command(cmd_name, getattr(module, cmd_name))


cluster_app = Application(
    cls=ClusterCommands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""
A cluster of real machines: one SuperLink, a SuperNode beside each site's
data, TLS and a key per node.

[bold]On the server[/bold]
  curvfed cluster init --host fl.example.org --node north --node south --node west
  curvfed cluster service install
  curvfed cluster register
[bold]On a node, with its folder[/bold]
  curvfed cluster service install ~/north --node-config 'partition-id=0 data-path="graph.pt"'
[bold]On the server[/bold]
  curvfed cluster run method=flatland num-rounds=20
  curvfed cluster status
  curvfed cluster doctor

Flower's commands are printed before they run. Exit status: 0 done, 1 failed, 2
wrong usage, 128 + n stopped by signal n (130 for Ctrl-C). Wrong usage is wrong on
every machine, such as a port or a value of --node-config; if a file or program is
missing on this machine, the status is 1.
""",
)


@cluster_app.callback()
def cluster(
    ctx: typer.Context,
    folder: Annotated[
        Path | None,
        typer.Option(
            parser=expanded,
            metavar="DIR",
            help="The server's folder, ~/curvfed/cluster by default.",
        ),
    ] = None,
) -> None:
    """The common option of the commands of a cluster."""
    if folder is None:
        from curvfed.extensions.cluster.commands.folder import default_folder

        folder = default_folder()
    ctx.obj = folder.absolute()
