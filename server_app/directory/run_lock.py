"""A lock that lets only one server write a run directory."""

import errno
import fcntl
import json
import os
import time
from pathlib import Path

from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import log

PATIENCE = 60.0
"""Seconds to wait for an earlier server of the run, which may learn only by Flower's next heartbeat
that it must end."""


class RunLock:
    """A lock that the process holds while it writes a run directory; the system releases it when
    the process ends.

    Parameters
    ----------
    folder : Path
        The run directory. On a file system without locks nothing is locked.
    """

    def __init__(self, folder: Path) -> None:
        self._path = _place(folder)
        self._name = folder.name
        self._descriptor: int | None = None

    def acquire(self, patience: float = PATIENCE) -> None:
        """Acquire the lock.

        Raises
        ------
        ConfigError
            If another process still holds it after `patience` seconds.
        """
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        # Opened for writing, because network file systems require this for an exclusive lock.
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + patience
        is_logged = False
        while not _try(descriptor):
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise ConfigError(
                    f'run-name = "{self._name}": another process is still writing this run; wait'
                    " for its end, or stop it",
                    key="running",
                )
            if not is_logged:
                log.info("waiting for the process that writes this run to end")
                is_logged = True
            time.sleep(0.5)
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock if it is held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def has_begun(folder: Path) -> bool:
    """Whether a folder holds a run, or other files of a user.

    It does not if a run was refused there, ended before its configuration was written (on a full
    disk, or killed), or failed before its clients were known.
    """
    traces = {"lock", "summary.json"}
    if stored_status(folder) == "failed":
        traces |= {"config.toml", "report.html"}
    return folder.is_file() or any(
        file.is_file() and file.name not in traces and not file.name.startswith(".config.toml-")
        for file in folder.rglob("*")
    )


def stored_status(folder: Path) -> str:
    """The status of a run in its `summary.json`; "" for none."""
    try:
        return str(json.loads((folder / "summary.json").read_bytes())["status"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


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
