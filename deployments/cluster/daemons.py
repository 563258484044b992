"""Programs in the background: start them, find them again, and stop them with their children."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from curvfed.deployments.cluster import rotated_log
from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.cluster.flower_commands import Command
from curvfed.deployments.processes import is_alive, stop, wait_until

PATIENCE = 12.0
"""Seconds for a program to end on request; Flower's own programs take up to 5."""

_started: list[psutil.Popen] = []
"""Stored because Python warns about a running child without a reference; these outlive their
parent."""


class Daemon:
    """A program that runs in the background.

    Parameters
    ----------
    folder : Path
        The folder of its log and its process id.
    name : str
        The stem of these files.

    Attributes
    ----------
    name : str
    log : Path
        The file of its output; each start appends to it, and it is rotated.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._folder = folder
        self.log = folder / f"{name}.log"
        self._file = folder / f"{name}.pid"

    def start(self, command: Command, is_up: Callable[[str], bool], patience: float) -> bool:
        """Start it, and wait until it is up.

        Parameters
        ----------
        command : Command
        is_up : callable
            Whether it is up, by its output so far.
        patience : float
            Seconds to wait.

        Returns
        -------
        bool
            Whether it is up in time; if not, it continues to run.

        Raises
        ------
        ClusterError
            If it already runs, or ends before it is up; the text has the end of its log.
        """
        self.check_free()
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        begin = self.log.stat().st_size if self.log.exists() else 0
        # New sessions, so that Ctrl-C in the terminal does not reach them. The writer ends with the
        # program.
        write_log = [sys.executable, "-P", rotated_log.__file__, str(self.log)]
        silent = subprocess.DEVNULL
        writer = psutil.Popen(
            write_log, stdin=subprocess.PIPE, stdout=silent, stderr=silent, start_new_session=True
        )
        with writer.stdin as log:
            streams = {"stdin": silent, "stdout": log, "stderr": subprocess.STDOUT}
            child = psutil.Popen(
                command.words, env=command.environment, start_new_session=True, **streams
            )
        _started.extend([child, writer])
        # Its start time distinguishes it from a later process with the same number.
        self._file.write_text(
            json.dumps({"pid": child.pid, "created": child.create_time()}), encoding="utf-8"
        )
        ended_or_up = wait_until(
            lambda: child.poll() is not None or is_up(self._output(begin)), patience
        )
        if child.poll() is not None:
            self._file.unlink(missing_ok=True)
            with contextlib.suppress(psutil.TimeoutExpired):
                writer.wait(2.0)
            raise ClusterError(
                f"{self.name} ended, exit status {child.returncode}\n{self.tail(begin=begin)}",
                key="ended",
            )
        return ended_or_up

    def check_free(self) -> None:
        """Refuse a second start.

        Raises
        ------
        ClusterError
        """
        if (running := self.process()) is not None:
            raise ClusterError(
                f"{self.name} is running already, process {running.pid}; `down` stops it",
                key="running",
            )

    def process(self) -> psutil.Process | None:
        """The process, if it runs."""
        try:
            stored = json.loads(self._file.read_text(encoding="utf-8"))
            process = psutil.Process(stored["pid"])
            is_same = abs(process.create_time() - stored["created"]) < 1
            return process if is_same and is_alive(process) else None
        except (OSError, ValueError, KeyError, psutil.Error):
            return None

    @property
    def was_killed(self) -> bool:
        """Whether it was started here and ended without `stop`."""
        return self._file.exists() and self.process() is None

    def stop(self) -> bool:
        """End it, then its remaining children; False if it was not running."""
        process = self.process()
        if process is not None:
            with contextlib.suppress(psutil.Error):
                children = process.children(recursive=True)
                stop([process], PATIENCE)
                stop(children, 2.0)
        self._file.unlink(missing_ok=True)
        return process is not None

    def tail(self, begin: int = 0) -> str:
        """The last lines of its log after the byte `begin`."""
        return "\n".join(self._output(begin).splitlines()[-12:])

    def _output(self, begin: int) -> str:
        content = self.log.read_bytes() if self.log.exists() else b""
        was_rotated = begin > len(content)
        return content[0 if was_rotated else begin :].decode(errors="replace")

    def __str__(self) -> str:
        process = self.process()
        return f"{self.name}: process {process.pid if process else '?'}, log {self.log}"


def running(folders: Iterable[Path]) -> list[Daemon]:
    """The running daemons of these folders, in the order of the folders."""
    daemons = [
        Daemon(folder, path.stem) for folder in folders for path in sorted(folder.glob("*.pid"))
    ]
    return [daemon for daemon in daemons if daemon.process() is not None]


def stop_all(folders: Iterable[Path]) -> list[str]:
    """Stop the running daemons of these folders in their order, and return their names."""
    return [daemon.name for daemon in running(folders) if daemon.stop()]
