"""The commands `methods`, `datasets` and `presets`."""

from typing import Annotated

import typer

from curvfed.deployments.shipped import PRESETS, nearest, shipped


def methods() -> None:
    """List the methods, with a summary and the tasks of each."""
    from curvfed.deployments.commands.catalogue import list_methods

    list_methods()


def datasets() -> None:
    """List the data sets, with the task and the origin of each."""
    from curvfed.deployments.commands.catalogue import list_datasets

    list_datasets()


def presets(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[PRESET]", autocompletion=lambda: list(shipped(PRESETS))),
    ] = None,
) -> None:
    """List the shipped presets, which are sets of keys, or print PRESET.

    curvfed presets quick
    """
    from curvfed.deployments.commands.catalogue import list_presets

    if name is None:
        list_presets()
    elif name in shipped(PRESETS):
        print(shipped(PRESETS)[name].read_text(encoding="utf-8"), end="")
    else:
        raise typer.BadParameter(f"{name!r} is no preset; {nearest(PRESETS, name)}")
