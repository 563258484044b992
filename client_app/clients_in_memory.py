"""Cache of the clients that this process has set up."""

from collections import OrderedDict
from typing import Any

import torch

from curvfed.client_app.client import Client
from curvfed.client_app.node import Node
from curvfed.strategies.config.run_config import RunConfig

MIN_CLIENTS = 64
"""Number of clients that stay in memory; in a larger simulation others are set up again from their
files."""
MAX_BYTES = 3 * 2**29
"""Memory of the process, 1.5 GiB, up to which more clients stay in memory: many clients then stay
below 2 GB."""

_limits = {"clients": MIN_CLIENTS, "bytes": MAX_BYTES}
"""Limits of the clients in this process; lower if it is one of several."""

_clients: OrderedDict[tuple[Any, ...], Client] = OrderedDict()


def get_client(config: RunConfig, run: str, node: Node) -> Client:
    """The client of the run and node in this process, set up at the first call; the same for nodes
    that are configured alike, have equal policies and the same data in memory."""
    key = (config, run, node.model_dump_json(exclude={"data"}), id(node.data))
    client = _clients.get(key)
    if client is None:
        client = _clients[key] = Client(config, run, node)
    _clients.move_to_end(key)
    # Also for clients in memory: one that has only described its data sets up its model now.
    kept = _limits["clients"]
    if len(_clients) > kept and _used_bytes() > _limits["bytes"]:
        # Several clients at a time, because one with a model is a hundred times as large as one
        # without; not all at once, because freed memory counts as used for a while.
        for _ in range(min(2 + len(_clients) // 16, len(_clients) - kept)):
            _clients.popitem(last=False)
    return client


def share_memory(processes: int) -> None:
    """Let this process keep its share of the clients of a run that was just forked into several
    processes. Their common memory counts once."""
    common = _used_bytes()
    _limits["clients"] = max(1, MIN_CLIENTS // processes)
    _limits["bytes"] = common + max(0, MAX_BYTES - common) // processes


def _used_bytes() -> int:
    """Bytes of main memory and of GPU memory in use by this process."""
    import psutil

    reserved = sum(
        torch.cuda.memory_reserved(number) for number in range(torch.cuda.device_count())
    )
    return int(psutil.Process().memory_info().rss) + reserved


def forget(client: Client) -> None:
    """Drop a client with possibly inconsistent state; the next message sets it up from its
    files."""
    for key in [key for key, value in _clients.items() if value is client]:
        del _clients[key]


def forget_all() -> None:
    """Drop all clients, so that models and data of earlier runs do not stay in memory."""
    _clients.clear()
