"""What a node's own configuration may say: it guards the node's data, so what is unclear is refused."""

import difflib
from collections.abc import Mapping
from typing import Any

from strategies.config import ConfigError


def flag(node_config: Mapping[str, Any], key: str) -> bool | None:
    """True, false, or None where the node says nothing.

    Raises
    ------
    ConfigError
        For anything else, such as the word "true".
    """
    value = node_config.get(key)
    if value is not None and not isinstance(value, bool):
        raise ConfigError(f"{key} is {value!r} in this node's --node-config; allowed are true and false")
    return value


KEYS = (
    "partition-id",
    "num-partitions",
    "data-path",
    "state-path",
    "device",
    "share-statistics",
    "secure-sum",
    "signing-key",
    "roster",
    "hull-max-share",
)
"""What this app reads; a node may have keys of other apps besides."""


def check_names(node_config: Mapping[str, Any]) -> None:
    """Refuse what is nearly one of `KEYS`: a guard that is misspelt would guard nothing.

    Raises
    ------
    ConfigError
    """
    for key in node_config:
        if key not in KEYS and (near := difflib.get_close_matches(key, KEYS, n=1, cutoff=0.75)):
            raise ConfigError(f'unknown key "{key}" in this node\'s --node-config; did you mean "{near[0]}"?')
