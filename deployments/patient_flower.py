"""A program of Flower, such as its SuperLink, with more time for the slow steps of a busy machine.

* The process of a task has 30 seconds to start: after them the task goes to a further process,
  which needs longer because both import Flower side by side, so that a run never begins. It has
  `START_TIME` here; so a task whose process dies before it begins stays claimed for this time, not
  for 30 seconds, until another process takes it.
* SQLite waits 5 seconds for a lock of the SuperLink's database: after them a node's message fails,
  and the run waits for a reply that does not come.
* A SuperLink counts a killed SuperNode as connected for a minute, and refuses its next start. The
  start tries again here, for `NODE_TIME`.
* The first process of Ray, in which a simulation trains, has 30 seconds to start: after them the
  run fails. It has `RAY_TIME` here.

    python -P deployments/patient_flower.py flower-superlink ARGUMENTS …
"""

import contextlib
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

START_TIME = 120.0
"""Seconds for the process of a task to start."""

LOCK_TIME = 60.0
"""Seconds for a lock of the database."""

RAY_TIME = 300.0
"""Seconds for Ray's first process to start."""

NODE_TIME = 90.0
"""Seconds for a SuperNode to be accepted in place of a killed one."""

NOT_ACTIVATED = '"code": 2004'
"""A part of a SuperLink's refusal of a node that it counts as connected, or does not know."""

PAUSE = 1.0
"""Seconds between two attempts."""

SUPERNODE = "flower-supernode"

SIMULATION = "flwr-simulation"
"""The program that starts Ray."""

STATES = ("sql_corestate", "in_memory_corestate")
"""Flower's modules that keep the tasks of a SuperLink and of a SuperNode."""


def wait_for_starts(module: str) -> None:
    """Lengthen the start of a task in one of `STATES`, and not the silence after which a begun task
    counts as lost, which is `HEARTBEAT_PATIENCE` times the same interval."""
    state = vars(import_module(f"flwr.supercore.corestate.{module}"))
    state["HEARTBEAT_PATIENCE"] *= state["HEARTBEAT_DEFAULT_INTERVAL"] / START_TIME
    state["HEARTBEAT_DEFAULT_INTERVAL"] = START_TIME


def wait_for_locks() -> None:
    """Lengthen the wait for a lock in the databases that are opened from now on.

    The pragma comes first: the others, such as `journal_mode`, can wait for a lock too.
    """
    database = vars(import_module("flwr.supercore.sql_mixin"))
    milliseconds = str(round(1000 * LOCK_TIME))
    others = [pragma for pragma in database["SQLITE_PRAGMAS"] if pragma[0] != "busy_timeout"]
    database["SQLITE_PRAGMAS"] = (("busy_timeout", milliseconds), *others)


def _patient(
    function: Callable[..., Any], error: type[Exception], part: str, seconds: float, news: str = ""
) -> Callable[..., Any]:
    """The function, called again for some seconds after an error with this part in its text; the
    first time it prints the news."""

    def call(*arguments: Any, **options: Any) -> Any:
        deadline = time.monotonic() + seconds
        unread_news = news
        while True:
            try:
                return function(*arguments, **options)
            except error as refusal:
                if part not in str(refusal) or time.monotonic() > deadline:
                    raise
            if unread_news:
                print(unread_news, file=sys.stderr, flush=True)
                unread_news = ""
            time.sleep(PAUSE)

    return call


def wait_for_killed_node() -> None:
    """Let a SuperNode wait until the SuperLink no longer counts its killed predecessor as
    connected."""
    from grpc import RpcError

    connection = vars(import_module("flwr.client.grpc_rere_client.connection"))
    wrap_stub = connection["wrap_stub"]
    news = (
        "The SuperLink does not accept this node: it was killed less than a minute ago, another"
        " process runs with its key, or the key is not registered. Trying again for up to"
        f" {NODE_TIME:.0f} s."
    )

    def patient_wrap_stub(stub: Any, retry_invoker: Any) -> None:
        wrap_stub(stub, retry_invoker)
        stub.ActivateNode = _patient(stub.ActivateNode, RpcError, NOT_ACTIVATED, NODE_TIME, news)

    connection["wrap_stub"] = patient_wrap_stub


def wait_for_ray() -> None:
    """Lengthen the wait for Ray's first process, which Ray asks for by `get_node` until an answer
    comes or 30 seconds are over."""
    services = vars(import_module("ray._private.services"))
    services["get_node"] = _patient(services["get_node"], RuntimeError, "", RAY_TIME)


def main() -> None:
    """Run the program that the first argument names."""
    # Without these names a further version of Flower keeps its own limits.
    for module in STATES:
        with contextlib.suppress(ImportError, KeyError):
            wait_for_starts(module)
    with contextlib.suppress(ImportError, KeyError):
        wait_for_locks()
    del sys.argv[0]
    (program,) = entry_points(group="console_scripts", name=sys.argv[0])
    function = program.load()
    if sys.argv[0] == SUPERNODE:
        with contextlib.suppress(ImportError, KeyError):
            wait_for_killed_node()
    if sys.argv[0] == SIMULATION:  # which has set Ray's variables by now
        with contextlib.suppress(ImportError, KeyError):
            wait_for_ray()
    function()


if __name__ == "__main__":
    main()
