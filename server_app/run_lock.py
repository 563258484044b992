"""One server per run directory: two would write each other's rounds."""

import fcntl
import logging
import os
import time
from pathlib import Path

from strategies.run_config import ConfigError

PATIENCE = 60.0
"""Seconds to wait for an earlier server of the run, which may hear only from Flower's next heartbeat that it is to end."""

log = logging.getLogger("curvfed")


class RunLock:
    """Held by the process that writes a run directory; the system takes it back when the process is gone, however it went.

    Parameters
    ----------
    folder : Path
        The run directory, which itself is locked. Where the file system has no locks, nothing is.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def acquire(self, patience: float = PATIENCE) -> None:
        """Take it.

        Raises
        ------
        ConfigError
            If another process still has it after `patience` seconds.
        """
        descriptor = os.open(self._folder, os.O_RDONLY)
        deadline, told = time.monotonic() + patience, False
        while not _try(descriptor):
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise ConfigError(
                    f'run-name = "{self._folder.name}": another process still writes this run; let it end, or stop it'
                )
            if not told:
                log.info("waiting for an earlier server of this run to end")
                told = True
            time.sleep(0.5)
        self._descriptor = descriptor

    def release(self) -> None:
        """Give it back, if it is held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def is_written(folder: Path) -> bool:
    """Whether a process of this machine is writing the run directory."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _try(descriptor)
    finally:
        os.close(descriptor)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no locks on this file system
        return True
    return True
