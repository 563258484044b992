"""Read key=value arguments and presets, for the commands with a run configuration."""

import logging
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from curvfed.deployments.package_files import PRESETS, name_hint, package_files
from curvfed.strategies.base.dotted import dotted, python_value, read_value, toml_text
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.all_keys import nearest_key
from curvfed.strategies.config.settings_file import check_format
from curvfed.tasks.errors import KeyedError, did_you_mean

Value = bool | int | float | str

log = logging.getLogger("curvfed")

NUM_SUPERNODES = 10
"""Clients of a simulation by default."""


class UsageError(KeyedError, ValueError):
    """A wrong argument of a command."""

    area = "usage"


def check_working_folder() -> None:
    """Refuse a deleted working folder, in which libraries of torch end the process silently.

    Raises
    ------
    UsageError
    """
    try:
        Path.cwd()
    except OSError as error:
        raise UsageError(
            f"the working folder cannot be used ({error.strerror}); go to another",
            key="working-folder",
        ) from None


def read_pairs(arguments: Sequence[str], defaults: Mapping[str, Value]) -> dict[str, Value]:
    """Read arguments: `key=value` with strings without quotes, names of presets, or paths of
    `.toml` files.

    Later arguments override earlier ones.

    Parameters
    ----------
    arguments : sequence of str
    defaults : mapping of key to value
        All keys; if a default is a string, `7` is read as text.

    Raises
    ------
    UsageError
        For any other argument, an unreadable file, or an unknown key; names the nearest key.
    """
    config: dict[str, Value] = {}
    pairs = [argument.partition("=") for argument in arguments]
    check_keys([key for key, equals, _ in pairs if equals], defaults)
    for argument, (key, equals, text) in zip(arguments, pairs, strict=True):
        if equals:
            config[key] = read_value(text, defaults[key])
        elif argument.endswith(".toml"):
            config |= _read_file(Path(argument), defaults)
        elif argument in package_files(PRESETS):
            config |= _read_file(package_files(PRESETS)[argument], defaults)
        else:
            raise UsageError(
                f"{argument!r} is not of the form key=value, nor a preset, nor the path of a .toml"
                f" file; {_pair_of(argument, defaults)}{name_hint(PRESETS, argument)}",
                key="argument",
            )
    return config


def _pair_of(word: str, defaults: Mapping[str, Value]) -> str:
    """A hint at the pair for a word without `=`; "" if there is none."""
    from curvfed.strategies.methods import listed
    from curvfed.tasks.formats import FILE_ENDINGS
    from curvfed.tasks.registry import is_named

    path = Path(word)
    if word in defaults:
        pair = f"{word}=VALUE, without spaces"
    elif word.lower() in listed():
        pair = f"method={word.lower()}"
    elif is_named(word) or path.exists() or path.suffix.lower() in FILE_ENDINGS:
        pair = f"dataset={word}"
    else:
        return ""
    return f"did you mean {pair}? "


def pop_supernodes(config: dict[str, Value], default: int) -> int:
    """Remove `num-supernodes`, the number of clients, from what was read: it is not a key of the
    run config.

    Raises
    ------
    UsageError
        If it is no whole number of at least 1.
    """
    return pop_count(config, "num-supernodes", default)


def pop_count(config: dict[str, Value], key: str, default: Value, minimum: int = 1) -> int:
    """Remove a number that is not a key of the run config, and return it.

    Raises
    ------
    UsageError
        If it is no whole number of at least `minimum`.
    """
    number = config.pop(key, default)
    if type(number) is not int or number < minimum:
        raise UsageError(
            f"{key} is {number!r}, but must be a whole number of at least {minimum}", key="count"
        )
    return number


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a user's TOML file.

    Raises
    ------
    UsageError
        If it is missing, cannot be read, or is not TOML.
    """
    try:
        if path.expanduser().is_fifo():  # reading would block
            raise OSError(None, "it is a pipe")
        text = toml_text(path.expanduser().read_bytes())
        check_format(text)
        return tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", key="unreadable") from None
    except RuntimeError as error:  # no such user
        raise UsageError(f"{path} cannot be read: {error}", key="unreadable") from None
    except ConfigError as error:
        raise UsageError(f"{path} cannot be read: {error}", key="unreadable") from None
    except ValueError as error:  # not TOML, or not UTF-8
        raise UsageError(f"{path} is not TOML: {error}", key="unreadable") from None


def _read_file(path: Path, defaults: Mapping[str, Value]) -> dict[str, Value]:
    settings = dotted(read_toml(path))
    config: dict[str, Value] = {
        key: python_value(value, defaults.get(key)) for key, value in settings.items()
    }
    check_keys(config, defaults, f"{path}: ")
    for key, value in config.items():
        if not isinstance(value, Value):
            raise UsageError(
                f"{path}: {key} is {value!r}; allowed is a number, a string, true or false",
                key="value",
            )
    return config


def check_keys(keys: Iterable[str], defaults: Mapping[str, Value], where: str = "") -> None:
    """Refuse unknown keys in one error, with the nearest known key of each.

    Raises
    ------
    UsageError
    """
    unknown = [
        f"{where}{key!r} is not a key of the run config{_hint(key, defaults)}"
        for key in keys
        if key not in defaults
    ]
    if unknown:
        raise UsageError("\n".join(unknown), key="unknown-key")


def _hint(key: str, defaults: Mapping[str, Value]) -> str:
    near = nearest_key(key, defaults)
    if near:
        return f"; did you mean {near!r}?"
    return did_you_mean(key, defaults, "docs/configuration.md")
