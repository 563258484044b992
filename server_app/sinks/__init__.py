"""Sinks: places besides the run directory that receive the figures of a run. A sink that is not
used is not imported.

A sink has three methods. `start(config)` begins a run; a resumed run then sends all its rounds so
far again. `round(number, figures)` receives the final figures of a round by `phase/column`.
`end(rounds, figures, texts)` receives the summary after this number of rounds, by dotted names, and
is the last call. An exception ends the sink, not the run.
"""

import csv
import importlib.util
import math
import re
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from curvfed.server_app.directory import TEXTS
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.strategies.base.keys import Scalar, dotted
from curvfed.strategies.base.statistics import add_prefix
from curvfed.strategies.config.run_config import RunConfig, flatten
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import log

FLUSH = 10
"""Maximum number of seconds before a figure is in the file."""


class Sinks:
    """The sinks of a run. Each gets every round once; a sink that fails gets nothing more.

    Parameters
    ----------
    directory : RunDirectory
    """

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._open: dict[str, Any] = {}
        self._waiting: list[Mapping[str, Any]] = []

    def start(self) -> None:
        """Open the sinks, and send the rounds in the run directory, which a resumed run does not
        repeat.

        Raises
        ------
        ConfigError
            If a sink does not open in a new run; a resumed run, which has more to lose, continues
            without it.
        """
        config = self._directory.config
        rounds = self._directory.path / "rounds.csv"
        for name in names(config.sinks):
            try:
                sink = _make(name, self._directory)
                sink.start(flatten(config) | {"run-name": self._directory.name})
            except Exception as error:
                refusal = _closed(config, name, error)
                if not config.resume:
                    raise refusal from error
                log.warning("%s; the run goes on without it", refusal)
            else:
                self._open[name] = sink
        try:
            self._waiting = (
                list(csv.DictReader(rounds.read_text(encoding="utf-8").splitlines()))
                if rounds.exists()
                else []
            )
        except (OSError, csv.Error) as error:
            log.warning(
                "rounds.csv cannot be read, the sinks get no earlier rounds: %s",
                _one_line(error),
            )
        self.flush()

    def add(self, row: Mapping[str, Any]) -> None:
        """Keep a row of `rounds.csv` until `flush` sends it."""
        self._waiting.append(row)

    def flush(self) -> None:
        """Send the rows so far; the run's checkpoint includes them, so none is sent twice."""
        for number, rows in groupby(self._waiting, key=lambda row: int(row["round"])):
            cells = {}
            for row in rows:
                for column in row.keys() - {"round", *TEXTS["rounds.csv"]}:
                    cells[f"{row['phase']}/{column}"] = row[column]
            figures = dict(sorted(_figures(cells).items()))
            self._each(lambda sink: sink.round(number, figures))  # noqa: B023
        self._waiting = []

    def end(self, summary: Mapping[str, Any]) -> None:
        """Send the summary and close."""
        if summary["status"].startswith("completed"):
            self.flush()
        values = {name: value for name, value in dotted(summary).items() if value is not None}
        texts = {
            name: " ".join(str(value).split())
            for name, value in values.items()
            if isinstance(value, str) or name.startswith("settled.")
        }
        figures = _figures({name: value for name, value in values.items() if name not in texts})
        self._each(lambda sink: sink.end(summary["rounds"], figures, texts))
        self._open = {}

    def _each(self, act: Callable[[Any], None]) -> None:
        for name, sink in list(self._open.items()):
            try:
                act(sink)
            except Exception as error:
                log.warning(
                    "the sink %s failed, the run goes on without it: %s", name, _one_line(error)
                )
                del self._open[name]


def names(sinks: str) -> tuple[str, ...]:
    """The sinks of a configuration, each once; a sink has the name of its package and our extra."""
    return tuple(dict.fromkeys(name for name in sinks.split(",") if name))


def check_installed(sinks: str) -> None:
    """Look for the packages without importing them.

    Raises
    ------
    ConfigError
        If one is missing.
    """
    for name in names(sinks):
        package = importlib.util.find_spec(name)
        # A spec without origin is a mere folder of that name, such as one of event files.
        if package is None or package.origin is None:
            raise ConfigError(
                f'sinks = "{sinks}": the package {name} is not installed where the server runs;'
                " to install it, run "
                f"pip install -e '.[{name}]' in this app's folder",
                key="missing-package",
            )


def check_sinks(config: RunConfig) -> None:
    """Look for the packages and, for a new run, ask for the servers; nothing is sent or made.

    Raises
    ------
    ConfigError
        If a package is missing, a server does not answer, or the account has no access.
    """
    check_installed(config.sinks)
    trackers = [name for name in names(config.sinks) if name != "tensorboard"]
    if config.resume or not trackers:
        return
    from curvfed.server_app.sinks.trackers import CHECKS

    for name in trackers:
        try:
            CHECKS[name](config)
        except Exception as error:
            raise _closed(config, name, error) from error


def _closed(config: RunConfig, name: str, error: Exception) -> ConfigError:
    text = f'sinks = "{config.sinks}": {name} does not open: {_one_line(error)}'
    return ConfigError(text, key="sink")


def _make(name: str, directory: RunDirectory) -> Any:
    if name == "tensorboard":
        return TensorBoard(directory.path)
    from curvfed.server_app.sinks import trackers

    return trackers.WandB(directory) if name == "wandb" else trackers.MLflow(directory)


def _figures(cells: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers among cells, as they are written or read back."""
    numbers = {}
    for name, cell in cells.items():
        try:
            numbers[name] = float(cell)
        except (TypeError, ValueError):
            continue
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def _one_line(error: Exception) -> str:
    """The text of an error on one line, without the password that an address may hold."""
    text = " ".join(str(error).split()) or type(error).__name__
    return re.sub(r"//[^/@\s]+@", "//", text)[:500]


class TensorBoard:
    """A sink that writes event files in `tensorboard/` of a run directory.

    Parameters
    ----------
    path : Path
        The run directory.
    """

    def __init__(self, path: Path) -> None:
        self._folder = path / "tensorboard"

    def start(self, config: Mapping[str, Scalar]) -> None:
        """Begin with an empty folder: a file cannot be cut off after a round, and all rounds
        follow."""
        from torch.utils.tensorboard import SummaryWriter  # takes seconds

        for file in self._folder.glob("events.out.tfevents.*"):
            file.unlink()
        # The step makes an open TensorBoard forget what it has read of this run.
        self._writer = SummaryWriter(str(self._folder), purge_step=0, flush_secs=FLUSH)
        self._writer.add_text("configuration", _code(config), 0)

    def round(self, number: int, figures: Mapping[str, float]) -> None:
        """Add a point to the curve of each figure."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, number)

    def end(self, rounds: int, figures: Mapping[str, float], texts: Mapping[str, str]) -> None:
        """Add a point for each figure, and the texts."""
        self.round(rounds, add_prefix("summary/", figures))
        self._writer.add_text("summary", _code(texts), rounds)
        self._writer.close()


def _code(values: Mapping[str, Scalar]) -> str:
    """A block of Markdown that is shown unchanged."""
    return "\n".join(f"    {key} = {value}" for key, value in values.items())
