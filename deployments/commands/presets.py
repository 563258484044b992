"""`curvfed presets`: the list of presets, or one of them."""

import re
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

from curvfed.deployments.package_files import PRESETS, name_hint, package_files
from curvfed.deployments.tables import print_rows


def presets(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[PRESET]", autocompletion=lambda: list(package_files(PRESETS))),
    ] = None,
) -> None:
    """List the shipped presets, which are sets of keys, or print PRESET.

    curvfed presets quick
    """
    if name is None:
        _list()
    elif name in package_files(PRESETS):
        print(package_files(PRESETS)[name].read_text(encoding="utf-8"), end="")
    else:
        raise typer.BadParameter(f"{name!r} is no preset; {name_hint(PRESETS, name)}")


def _list() -> None:
    """Print the shipped presets, grouped by the first sentence of their descriptions."""
    names: dict[str, list[str]] = {}
    for name, path in package_files(PRESETS).items():
        names.setdefault(_first_sentence(path), []).append(name)
    print_rows(
        ("preset", "what it is"),
        [("\n".join(group), sentence) for sentence, group in names.items()],
    )


def _first_sentence(path: Path) -> str:
    """The first sentence of the comment at the top of a file."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^# format \d+ of curvfed\n", "", text, flags=re.MULTILINE)
    lines = takewhile(lambda line: line.startswith("#"), text.splitlines())
    comment = " ".join(line.removeprefix("# ") for line in lines)
    return re.split(r"(?<=\.) (?=[A-Z])|:? {3,}", comment)[0]
