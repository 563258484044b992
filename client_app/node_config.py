"""What a node's own configuration may say: it guards the node's data, so what is unclear is refused."""

import contextlib
import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.run_config import home


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


IN_MEMORY = "in-memory"
"""Where a simulation in this process keeps the data that a client was given: no number and no text, so that no node's own
configuration can have it."""


PATHS = ("data-path", "state-path", "signing-key", "roster")
"""Which of them are places on the node's disk."""


def absolute(path: str) -> Path:
    """A path of a node's own configuration."""
    with contextlib.suppress(RuntimeError):  # "~nobody" is nobody's home
        return Path(path).expanduser().absolute()
    return Path(path).absolute()


def is_real(node_config: Mapping[str, Any]) -> bool:
    """Whether this is a machine of its own, whose data are nobody else's, and no part of a simulation."""
    return "data-path" in node_config or "state-path" in node_config


def public_text(error: Exception, node_config: Mapping[str, Any]) -> str:
    """The text of an error as it may leave the client: a real node's without the places and the names of its files."""
    text = str(error)
    if not is_real(node_config):
        return text
    places = {str(absolute(str(node_config[key]))): key for key in PATHS if key in node_config}
    for place in sorted(places, key=len, reverse=True):
        text = text.replace(place, places[place])
    text = text.replace(str(home()), "~/curvfed")
    for name in filter(None, getattr(error, "names", ())):
        text = text.replace(name, "…")
    return text


def check_names(node_config: Mapping[str, Any]) -> None:
    """Refuse what is nearly one of `KEYS`: a guard that is misspelt would guard nothing.

    Raises
    ------
    ConfigError
    """
    for key in node_config:
        if key not in KEYS and (near := difflib.get_close_matches(key, KEYS, n=1, cutoff=0.75)):
            raise ConfigError(f'unknown key "{key}" in this node\'s --node-config; did you mean "{near[0]}"?')


def partition_id(node_config: Mapping[str, Any]) -> int:
    """The number by which the node is known in a run.

    Raises
    ------
    ConfigError
        If there is none.
    """
    partition = node_config.get("partition-id")
    if partition is None:
        raise ConfigError("there is no partition-id in this node's --node-config; needed is a whole number, 0 or more")
    if type(partition) is not int or partition < 0:
        raise ConfigError(
            f"partition-id is {partition!r} in this node's --node-config; needed is a whole number, 0 or more, of its own"
        )
    return partition


def max_share(node_config: Mapping[str, Any]) -> float:
    """The share of its points beyond which the node sends no hulls.

    Raises
    ------
    ConfigError
        If it is none.
    """
    limit = node_config.get("hull-max-share", 1.0)
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit <= 1:
        raise ConfigError(f"hull-max-share is {limit!r} in this node's --node-config; allowed is a share in [0, 1]")
    return limit


def check_values(node_config: Mapping[str, Any]) -> None:
    """Refuse what no run could go by, as far as it can be told without looking at the machine.

    Raises
    ------
    ConfigError
    """
    check_names(node_config)
    partition = partition_id(node_config)
    for key in ("share-statistics", "secure-sum"):
        flag(node_config, key)
    for key in (*PATHS, "device"):
        value = node_config.get(key, key)
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{key} is {value!r} in this node's --node-config; allowed is text in double quotes")
    max_share(node_config)
    parts = node_config.get("num-partitions", partition + 1)
    if type(parts) is not int or parts <= partition:
        raise ConfigError(
            f"num-partitions is {parts!r} in this node's --node-config; allowed is a whole number above its "
            f"partition-id, {partition}"
        )
    if not {"data-path", "num-partitions"} & node_config.keys():
        raise ConfigError(
            "this node's --node-config has neither data-path (its own data) nor num-partitions (its share of a public "
            "data set)"
        )
