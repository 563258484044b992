"""Runs for the tables, each configuration once, several at a time, each in its own process; and the
lines of the tables."""

import hashlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from curvfed.extensions.sweeps.commands.paired import paired_difference
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.strategies.base.keys import dotted

Settings = Mapping[str, Any]


class RunFailed(RuntimeError):
    """A run of a table did not complete."""


@dataclass(frozen=True)
class Outcome:
    """One line of a table.

    Attributes
    ----------
    what, bar, value : str
    passed : bool
    """

    what: str
    bar: str
    value: str
    passed: bool


Table = Callable[["Lab"], Iterator[Outcome]]


class Lab:
    """Runs by their settings; asked for again, a run is not repeated.

    Parameters
    ----------
    data : Path
        Folder of the public data sets.
    folder : Path
        Where run directories go.
    reuse : bool
        Whether runs that an earlier lab completed in the folder count, whatever the code was then.
    """

    def __init__(self, data: Path, folder: Path, reuse: bool = False) -> None:
        self.data = data
        self.folder = folder
        self._reuse = reuse
        self._pool = ThreadPoolExecutor(max(1, os.cpu_count() or 1))
        self._runs: dict[str, Future[Path]] = {}

    def start(self, settings: Iterable[Settings]) -> None:
        """Queue runs, so that they go on while others are waited for."""
        for keys in settings:
            self._future(keys)

    def run(self, settings: Settings) -> Path:
        """The run directory of a completed run.

        Raises
        ------
        RunFailed
        """
        return self._future(settings).result()

    def summary(self, settings: Settings) -> dict[str, Any]:
        """The summary of a completed run."""
        return read_summary(self.run(settings))

    def _future(self, settings: Settings) -> Future[Path]:
        key = json.dumps(settings, sort_keys=True)
        if key not in self._runs:
            # as run-name allows
            method = re.sub(r"[^A-Za-z0-9._-]", "", str(settings.get("method", "run")))
            name = f"{method}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
            self._runs[key] = self._pool.submit(self._simulate, dict(settings), name)
        return self._runs[key]

    def _simulate(self, settings: dict[str, Any], name: str) -> Path:
        if (self.folder / name).is_dir():
            run = self.folder / name
            if self._reuse and read_summary(run).get("status") == "completed":
                return run
            shutil.rmtree(self.folder / name)
        done = subprocess.run(self._command(settings, name), capture_output=True, text=True)
        if done.returncode:
            raise RunFailed(
                f"{settings}: exit status"
                f" {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        return self.folder / name

    def _command(self, settings: Settings, name: str) -> list[str]:
        place = {"data-dir": self.data, "results-dir": self.folder, "run-name": name}
        pairs = place | dict(settings)
        words = [
            f"{key}={str(value).lower() if isinstance(value, bool) else value}"
            for key, value in pairs.items()
        ]
        return [sys.executable, "-m", "curvfed", "simulate", *words]


def read_summary(folder: Path) -> dict[str, Any]:
    """`summary.json` of a run directory."""
    return RunFiles(folder).summary


def preset(name: str) -> dict[str, Any]:
    """The dotted keys of a preset."""
    text = (files("curvfed.presets") / f"{name}.toml").read_text(encoding="utf-8")
    return dotted(tomllib.loads(text))


def paired(what: str, bar: str, differences: list[float]) -> Outcome:
    """Mean of paired differences with its 95% t interval, for information."""
    _, low, high, *_ = paired_difference(differences)
    value = f"{spread(differences, signed=True)}, 95% interval {low:+.2f} to {high:+.2f}"
    return Outcome(what, bar, value, True)


def at_least(what: str, bar: float, values: list[float], signed: bool = False) -> Outcome:
    """A line that passes if the mean reaches the bar."""
    return Outcome(
        what,
        f">= {bar:+g}" if signed else f">= {bar:g}",
        spread(values, signed),
        statistics.mean(values) >= bar,
    )


def spread(values: list[float], signed: bool = False) -> str:
    """Mean, and each value."""
    sign = "+" if signed else ""
    each = ", ".join(f"{value:{sign}.1f}" for value in values)
    return f"{statistics.mean(values):{sign}.2f} ({each})"
