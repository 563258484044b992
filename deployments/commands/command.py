"""The command `curvfed`. Each command imports its modules when it runs, so that help needs neither
torch nor Flower."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from curvfed.deployments.application import Application, Commands, Failure
from curvfed.deployments.arguments import UsageError
from curvfed.deployments.commands.check import check
from curvfed.deployments.commands.cluster import app as cluster
from curvfed.deployments.commands.data import curvature, embed
from curvfed.deployments.commands.listings import datasets, methods, presets
from curvfed.deployments.commands.models import adapt, export, predict
from curvfed.deployments.commands.run import run, simulate
from curvfed.deployments.commands.sweep import compare, report, sweep
from curvfed.deployments.output_file import check_working_folder
from curvfed.deployments.terminal import lasting_output

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
app.add_typer(cluster, name="cluster")


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
        from curvfed.deployments.cluster.errors import ClusterError, WrongUsageError
        from curvfed.strategies.errors import ConfigError  # takes a while to import

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
