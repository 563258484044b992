"""Nested tables and dotted keys: TOML files hold the one, Flower passes the other."""

from collections.abc import Mapping
from typing import Any


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
