"""A node's own configuration. It protects the node's data, so ambiguous values are refused."""

import contextlib
import difflib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.run_keys import home
from curvfed.tasks.errors import DataError


def flag(node_config: Mapping[str, Any], key: str) -> bool | None:
    """The value of a key, true or false; None if it is not set.

    Raises
    ------
    ConfigError
        For any other value, such as the text "true".
    """
    value = node_config.get(key)
    if value is not None and not isinstance(value, bool):
        raise _wrong_value(key, value, "allowed are true and false")
    return value


def _wrong_value(key: str, value: object, allowed: str) -> ConfigError:
    return ConfigError(
        f"{key} is {value!r} in this node's --node-config; {allowed}", key="node-config-value"
    )


KEYS = (
    "partition-id",
    "num-partitions",
    "data-path",
    "state-path",
    "policy",
    "lost-state",
    "device",
    "share-statistics",
    "secure-sum",
    "signing-key",
    "roster",
    "hull-max-share",
)
"""The keys of this app; a node can also have keys of other apps."""


LOST_STATE = (REFUSE, PREVIOUS, FRESH) = ("refuse", "previous", "fresh")
"""A node that has lost the personal parameters of the requested round stays out of the run,
continues from those of an earlier round, or starts afresh."""


IN_MEMORY = "in-memory"
"""Key of a client's data in a simulation in this process. The value is neither a number nor text,
so no real node's configuration can contain it."""


SIMULATED: dict[str, Any] = {"simulated": ()}
"""Marks a client of a simulation in this process; as with `IN_MEMORY`, no real node's configuration
can contain it."""


RAY_ACTOR = "flwr.simulation.ray_transport.ray_actor"
"""The module of Flower's simulated nodes, which their processes import."""


PATHS = ("data-path", "state-path", "policy", "signing-key", "roster")
"""The keys that are paths on the node's disk."""


_NUMBER = re.compile(r"((?:int|float|complex)\d+)|[-+]?\d(?:[\d.,]*\d)?(?:e[-+]?\d+)?")


def absolute(path: str) -> Path:
    """A path of the node's configuration, as an absolute path."""
    with contextlib.suppress(RuntimeError):  # "~name" without such a user
        return Path(path).expanduser().absolute()
    return Path(path).absolute()


def is_real(node_config: Mapping[str, Any]) -> bool:
    """Whether this is a real node and not a part of a simulation.

    The node's own process decides this, never a message. Simulated are only the clients marked by a
    simulation in this process, and the actors of Flower's simulation.
    """
    return not (isinstance(node_config.get("simulated"), tuple) or _is_actor())


def _is_actor() -> bool:
    """Whether this process is an actor of Flower's simulation."""
    ray = sys.modules.get("ray")
    return bool(
        ray
        and RAY_ACTOR in sys.modules
        and ray.is_initialized()
        and ray.get_runtime_context().get_actor_id()
    )


def state_root(node_config: Mapping[str, Any]) -> Path:
    """The folder of a real node's state: its `state-path`, or one below the user's folder."""
    if "state-path" in node_config:
        return absolute(str(node_config["state-path"]))
    return home() / "personal"


def public_text(error: Exception, node_config: Mapping[str, Any]) -> str:
    """The text of an error, as it may be sent.

    A real node sends no paths and no names of its files. Errors about the data contain no numbers:
    many counts would reveal the distribution of the data.
    """
    if not is_real(node_config):
        return str(error)
    places = {str(absolute(str(node_config[key]))): key for key in PATHS if key in node_config}

    def hide_paths(text: str) -> str:
        for place in sorted(places, key=len, reverse=True):
            text = text.replace(place, places[place])
        return text.replace(str(home()), "~/curvfed")

    public = hide_paths(str(error))
    for name in filter(None, getattr(error, "names", ())):
        public = public.replace(hide_paths(name), "…")  # a library's text can contain the path
    if isinstance(error, DataError):
        public = _NUMBER.sub(lambda match: match[1] or "…", public)
        public += "; the node's own log says more"
    return public


def check_names(node_config: Mapping[str, Any]) -> None:
    """Refuse misspelt keys, which would protect nothing.

    Raises
    ------
    ConfigError
    """
    for key in node_config:
        if key not in KEYS and (near := difflib.get_close_matches(key, KEYS, n=1, cutoff=0.75)):
            raise ConfigError(
                f'unknown key "{key}" in this node\'s --node-config; did you mean "{near[0]}"?',
                key="unknown-node-key",
            )


def partition_id(node_config: Mapping[str, Any]) -> int:
    """The node's number in a run.

    Raises
    ------
    ConfigError
        If it is missing or not a whole number, 0 or more.
    """
    partition = node_config.get("partition-id")
    if partition is None:
        raise ConfigError(
            "there is no partition-id in this node's --node-config; needed is a whole number, 0 or"
            " more",
            key="no-partition-id",
        )
    if type(partition) is not int or partition < 0:
        raise _wrong_value(
            "partition-id", partition, "needed is a whole number, 0 or more, of its own"
        )
    return partition


def lost_state(node_config: Mapping[str, Any]) -> str:
    """The node's action if it has lost its personal parameters, one of `LOST_STATE`.

    Raises
    ------
    ConfigError
        For any other value.
    """
    action = node_config.get("lost-state", REFUSE)
    if action not in LOST_STATE:
        raise _wrong_value(
            "lost-state", action, f"allowed are {', '.join(LOST_STATE)}, in double quotes"
        )
    return str(action)


def max_share(node_config: Mapping[str, Any]) -> float:
    """The largest share of its points that the node reveals by its hulls.

    Raises
    ------
    ConfigError
        If it is not a share.
    """
    limit = node_config.get("hull-max-share", 1.0)
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit <= 1:
        raise _wrong_value("hull-max-share", limit, "allowed is a share in [0, 1]")
    return limit


def check_values(node_config: Mapping[str, Any]) -> None:
    """Refuse values that no run accepts on any machine.

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
            raise _wrong_value(key, value, "allowed is text in double quotes")
    max_share(node_config)
    lost_state(node_config)
    parts = node_config.get("num-partitions", partition + 1)
    if type(parts) is not int or parts <= partition:
        raise _wrong_value(
            "num-partitions",
            parts,
            f"allowed is a whole number above its partition-id, {partition}",
        )
    check_names_data(node_config)


def check_names_data(node_config: Mapping[str, Any]) -> None:
    """Refuse a node without data.

    Raises
    ------
    ConfigError
    """
    if not {"data-path", "num-partitions"} & node_config.keys():
        raise ConfigError(
            "this node's --node-config has neither data-path (its own data) nor num-partitions (its"
            " share of a public data set)",
            key="no-data-path",
        )
