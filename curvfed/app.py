"""The two halves of the Flower app, by Flower's names: `curvfed.app:server` and
`curvfed.app:client`.

In a simulation Flower imports the client in one thread and the server in another. The name
`curvfed.client_app.app` can then be looked up while `curvfed` is being imported and its `__path__`
does not yet have the rooms, and the run fails. This file lies in `curvfed/` itself, where it is
always found.
"""

from typing import TYPE_CHECKING, Any

import curvfed  # noqa: F401  waits for the import in another thread

if TYPE_CHECKING:
    from curvfed.client_app.app import app as client
    from curvfed.server_app.app import app as server

__all__ = ["client", "server"]


def __getattr__(name: str) -> Any:
    """Import a half at its first use: a client does not need the server's modules."""
    if name == "client":
        from curvfed.client_app.app import app as client

        return client
    if name == "server":
        from curvfed.server_app.app import app as server

        return server
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
