"""The command `curvfed`. Each command imports its modules when it runs, so that help needs neither
torch nor Flower. A command of the group `curvfed cluster` is a function of its name in
`deployments/cluster`."""

import importlib
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import click
import typer
import typer.main

from curvfed.deployments.application import Application, Commands, Failure, expanded
from curvfed.deployments.arguments import UsageError
from curvfed.deployments.commands.check import check, datasets, methods, presets
from curvfed.deployments.commands.models import adapt, curvature, embed, export, predict
from curvfed.deployments.commands.run import run, simulate
from curvfed.deployments.commands.sweep import compare, report, sweep
from curvfed.deployments.resources import check_working_folder
from curvfed.deployments.terminal import lasting_output

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


class ClusterCommands(Commands):
    """The commands of a cluster, in the order of `MODULES`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, or None."""
        if cmd_name not in MODULES:
            return None
        module = importlib.import_module(f"curvfed.deployments.cluster.{MODULES[cmd_name]}")
        command = getattr(module, cmd_name)
        if isinstance(command, Application):
            return typer.main.get_command(command)
        alone = Application(add_completion=False)
        alone.command()(command)
        return typer.main.get_command(alone)


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
        from curvfed.strategies.base.run_keys import home

        folder = home() / "cluster"
    ctx.obj = folder.absolute()


app = Application(
    name="curvfed",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="""
Federated learning in curved spaces.

curvfed simulate quick method=fedper
curvfed methods

Exit status: 0 completed, 1 failed, 2 wrong usage, 130 interrupted.
""",
)
app.add_typer(cluster_app, name="cluster")


def _show_version(is_requested: bool) -> None:
    if is_requested:
        print("curvfed", version("curvfed"))
        raise typer.Exit


@app.callback()
def curvfed(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """The options of the command itself."""
    check_working_folder()


for command in (
    simulate,
    run,
    check,
    curvature,
    compare,
    predict,
    export,
    adapt,
    embed,
    sweep,
    report,
    methods,
    datasets,
    presets,
):
    app.command()(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit status; errors of the user are printed here."""
    # A notebook that runs this command sets its own backend, perhaps of another environment.
    os.environ.pop("MPLBACKEND", None)
    with lasting_output():
        return _status(sys.argv[1:] if arguments is None else arguments)


def _status(arguments: Sequence[str]) -> int:
    is_debug = not {"--debug", "debug=true"}.isdisjoint(arguments)
    try:
        app(arguments, prog_name="curvfed")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Failure as failure:
        _print_error(failure.__cause__, is_debug)
        return failure.status
    except Exception as error:
        from curvfed.deployments.cluster import ClusterError, WrongUsageError
        from curvfed.strategies.errors import ConfigError

        if not isinstance(error, UsageError | ConfigError | ClusterError):
            raise
        _print_error(error, is_debug)
        is_failure = isinstance(error, ClusterError) and not isinstance(error, WrongUsageError)
        return 1 if is_failure else 2
    return 0


def _print_error(error: BaseException | None, is_debug: bool) -> None:
    from rich.console import Console
    from rich.markup import escape

    key = getattr(error, "key", type(error).__name__)
    label = escape(f"error [{key}]:" if is_debug else "error:")
    Console(stderr=True).print(f"[red]{label}[/red] {escape(str(error))}", soft_wrap=True)
