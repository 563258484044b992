"""One server per run directory: two would write each other's rounds."""

import errno
import fcntl
import logging
import os
import time
from pathlib import Path

from curvfed.strategies.base.errors import ConfigError

PATIENCE = 60.0
"""Seconds to wait for an earlier server of the run, which may hear only from Flower's next heartbeat that it is to end."""

log = logging.getLogger("curvfed")


class RunLock:
    """Held by the process that writes a run directory; the system takes it back when the process is gone, however it went.

    Parameters
    ----------
    folder : Path
        The run directory. Where the file system has no locks, nothing is locked.
    """

    def __init__(self, folder: Path) -> None:
        self._path = _place(folder)
        self._name = folder.name
        self._descriptor: int | None = None

    def acquire(self, patience: float = PATIENCE) -> None:
        """Take it.

        Raises
        ------
        ConfigError
            If another process still has it after `patience` seconds.
        """
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        # To be written to: on a network file system there is no other way to have it for oneself.
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        deadline, told = time.monotonic() + patience, False
        while not _try(descriptor):
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise ConfigError(
                    f'run-name = "{self._name}": another process still writes this run; let it end, or stop it'
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
        descriptor = os.open(_place(folder), os.O_RDWR)
    except OSError:
        return False
    try:
        return not _try(descriptor)
    finally:
        os.close(descriptor)


def _place(folder: Path) -> Path:
    return folder / "checkpoint" / "lock"


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        return error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
    return True
