"""Files of settings: a run's `config.toml`, and what users write by hand."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from curvfed.strategies.base.dotted import dotted
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.keys import AUTO
from curvfed.tasks.stored_files import FORMAT, UNSEALED, DamagedError, check_whole, unreadable

HEADING = f"# format {FORMAT} of curvfed\n"
"""A line that a file has: a comment, since Flower reads the file too and refuses keys that it does not know."""

SEALED_HEADING = f"{HEADING}# {UNSEALED}\n"
"""The lines of a file that a run writes."""

AUTO_IN_FORMAT_1 = {
    "local-epochs": 0,
    "learning-rate": 0,
    "clip-norm": 0,
    "embedding-dim": 0,
    "train-size": 0,
    "test-size": 0,
    "fine-tune-epochs": -1,
    "images.size": 0,
    "images.channels": 0,
    "images.train-subset": 0,
    "images.test-subset": 0,
    "points.split-seed": -1,
    "hull.num-classes": 0,
    "hull.c": 0,
    "secure.threshold": 0,
    "secure.neighbours": 0,
}
"""By key: the number that stood for "auto" in files of format 1."""


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
        If it is of another format, or has changed since a run wrote it, or a pipe is in the folder of the run.
    """
    pipe = next((one for one in path.parent.rglob("*") if one.is_fifo()), None) if of_run else None
    if pipe:  # any reader of it would wait for ever
        raise ConfigError(f"{pipe} is a pipe")
    data = path.read_bytes()
    try:
        if of_run:
            check_whole(data, may_lack=True)
        text = data.decode()
        settings, number = dotted(tomllib.loads(text)), format_of(text)
        if of_run and number < 5 and settings.get("batch-size") == 128:  # the default, of no account for nodes
            settings["batch-size"] = AUTO
        return updated(settings, number)
    except (ConfigError, DamagedError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None


def format_of(text: str) -> int:
    """The format of a file of settings; 1 without a heading.

    Raises
    ------
    ConfigError
        If this version cannot read it.
    """
    found = re.search(r"^# format (\d+) of curvfed$", text, re.MULTILINE)
    if reason := unreadable(found[1] if found else "1"):
        raise ConfigError(reason)
    return int(found[1]) if found else 1


def updated(settings: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Settings from a file of format `number`, as the present format has them."""
    if number > 1:
        return dict(settings)
    known = {key: AUTO if value == AUTO_IN_FORMAT_1.get(key) else value for key, value in settings.items()}
    if known.get("embedding-dim") == -1:  # no such layer
        known["embedding-dim"] = 0
    if "flatland.gate" in known:  # one key for nodes and for whole graphs
        known.setdefault("flatland.self-weight", known["flatland.gate"])
    return known
