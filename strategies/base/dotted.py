"""Conversion between nested tables (TOML) and dotted keys (Flower's run config), and parsing of
keys written as text."""

import re
import shlex
import tomllib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Mapping
from typing import Any

from curvfed.tasks.class_names import row_of

EXTRA = "extra"
"""The key whose value holds further keys."""

Scalar = bool | int | float | str


def toml_text(data: bytes) -> str:
    """The text of a TOML file, without the byte-order mark and the line ends that Notepad and
    PowerShell write.

    Raises
    ------
    UnicodeDecodeError
        If it is neither UTF-8 nor UTF-16 with a byte-order mark.
    """
    is_utf_16 = data.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    return data.decode("utf-16" if is_utf_16 else "utf-8-sig").replace("\r\n", "\n")


def dotted(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a.b": 1}, as Flower flattens a run config."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= (
            dotted(value, f"{prefix}{key}.")
            if isinstance(value, Mapping)
            else {prefix + key: value}
        )
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


def python_value(value: Any, default: Any) -> Any:
    """A value from Python or TOML in the form of a key: NumPy's numbers as Python's, and a list of
    names as text.

    A list holds names if the default is a string; any other list is returned, and refused later.
    """
    value = value.tolist() if hasattr(value, "tolist") else value
    is_of_names = isinstance(value, list | tuple) and isinstance(default, str)
    return row_of(value) if is_of_names else value


def read_value(text: str, default: Scalar) -> Scalar:
    """Read a value as TOML, or as plain text if it is not TOML or if the default is a string.

    `.5` is a number here, unlike in TOML. A list is text, as `python_value` writes it.
    """
    try:
        table = tomllib.loads("value = " + re.sub(r"^([+-]?)\.(?=\d)", r"\g<1>0.", text))
    except tomllib.TOMLDecodeError:
        return text
    value = python_value(table["value"], default)
    if (
        len(table) > 1
        or not isinstance(value, Scalar)
        or (isinstance(default, str) and not isinstance(value, str))
    ):
        return text
    return value


def expand_extra(raw: Mapping[str, Any], defaults: Mapping[str, Scalar]) -> dict[str, Any]:
    """The keys with `extra` replaced by the keys in its value, `key=value key=value`.

    Flower passes every key, whether the user gave it or not; a key with its default value counts as
    not given.

    Raises
    ------
    ValueError
        If `extra` has another form, or gives a key a second, different value; the text says what is
        allowed.
    """
    if not isinstance(raw.get(EXTRA, ""), str):
        return dict(raw)  # refused later, like any key of a wrong type
    extra_values: dict[str, Scalar] = {}
    for word in shlex.split(raw.get(EXTRA, "")):
        key, equals, text = word.partition("=")
        value = read_value(text, defaults.get(key, ""))
        if not equals or key == EXTRA:
            raise ValueError(f"{word!r}; allowed is key=value, separated by spaces")
        if extra_values.get(key, value) != value or raw.get(key, value) not in (
            value,
            defaults.get(key),
        ):
            raise ValueError(
                f"{word!r}, and {key} = {extra_values.get(key, raw.get(key))!r} is given too;"
                " allowed is one of them"
            )
        extra_values[key] = value
    return {key: value for key, value in raw.items() if key != EXTRA} | extra_values
