"""Arguments and options that several commands have, and what a shell completes them with."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from curvfed.deployments.shipped import PRESETS, SWEEPS, shipped


def expanded(text: str) -> Path:
    """A path whose ~ is a home.

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
    """The arguments of a run, with the key that `--debug` stands for."""
    return [*(pairs or []), *(["debug=true"] if debug else [])]


def complete_pair(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Names of presets, keys, and after `key=` what is allowed there."""
    from curvfed.strategies.config.all_keys import defaults

    before = ctx.params.get("pairs") or []
    if len(before) > 1 and before[-1] == "=":  # bash makes three words of a pair
        return _values(before[-2])
    key, equals, _ = incomplete.partition("=")
    if equals:
        return [f"{key}={value}" for value in _values(key)]
    return [*shipped(PRESETS), *(f"{one}=" for one in (*defaults(), "num-supernodes"))]


def _values(key: str) -> Iterable[str]:
    """The names that `method` or `dataset` may have; of other keys nothing is told."""
    if key == "method":
        from curvfed.strategies.methods import METHODS

        return METHODS
    from curvfed.tasks.registry import catalogue

    return [name for name, _, _ in catalogue() if " " not in name] if key == "dataset" else ()


Pairs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE|PRESET|FILE.toml]...", autocompletion=complete_pair),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the server's traceback of what ends the run.")]
Sweep = Annotated[
    str,
    typer.Argument(metavar="SWEEP", autocompletion=lambda: list(shipped(SWEEPS))),
]
