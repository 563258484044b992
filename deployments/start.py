"""The start and the end of a process of the command line, both without work that nobody needs."""

import atexit
import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn

INTERRUPTED = 130
"""The exit status after Ctrl-C."""


@contextlib.contextmanager
def collector_off() -> Iterator[None]:
    """Import modules within the block: the garbage collector leaves them out, then and later.

    Imports make a million objects that stay, and the collector would visit them dozens of times.
    """
    was_on = gc.isenabled()
    modules = len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > modules:
            gc.freeze()
            # Libraries complain of their objects that are left at the end.
            atexit.unregister(gc.unfreeze)
            atexit.register(gc.unfreeze)
        if was_on:
            gc.enable()


def end_with(work: Callable[[], int]) -> NoReturn:
    """Do the work of a process, and end the process with the status that it returns.

    The memory is left to the operating system: Python would take half a second to free torch's
    modules one by one. Threads and functions for the exit (`atexit`) end as always, those of the
    modules that the work imports too, and an error ends the process by itself. Ctrl-C ends it with
    130, also while the work imports its modules.
    """
    status = 1

    def leave() -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):  # none, or closed
                stream.flush()
        os._exit(status)

    atexit.register(leave)  # before the work's imports, so that it is called after theirs
    try:
        status = work()
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BaseException:
        atexit.unregister(leave)
        raise
    sys.exit(status)
