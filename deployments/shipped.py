"""The presets and sweeps that come with the package, by name."""

import difflib
import importlib.resources
from pathlib import Path

PRESETS = "presets"
SWEEPS = "sweeps"


def shipped(kind: str) -> dict[str, Path]:
    """The files of a kind, `PRESETS` or `SWEEPS`, by name: `quick`, or `baselines/images/moon` of a
    folder."""
    entry = next(importlib.resources.files(f"curvfed.{kind}").iterdir())  # which itself has no path
    folder = Path(str(entry)).parent
    return dict(
        sorted(
            (path.relative_to(folder).with_suffix("").as_posix(), path)
            for path in folder.rglob("*.toml")
        )
    )


def nearest(kind: str, name: str) -> str:
    """A hint for a name that no shipped file has: the nearest name, and where all are listed."""
    known = shipped(kind)
    near = [one for one in known if one.rpartition("/")[2] == name] or difflib.get_close_matches(
        name, known, n=1
    )
    hint = f"did you mean {near[0]!r}? " if near else ""
    if kind == PRESETS:
        return f"{hint}`curvfed presets` lists the presets"
    return f"{hint}shipped are {', '.join(known)}"
