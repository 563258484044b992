"""Preset files as settings, so that a table runs what the README tells people to run."""

import tomllib
from pathlib import Path
from typing import Any

from curvfed.strategies.dotted import dotted

FOLDER = Path(__file__).parents[2] / "presets"


def preset(name: str) -> dict[str, Any]:
    """The keys of `presets/<name>.toml`, dotted."""
    return dotted(tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8")))
