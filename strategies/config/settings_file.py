"""A run's `config.toml`."""

import re
import tomllib
from pathlib import Path
from typing import Any

from curvfed.strategies.base.dotted import dotted
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.wire.stored_format import FORMAT, unreadable

HEADING = f"# format {FORMAT} of curvfed\n"
"""Its first line: a comment, since Flower takes the file too, and no key that it does not know."""


def read_settings(path: Path) -> dict[str, Any]:
    """A run's `config.toml`, by dotted key.

    Raises
    ------
    OSError, ValueError
        If it is not there, or is not TOML.
    ConfigError
        If it is of another format.
    """
    text = path.read_text(encoding="utf-8")
    found = re.match(r"# format (\d+) of curvfed\n", text)
    if reason := unreadable(found[1] if found else str(FORMAT)):
        raise ConfigError(f"{path} cannot be read: {reason}")
    return dotted(tomllib.loads(text))
