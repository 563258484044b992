"""The presets and sweeps of the package, by name."""

import difflib
import importlib.resources
from pathlib import Path

PRESETS = "presets"
SWEEPS = "sweeps"


def package_files(kind: str) -> dict[str, Path]:
    """The files of a kind, `PRESETS` or `SWEEPS`, by name: `quick`, or `baselines/images/moon` in
    folders."""
    # The resource folder has no path, but its entries have.
    entry = next(importlib.resources.files(f"curvfed.{kind}").iterdir())
    folder = Path(str(entry)).parent
    files = {
        path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.rglob("*.toml")
    }
    return dict(sorted(files.items()))


def name_hint(kind: str, name: str) -> str:
    """A hint for an unknown name: the nearest name, and the list of names."""
    names = package_files(kind)
    near = [path for path in names if path.rpartition("/")[2] == name]
    near = near or difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    if kind == PRESETS:
        return f"{hint}`curvfed presets` lists the presets"
    return f"{hint}shipped are {', '.join(names)}"
