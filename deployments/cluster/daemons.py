"""Programs in the background: started, found again, and stopped with all that they started."""

import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.cluster.flower_commands import Command
from curvfed.deployments.processes import is_alive

PATIENCE = 12.0
"""Seconds that a program has to end when it is asked to; Flower's own take up to 5."""

_started: list[psutil.Popen] = []
"""Held, because Python warns of a child that it forgets while it runs: these are meant to outlive their parent."""


@dataclass(frozen=True)
class Daemon:
    """A program that runs in the background, by the name of its files in a folder.

    Attributes
    ----------
    folder : Path
    name : str
    """

    folder: Path
    name: str

    @property
    def log(self) -> Path:
        """The file of what it prints."""
        return self.folder / f"{self.name}.log"

    @property
    def _file(self) -> Path:
        return self.folder / f"{self.name}.pid"

    def start(self, command: Command, is_up: Callable[[str], bool], patience: float) -> bool:
        """Start it, and watch it until it is up.

        Parameters
        ----------
        command : Command
        is_up : callable
            Is given what the program has printed so far.
        patience : float
            Seconds to wait.

        Returns
        -------
        bool
            Whether it was up in time; it runs on if not.

        Raises
        ------
        ClusterError
            If it is running already, or ends before it is up; with the end of its log.
        """
        self.check_free()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        begin = self.log.stat().st_size if self.log.exists() else 0
        # A session of its own: Ctrl-C in the terminal is not for it.
        with self.log.open("ab") as log:
            streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
            child = psutil.Popen(command.words, env=command.environment, start_new_session=True, **streams)
        _started.append(child)
        # The moment of its start tells it from a later process of the same number.
        known = {"pid": child.pid, "created": child.create_time()}
        self._file.write_text(json.dumps(known), encoding="utf-8")
        deadline, is_late = time.monotonic() + patience, False
        while not is_late:
            is_late = time.monotonic() > deadline  # then it is looked at once more
            if child.poll() is not None:
                self._file.unlink(missing_ok=True)
                raise ClusterError(f"{self.name} ended, exit status {child.returncode}\n{self.tail(begin=begin)}")
            if is_up(self._said(begin)):
                return True
            time.sleep(0.2)
        return False

    def check_free(self) -> None:
        """Refuse to start it a second time.

        Raises
        ------
        ClusterError
        """
        if (running := self.process()) is not None:
            raise ClusterError(f"{self.name} is running already, process {running.pid}; `down` stops it")

    def process(self) -> psutil.Process | None:
        """The process, if it runs."""
        try:
            known = json.loads(self._file.read_text(encoding="utf-8"))
            process = psutil.Process(known["pid"])
            is_it = abs(process.create_time() - known["created"]) < 1 and is_alive(process)
        except (OSError, ValueError, KeyError, psutil.Error):
            return None
        return process if is_it else None

    def stop(self) -> bool:
        """End it and all that it started; False if it was not running."""
        process = self.process()
        if process is not None:
            _stop_tree(process)
        self._file.unlink(missing_ok=True)
        return process is not None

    def tail(self, lines: int = 12, begin: int = 0) -> str:
        """The end of its log, or of what stands there from a byte on: earlier starts wrote to it, too."""
        return "\n".join(self._said(begin).splitlines()[-lines:])

    def _said(self, begin: int) -> str:
        return self.log.read_bytes()[begin:].decode(errors="replace") if self.log.exists() else ""

    def __str__(self) -> str:
        process = self.process()
        return f"{self.name}: process {process.pid if process else '?'}, log {self.log}"


def _stop_tree(process: psutil.Process) -> None:
    """Ask a process to end, then what is left of those that it started, and kill those that do not."""
    with contextlib.suppress(psutil.Error):
        children = process.children(recursive=True)
        for family, patience in (([process], PATIENCE), (children, 2.0)):
            for each in family:
                with contextlib.suppress(psutil.Error):
                    each.terminate()
            _, alive = psutil.wait_procs(family, patience)
            for each in alive:
                with contextlib.suppress(psutil.Error):
                    each.kill()


def running(folders: Iterable[Path]) -> list[Daemon]:
    """All that run from some folders, in their order."""
    found = [Daemon(folder, path.stem) for folder in folders for path in sorted(folder.glob("*.pid"))]
    return [daemon for daemon in found if daemon.process() is not None]


def stop_all(folders: Iterable[Path]) -> list[str]:
    """Stop what runs from some folders, in their order; its names."""
    return [daemon.name for daemon in running(folders) if daemon.stop()]
