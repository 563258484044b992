"""Flower's SuperLink or SuperNode, with more time for two things that a busy machine does slowly.

* The process of a task has 30 seconds to start: after them the task goes to a further process,
  which needs longer because both import Flower side by side, so that a run never begins. It has
  `START_TIME` here; so a task whose process dies before it begins stays claimed for this time, not
  for 30 seconds, until another process takes it.
* SQLite waits 5 seconds for a lock of the SuperLink's database: after them a node's message fails,
  and the run waits for a reply that does not come.

    python -P extensions/cluster/commands/patient_flower.py flower-superlink ARGUMENTS …
"""

import contextlib
import sys
from importlib import import_module
from importlib.metadata import entry_points

START_TIME = 120.0
"""Seconds for the process of a task to start."""

LOCK_TIME = 60.0
"""Seconds for a lock of the database."""

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
    program.load()()


if __name__ == "__main__":
    main()
