"""What was made of a client's data before it had them, in the log."""

import logging
from typing import TypeVar

log = logging.getLogger("curvfed")

Client = TypeVar("Client")


def logged(source: str, client: Client, partition_id: int = 0) -> Client:
    """The data of a client; the `history` of the first is logged: what was drawn, and what was left
    out."""
    if (history := getattr(client, "history", "")) and not partition_id:
        log.info("%s: %s", source, history)
    return client
