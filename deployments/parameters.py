"""Common arguments and options of commands, and their completion in a shell."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from curvfed.deployments.package_files import PRESETS, SWEEPS, package_files


def expanded(text: str) -> Path:
    """A path with ~ replaced by the home folder.

    Raises
    ------
    typer.BadParameter
        If there is no such user.
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
    from curvfed.strategies.config.run_config import defaults

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

Sweep = Annotated[
    str, typer.Argument(metavar="SWEEP", autocompletion=lambda: list(package_files(SWEEPS)))
]
Cpus = Annotated[int, typer.Option(min=1, metavar="C", help="Cores and threads for each run.")]
Gpus = Annotated[float, typer.Option(metavar="F", help="Share of a GPU for each run.")]
Address = Annotated[
    str, typer.Option(help="Address of a running Ray cluster; default: this machine.")
]
Scale = Annotated[
    str,
    typer.Option(help="One of the scales of the sweep file."),
]
Data = Annotated[
    Path | None,
    typer.Option(parser=expanded, metavar="DIR", help="Folder of the public data sets."),
]
Results = Annotated[
    Path | None,
    typer.Option(
        parser=expanded, metavar="DIR", help="Folder of the runs, ~/curvfed/sweeps by default."
    ),
]
