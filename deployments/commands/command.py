"""The command `curvfed`. Each command imports its modules when it runs, so that help needs neither
torch nor Flower. Extensions and other packages add theirs."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import click
import typer

from curvfed.deployments.application import Application, Commands, Failure, click_command
from curvfed.deployments.arguments import UsageError
from curvfed.deployments.commands.check import check
from curvfed.deployments.commands.models import predict
from curvfed.deployments.commands.run import run, simulate
from curvfed.deployments.errors import MachineError
from curvfed.deployments.flower_version import flower_and_transport
from curvfed.deployments.resources import check_working_folder
from curvfed.deployments.terminal import lasting_output
from curvfed.tasks import plugins, shipped


class AllCommands(Commands):
    """The core's commands, and those of extensions and other packages, the objects of the group
    `curvfed.commands`: functions or Typer applications."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, the core's first."""
        return [*super().list_commands(ctx), *plugins.additions(shipped.COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, or None. If its object cannot be imported, or is not a command,
        the command raises this error, and help shows it."""
        command = super().get_command(ctx, cmd_name)
        if command is not None or cmd_name not in plugins.additions(shipped.COMMANDS):
            return command
        try:
            return click_command(cmd_name, plugins.addition(shipped.COMMANDS, cmd_name))
        except Exception as error:  # an object of another package can be anything
            return _unusable(cmd_name, str(error))


def _unusable(name: str, reason: str) -> click.Command:
    """A command that only raises an error."""

    def refuse() -> None:
        raise UsageError(f"command {name}: {reason}", key="command")

    return click.Command(
        name,
        callback=refuse,
        help=f"Cannot be used: {reason}",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


app = Application(
    name="curvfed",
    cls=AllCommands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="""
Federated learning in curved spaces.

curvfed simulate quick method=fedper

Exit status: 0 completed, 1 failed, 2 wrong usage, 130 interrupted.
""",
)


def _show_version(is_requested: bool) -> None:
    if is_requested:
        print("curvfed", version("curvfed"))
        print(flower_and_transport())
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


CORE = (simulate, run, check, predict)
"""The commands of the core, in the order of the list."""

for command in CORE:
    app.command()(command)
plugins.leave_out(shipped.COMMANDS, (command.__name__ for command in CORE))


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
        if isinstance(end.code, int):
            return end.code
        return int(end.code is not None)
    except Failure as failure:
        _print_error(failure.__cause__, is_debug)
        return failure.status
    except Exception as error:
        from curvfed.strategies.errors import ConfigError

        if not isinstance(error, UsageError | ConfigError | MachineError):
            raise
        _print_error(error, is_debug)
        return error.status if isinstance(error, MachineError) else 2
    return 0


def _print_error(error: BaseException | None, is_debug: bool) -> None:
    from rich.text import Text

    from curvfed.deployments.terminal import open_console

    key = getattr(error, "key", type(error).__name__)
    label = f"error [{key}]:" if is_debug else "error:"
    line = Text.assemble((label, "red"), f" {error}")
    open_console(stderr=True).print(line, soft_wrap=True)
