"""The commands `methods`, `datasets` and `presets`: what there is."""

from typing import Annotated

import typer

from curvfed.deployments.shipped import PRESETS, nearest, shipped


def methods() -> None:
    """List the methods: what each is, and the tasks that it works on."""
    from curvfed.deployments.commands.catalogue import list_methods

    list_methods()


def datasets() -> None:
    """List the data sets: the task of each, and where it is from."""
    from curvfed.deployments.commands.catalogue import list_datasets

    list_datasets()


def presets(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[PRESET]", autocompletion=lambda: list(shipped(PRESETS))),
    ] = None,
) -> None:
    """List the shipped presets, each of which stands for some keys, or print PRESET.

    curvfed presets quick
    """
    from curvfed.deployments.commands.catalogue import list_presets

    if name is None:
        list_presets()
    elif name in shipped(PRESETS):
        print(shipped(PRESETS)[name].read_text(encoding="utf-8"), end="")
    else:
        raise typer.BadParameter(f"{name!r} is no preset; {nearest(PRESETS, name)}")
