"""Files of settings: a run's `config.toml`, and what users write by hand."""

import re
import tomllib
from pathlib import Path
from typing import Any

from curvfed.strategies.base.dotted import dotted, toml_text
from curvfed.strategies.base.errors import ConfigError
from curvfed.tasks.stored_files import FORMAT, UNSEALED, DamagedError, check_whole, unreadable

HEADING = f"# format {FORMAT} of curvfed\n"
"""A line that a file has: a comment, since Flower reads the file too and refuses keys that it does
not know."""

SEALED_HEADING = f"{HEADING}# {UNSEALED}\n"
"""The lines of a file that a run writes."""


def read_settings(path: Path, of_run: bool = False) -> dict[str, Any]:
    """A file of settings, by dotted key.

    Parameters
    ----------
    path : Path
    of_run : bool
        Whether it must be as a run has written it.

    Raises
    ------
    OSError, ValueError
        If it is not there, or is not TOML.
    ConfigError
        If it is of another format, or has changed since a run wrote it, or a pipe is in the folder
        of the run.
    """
    pipe = next((one for one in path.parent.rglob("*") if one.is_fifo()), None) if of_run else None
    if pipe:  # any reader of it would wait for ever
        raise ConfigError(f"{pipe} is a pipe")
    data = path.read_bytes()
    try:
        if of_run:
            check_whole(data)
        text = toml_text(data)
        check_format(text)
        return dotted(tomllib.loads(text))
    except (ConfigError, DamagedError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None


def check_format(text: str) -> None:
    """Refuse settings whose heading names another format; a file that users write needs no heading.

    Raises
    ------
    ConfigError
    """
    heading = re.search(r"^# format (\d+) of curvfed$", text, re.MULTILINE)
    if heading and (reason := unreadable(heading[1])):
        raise ConfigError(reason)
