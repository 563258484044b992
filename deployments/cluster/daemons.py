"""Long-running commands in the background: started, found again, and stopped with all that they started."""

import contextlib
import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from deployments.cluster.commands import Command
from deployments.cluster.errors import ClusterError

PATIENCE = 12.0
"""Seconds that a command has to end when it is asked to; Flower's own take up to 5."""


@dataclass(frozen=True)
class Daemon:
    """A command that runs in the background, by the name of its files in a folder.

    Attributes
    ----------
    folder : Path
    name : str
    """

    folder: Path
    name: str

    @property
    def log(self) -> Path:
        """What it prints."""
        return self.folder / f"{self.name}.log"

    @property
    def _file(self) -> Path:
        return self.folder / f"{self.name}.pid"

    def start(self, command: Command, settle: float = 3.0) -> psutil.Process:
        """Start it, and watch it for the first seconds.

        Raises
        ------
        ClusterError
            If it is running already, or ends at once; with the end of its log.
        """
        if (running := self.process()) is not None:
            raise ClusterError(f"{self.name} is running already, process {running.pid}; `down` stops it")
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C in the terminal is not for it.
            child = subprocess.Popen(
                command.words,
                env=command.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        process = psutil.Process(child.pid)
        # The moment of its start tells it from a later process of the same number.
        self._file.write_text(json.dumps({"pid": child.pid, "created": process.create_time()}), encoding="utf-8")
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(settle)
            self._file.unlink(missing_ok=True)
            raise ClusterError(f"{self.name} ended at once, exit status {child.returncode}\n{self.tail()}")
        return process

    def process(self) -> psutil.Process | None:
        """The process, if it runs."""
        try:
            known = json.loads(self._file.read_text(encoding="utf-8"))
            process = psutil.Process(known["pid"])
            is_it = abs(process.create_time() - known["created"]) < 1 and process.status() != psutil.STATUS_ZOMBIE
        except (OSError, ValueError, KeyError, psutil.Error):
            return None
        return process if is_it else None

    def stop(self) -> bool:
        """End it and all that it started; False if it was not running."""
        process = self.process()
        if process is not None:
            stop_tree(process)
        self._file.unlink(missing_ok=True)
        return process is not None

    def tail(self, lines: int = 12) -> str:
        """The end of its log."""
        with contextlib.suppress(OSError):
            return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
        return ""


def stop_tree(process: psutil.Process, patience: float = PATIENCE) -> None:
    """Ask a process to end, wait, and kill what is left of it and of what it started."""
    with contextlib.suppress(psutil.Error):
        family = [process, *process.children(recursive=True)]
        process.terminate()
        _, alive = psutil.wait_procs(family, patience)
        for each in alive:
            with contextlib.suppress(psutil.Error):
                each.kill()
        psutil.wait_procs(alive, 3)


def running(folder: Path) -> list[Daemon]:
    """All that run from a folder."""
    found = [Daemon(folder, path.stem) for path in sorted(folder.glob("*.pid"))]
    return [daemon for daemon in found if daemon.process() is not None]


def stop_all(folders: Sequence[Path]) -> list[str]:
    """Stop what runs from some folders, in their order; its names."""
    return [daemon.name for folder in folders for daemon in running(folder) if daemon.stop()]


def wait_until(condition: object, seconds: float, pause: float = 0.25) -> bool:
    """Whether a condition came true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if callable(condition) and condition():
            return True
        time.sleep(pause)
    return False
