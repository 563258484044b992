"""The two halves of the Flower app, where Flower looks for them: `curvfed.app:server` and
`curvfed.app:client`.

In a simulation Flower looks for the client in one thread while another loads the server. A name
such as `curvfed.client_app.app` can then be looked up in a package `curvfed` that has begun to be
imported and whose `__path__` does not have the rooms yet, and the run fails. This file lies in
`curvfed/` itself, where it is found in any case.
"""

from typing import TYPE_CHECKING, Any

import curvfed  # noqa: F401  waits until another thread's import of it has ended

if TYPE_CHECKING:
    from curvfed.client_app.app import app as client
    from curvfed.server_app.app import app as server

__all__ = ["client", "server"]


def __getattr__(name: str) -> Any:
    """A half is imported when it is asked for: a client does not need the server's modules."""
    if name == "client":
        from curvfed.client_app.app import app as client

        return client
    if name == "server":
        from curvfed.server_app.app import app as server

        return server
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
