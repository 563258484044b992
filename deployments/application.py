"""Commands and their groups, and the arguments that several have: help keeps paragraphs, errors
about words suggest known ones, and other expected errors end a command with one line and an exit
status."""

import contextlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import click
import typer
import typer.main
from typer.core import TyperGroup

from curvfed.deployments.arguments import UsageError
from curvfed.deployments.package_files import PRESETS, package_files
from curvfed.strategies.config.run_config import defaults, nearest_key
from curvfed.tasks.plugins import absent_hint
from curvfed.tasks.shipped import COMMANDS

Function = TypeVar("Function", bound=Callable[..., Any])


def help_text(source: str) -> str:
    """The text with each paragraph and each list item on one line.

    Typer breaks help at each line end of its source. Examples, which begin with `curvfed`, stay as
    they are.
    """
    lines: list[str] = []
    for line in inspect.cleandoc(source).splitlines():
        text = line.strip()
        begins = not text or text.startswith(("- ", "curvfed "))
        if begins or not lines or not lines[-1] or lines[-1].startswith("curvfed "):
            lines.append(text)
        else:
            lines[-1] += f" {text}"
    return "\n".join(lines)


class Application(typer.Typer):
    """A Typer application; its help and that of its commands are `help_text`."""

    def __init__(self, **options: Any) -> None:
        if "help" in options:
            options["help"] = help_text(options["help"])
        super().__init__(**options)

    def command(self, *words: Any, **options: Any) -> Callable[[Function], Function]:
        """Register a function as a command."""

        def register(function: Function) -> Function:
            options.setdefault("help", help_text(function.__doc__ or ""))
            return typer.Typer.command(self, *words, **options)(function)

        return register


def click_command(name: str, command: Callable[..., Any]) -> click.Command:
    """The command of a function, or of a Typer application, under a name."""
    application = Application()
    if isinstance(command, typer.Typer):
        application.add_typer(command, name=name)
    else:
        application.command(name)(command)
    return typer.main.get_group(application).commands[name]


class Commands(TyperGroup):
    """Commands with keys as words without dashes."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Name all commands in the error for an unknown one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            names = ", ".join(self.list_commands(ctx))
            raise click.UsageError(
                f"{error.message} The commands are {names}.{absent_hint(COMMANDS)}", ctx
            ) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Show the form of a key in the error for a key that is written as an option.

        Raises
        ------
        UsageError
        """
        words = " ".join(ctx.args)
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            command = error.ctx.command if error.ctx else self
            takes_keys = any(parameter.name == "pairs" for parameter in command.params)
            if error.possibilities or not takes_keys:
                raise
            option = error.option_name
            key = nearest_key(option.strip("-"), [*defaults(), "num-supernodes"])
            if not key:
                raise
            value = re.search(rf"{re.escape(option)}[ =]([^-\s]\S*)", words)
            pair = f"{key}={value[1] if value else 'VALUE'}"
            raise UsageError(
                f"there is no option {option}; keys have no dashes. Did you mean {pair}?",
                key="option",
            ) from None


class Failure(Exception):
    """The error of a command; its cause has the text.

    Parameters
    ----------
    status : int
        The exit status of the command.
    """

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@contextlib.contextmanager
def failing(status: int, *errors: type[Exception]) -> Iterator[None]:
    """Within the block an error of these classes ends the command with this exit status.

    Raises
    ------
    Failure
    """
    try:
        yield
    except errors as error:
        raise Failure(status) from error


def expanded(text: str) -> Path:
    """A path with ~ replaced by the home folder.

    Raises
    ------
    typer.BadParameter
        If the user is unknown.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise typer.BadParameter(f"{text}: {error}") from None


def all_pairs(pairs: list[str] | None, debug: bool) -> list[str]:
    """The arguments of a run, with the key of `--debug`."""
    return [*(pairs or []), *(["debug=true"] if debug else [])]


def complete_pair(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Names of presets and keys, and after `key=` the names of methods or data sets."""
    before = ctx.params.get("pairs") or []
    if len(before) > 1 and before[-1] == "=":  # bash splits a pair into three words
        return completed_values(before[-2])
    key, equals, _ = incomplete.partition("=")
    if equals:
        return [f"{key}={value}" for value in completed_values(key)]
    return [*package_files(PRESETS), *(f"{name}=" for name in (*defaults(), "num-supernodes"))]


def completed_values(key: str) -> Iterable[str]:
    """The values of `method`, `methods` or `dataset`; none for other keys."""
    if key in ("method", "methods"):
        from curvfed.strategies.methods import METHODS

        return METHODS
    if key != "dataset":
        return ()
    from curvfed.tasks.registry import catalogue

    return [name for name, _, _ in catalogue() if " " not in name]


Pairs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE|PRESET|FILE.toml]...",
        autocompletion=complete_pair,
        help=(
            "Keys of the run configuration (docs/configuration.md lists them), with strings without"
            " quotes; num-supernodes, the number of clients; names of shipped presets; and paths of"
            " .toml files. Later ones win."
        ),
    ),
]
Debug = Annotated[
    bool, typer.Option("--debug", help="Show the server's traceback if an error ends the run.")
]

Address = Annotated[
    str, typer.Option(help="Address of a running Ray cluster; default: this machine.")
]

StatePath = Annotated[
    Path | None,
    typer.Option(parser=expanded, metavar="DIR", help="state-path of the client's node."),
]
Uncalibrated = Annotated[
    bool, typer.Option("--uncalibrated", help="Use the classifier from before the calibration.")
]
