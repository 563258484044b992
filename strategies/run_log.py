"""The app's own lines, in the process of the server and in that of a client on a machine of its own."""

import logging
import sys

log = logging.getLogger("curvfed")


def log_to_stdout() -> None:
    """Print them: Flower streams what the ServerApp prints, and a SuperNode's log has what its ClientApps print."""
    if not log.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("curvfed | %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False
