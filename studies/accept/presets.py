"""Presets as settings, so that a table runs what the pages tell people to run."""

import tomllib
from importlib.resources import files
from typing import Any

from curvfed.strategies.base.keys import dotted


def preset(name: str) -> dict[str, Any]:
    """The keys of the preset, dotted."""
    return dotted(
        tomllib.loads((files("curvfed.presets") / f"{name}.toml").read_text(encoding="utf-8"))
    )
