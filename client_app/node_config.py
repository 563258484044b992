"""What a node's own configuration may say: it guards the node's data, so what is unclear is refused."""

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
