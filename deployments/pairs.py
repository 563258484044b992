"""key=value arguments, shared by the commands that take a run configuration."""

import difflib
import tomllib
from collections.abc import Mapping, Sequence

Value = bool | int | float | str


class UsageError(ValueError):
    """The command line asks for something that cannot be run."""


def read_pairs(pairs: Sequence[str], defaults: Mapping[str, Value]) -> dict[str, Value]:
    """Read `key=value` arguments; strings need no quotes.

    Parameters
    ----------
    pairs : sequence of str
    defaults : mapping of key to value
        Every key there is; where the default is a string, `7` is text as well.

    Raises
    ------
    UsageError
        For a pair without `=`, or a key that is not there; names the nearest right one.
    """
    config: dict[str, Value] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"{pair!r} is not of the form key=value")
        if key not in defaults:
            near = difflib.get_close_matches(key, defaults, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"{key!r} is not a key of the run config{hint}")
        config[key] = read_value(text, defaults[key])
    return config


def read_value(text: str, default: Value) -> Value:
    """Read a value as TOML or else as plain text; where the default is a string, `7` is text as well."""
    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    value = table["value"]
    if len(table) > 1 or not isinstance(value, Value) or (isinstance(default, str) and not isinstance(value, str)):
        return text
    return value
