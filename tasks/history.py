"""Log how a client's data were split and partitioned; without torch, for clients with points."""

import logging
from typing import TypeVar

log = logging.getLogger("curvfed")

Client = TypeVar("Client")


def log_history(source: str, client: Client, partition_id: int = 0) -> Client:
    """Log the `history` of the first client's data, and return the client's data."""
    history = getattr(client, "history", "")
    if history and not partition_id:
        log.info("%s: %s", source, history)
    return client
