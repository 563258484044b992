"""The format of the files that a run goes on from, by number: a later version can then tell what it reads.

Format 1 is that of files without a number, too.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

from curvfed.strategies.base.dotted import dotted
from curvfed.strategies.base.errors import ConfigError

FORMAT = 1

HEADING = f"# format {FORMAT} of curvfed\n"
"""The first line of `config.toml`: a comment, since Flower takes the file too, and no key that it does not know."""


def unreadable(number: str) -> str:
    """Why a file of this format cannot be read; "" if it can."""
    if number == str(FORMAT):
        return ""
    return f"it is of format {number}, written by another version of curvfed; this one reads format {FORMAT}"


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
