"""Runs for the tables of a study, each configuration once, by the runner of sweeps; and the lines of
the tables."""

import contextlib
import shutil
import statistics
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from curvfed.deployments.resources import Resources
from curvfed.extensions.sweeps.commands.paired import paired_difference

# No public function makes the runs of a list of settings: commands take a file.
from curvfed.extensions.sweeps.commands.sweep import LOGS, plan_run
from curvfed.extensions.sweeps.commands.sweep.pool import Pool
from curvfed.extensions.sweeps.commands.sweep.runner import Runner, locked
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.strategies.base.keys import dotted

PLACE = Path("studies")
"""The place that errors about settings name."""

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
    """Runs by their settings, several at a time, for a study; asked for again, a run is not
    repeated.

    A context manager: at its end no process of a run is left.

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
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(locked(folder))
        executor = self._stack.enter_context(contextlib.closing(Pool(Resources())))
        self._runner = Runner(folder, {"data-dir": str(data)}, executor)
        self._known: set[str] = set()
        self._errors: dict[str, str] = {}

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, settings: Iterable[Settings]) -> None:
        """Begin or queue runs, so that they go on while others are waited for."""
        runs = [plan_run(dict(keys), PLACE) for keys in settings]
        new = {run.name for run in runs} - self._known
        self._known |= new
        for name in () if self._reuse else new:
            shutil.rmtree(self.folder / name, ignore_errors=True)
        self._runner.add(runs)

    def run(self, settings: Settings) -> Path:
        """The run directory of a completed run.

        Raises
        ------
        RunFailed
        """
        self.start([settings])
        run = plan_run(dict(settings), PLACE)
        while self._runner.add([run]):
            ended = self._runner.wait()
            self._errors[ended.run.name] = ended.error
        if error := self._errors.get(run.name):
            raise RunFailed(f"{settings}: {error}; see {self.folder / LOGS / run.name}.log")
        return self.folder / run.name

    def summary(self, settings: Settings) -> dict[str, Any]:
        """The summary of a completed run."""
        return RunFiles(self.run(settings)).summary


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
