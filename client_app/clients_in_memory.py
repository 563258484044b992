"""The clients that a process keeps set up."""

from collections import OrderedDict
from typing import Any

import torch

from curvfed.client_app.client import Client
from curvfed.strategies.config.run_config import RunConfig

LIVE_CLIENTS = 64
"""How many in any case; a simulation of more sets the others up anew from their files."""
LIVE_BYTES = 2 * 2**30
"""And more of them as long as the process takes less than this: a thousand small ones do."""

_live: OrderedDict[tuple[Any, ...], Client] = OrderedDict()


def get_client(config: RunConfig, run: str, partition: int, node_config: dict[str, Any]) -> Client:
    """This process's client of that run and partition, set up at the first call."""
    key = (config, run, partition, tuple(sorted(node_config.items())))
    client = _live.get(key)
    if client is None:
        client = _live[key] = Client(config, run, partition, node_config)
        if len(_live) > LIVE_CLIENTS and _taken() > LIVE_BYTES:
            # Two for one, lest later ones that are larger make the process grow. Not all at once: what they had is not
            # given back at once, and seen as taken still.
            for _ in range(min(2, len(_live) - LIVE_CLIENTS)):
                _live.popitem(last=False)
    _live.move_to_end(key)
    return client


def _taken() -> int:
    """Bytes that this process takes of the machine's memory and of its GPUs'."""
    import psutil

    reserved = sum(torch.cuda.memory_reserved(number) for number in range(torch.cuda.device_count()))
    return int(psutil.Process().memory_info().rss) + reserved


def forget(client: Client) -> None:
    """Drop a client whose state in memory is in doubt; the next message sets it up from its files."""
    for key in [key for key, value in _live.items() if value is client]:
        del _live[key]


def forget_all() -> None:
    """Drop all clients: a process that makes one run after another would keep models and data of the earlier ones."""
    _live.clear()
