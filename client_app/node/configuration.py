"""Whether a process is a real node, and what a real node may say in an error."""

import contextlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from curvfed.strategies.base.run_keys import home
from curvfed.tasks.errors import DataError

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


def partition_of(node_config: Mapping[str, Any]) -> int:
    """The node's number, also if the configuration has other faults; -1 without a valid one."""
    partition = node_config.get("partition-id")
    return partition if type(partition) is int and partition >= 0 else -1


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
