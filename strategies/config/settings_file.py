"""Files of settings: a run's `config.toml`, and what users write by hand."""

import re
import tomllib
from pathlib import Path
from typing import Any

from curvfed.strategies.base.dotted import dotted, toml_text
from curvfed.strategies.base.errors import ConfigError
from curvfed.tasks.stored_files import FORMAT, UNSEALED, DamagedError, check_whole, unreadable

HEADING = f"# format {FORMAT} of curvfed\n"
"""The line with the format: a comment, since Flower reads the file too and refuses unknown keys."""

SEALED_HEADING = f"{HEADING}# {UNSEALED}\n"
"""The first lines of a file that a run writes."""


def read_settings(path: Path, written_by_run: bool = False) -> dict[str, Any]:
    """The settings in a file, by dotted key.

    Parameters
    ----------
    path : Path
    written_by_run : bool
        Whether the file must be unchanged since a run wrote it.

    Raises
    ------
    OSError, ValueError
        If it is not there, or is not TOML.
    ConfigError
        If it has another format, or has changed since a run wrote it, or the folder of the run
        holds a pipe.
    """
    if written_by_run:
        for file in path.parent.rglob("*"):
            # anything that reads a pipe would wait for ever
            if file.is_fifo():
                raise ConfigError(f"{file} is a pipe", key="pipe")
    data = path.read_bytes()
    try:
        if written_by_run:
            check_whole(data)
        text = toml_text(data)
        check_format(text)
        return dotted(tomllib.loads(text))
    except (ConfigError, DamagedError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", key="unreadable") from None


def check_format(text: str) -> None:
    """Refuse settings whose heading names another format; files that users write need no heading.

    Raises
    ------
    ConfigError
    """
    heading = re.search(r"^# format (\d+) of curvfed$", text, re.MULTILINE)
    if heading and (reason := unreadable(heading[1])):
        raise ConfigError(reason, key="format")
