"""Nested tables and dotted keys: TOML files hold the one, Flower passes the other; and keys written as text."""

import shlex
import tomllib
from collections.abc import Mapping
from typing import Any

EXTRA = "extra"
"""The key that holds further ones."""

Scalar = bool | int | float | str


def dotted(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a.b": 1}, as Flower flattens a run config."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= dotted(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """{"a.b": 1} -> {"a": {"b": 1}}, the inverse of `dotted`."""
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        *tables, name = key.split(".")
        inner = tree
        for table in tables:
            inner = inner.setdefault(table, {})
        inner[name] = value
    return tree


def read_value(text: str, default: Scalar) -> Scalar:
    """Read a value as TOML or else as plain text; where the default is a string, `7` is text as well."""
    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    value = table["value"]
    if len(table) > 1 or not isinstance(value, Scalar) or (isinstance(default, str) and not isinstance(value, str)):
        return text
    return value


def expanded(raw: Mapping[str, Any], defaults: Mapping[str, Scalar]) -> dict[str, Any]:
    """The keys, with those that `extra` holds, `key=value key=value`, in its place.

    Flower hands every key on, given or not: one that has its default counts as not given.

    Raises
    ------
    ValueError
        If it is not of that form, or a key in it has another value there or beside it; says what is allowed.
    """
    if not isinstance(raw.get(EXTRA, ""), str):
        return dict(raw)  # as wrong as any other key of another type
    told: dict[str, Scalar] = {}
    for word in shlex.split(raw.get(EXTRA, "")):
        key, equals, text = word.partition("=")
        value = read_value(text, defaults.get(key, ""))
        if not equals or key == EXTRA:
            raise ValueError(f"{word!r}; allowed is key=value, with spaces between")
        if told.get(key, value) != value or raw.get(key, value) not in (value, defaults.get(key)):
            raise ValueError(f"{word!r}, and {key} = {told.get(key, raw.get(key))!r} besides; allowed is one of them")
        told[key] = value
    return {key: value for key, value in raw.items() if key != EXTRA} | told
