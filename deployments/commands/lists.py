"""The commands `methods`, `datasets` and `presets`."""

from typing import Annotated

import typer

from curvfed.deployments.package_files import PRESETS, name_hint, package_files


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
        typer.Argument(metavar="[PRESET]", autocompletion=lambda: list(package_files(PRESETS))),
    ] = None,
) -> None:
    """List the shipped presets, which are sets of keys, or print PRESET.

    curvfed presets quick
    """
    from curvfed.deployments.commands.catalogue import list_presets

    if name is None:
        list_presets()
    elif name in package_files(PRESETS):
        print(package_files(PRESETS)[name].read_text(encoding="utf-8"), end="")
    else:
        raise typer.BadParameter(f"{name!r} is no preset; {name_hint(PRESETS, name)}")
