"""The presets and sweeps that come with the package, by name."""

import difflib
import importlib.resources
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from pathlib import Path

PRESETS, SWEEPS = "presets", "sweeps"
LISTED_BY = {PRESETS: "curvfed presets", SWEEPS: "curvfed paper --list"}


def shipped(kind: str) -> dict[str, Path]:
    """The files of a kind, `PRESETS` or `SWEEPS`, by name: `quick`, or `flatland/figure-05` of a folder."""
    return dict(sorted(_files(importlib.resources.files(f"curvfed.{kind}"))))


def nearest(kind: str, name: str) -> str:
    """What to say where a name is that of no shipped file: the nearest one, and how to see all of them."""
    known = shipped(kind)
    near = [one for one in known if one.rpartition("/")[2] == name] or difflib.get_close_matches(name, known, n=1)
    return (f"did you mean {near[0]!r}? " if near else "") + f"`{LISTED_BY[kind]}` lists the {kind}"


def _files(folder: Traversable, above: str = "") -> Iterator[tuple[str, Path]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{above}{entry.name}/")
        elif entry.name.endswith(".toml"):
            yield above + entry.name.removesuffix(".toml"), Path(str(entry))
