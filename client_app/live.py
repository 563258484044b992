"""The clients that a process keeps set up."""

from collections import OrderedDict
from typing import Any

import torch

from client_app.client import Client
from strategies.config import RunConfig

LIVE_CLIENTS = 64
"""How many in any case; a simulation of more sets the others up anew from their files."""
LIVE_BYTES = 2 * 2**30
"""And more of them as long as the whole process takes less than this: a thousand small ones do."""

_live: OrderedDict[tuple[Any, ...], Client] = OrderedDict()


def live_client(config: RunConfig, run: str, partition: int, node_config: dict[str, Any]) -> Client:
    """This process's client of that run and partition, set up at the first call."""
    key = (config, run, partition, tuple(sorted(node_config.items())))
    client = _live.get(key)
    if client is None:
        client = _live[key] = Client(config, run, partition, node_config)
        if len(_live) > LIVE_CLIENTS and _taken() > LIVE_BYTES:
            _live.popitem(last=False)  # what it had is had by the next one: the process grows no further
    _live.move_to_end(key)
    return client


def _taken() -> int:
    """Bytes that this process takes of the machine's memory and of its GPU's."""
    import psutil

    reserved = torch.cuda.memory_reserved() if torch.cuda.is_available() else 0
    return int(psutil.Process().memory_info().rss) + reserved


def forget(client: Client) -> None:
    """Drop a client whose state in memory is in doubt; the next message sets it up from its files."""
    for key in [key for key, value in _live.items() if value is client]:
        del _live[key]


def forget_all() -> None:
    """Drop all clients: a process that makes one run after another would keep models and data of the earlier ones."""
    _live.clear()
