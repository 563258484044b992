"""The feed of sinks: each gets the rounds and the summary of a run once."""

import csv
import importlib.util
import math
import re
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

from curvfed.server_app.directory import TEXTS
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.sinks import Sink, Sinks
from curvfed.strategies.base.keys import dotted
from curvfed.strategies.config.run_config import RunConfig, flatten
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import log
from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError

KIND = "sinks"
"""The group of entry points, without `curvfed.`."""


class Feed(Sinks):
    """The sinks of a run. Each gets every round once; a sink that fails gets nothing more."""

    def __init__(self, directory: RunDirectory) -> None:
        super().__init__(directory)
        self.names = names(directory.config.sinks)
        self._open: dict[str, Sink] = {}
        self._waiting: list[Mapping[str, Any]] = []

    @classmethod
    def check_installed(cls, sinks: str) -> None:
        """Look for the sinks and their packages."""
        for name in names(sinks):
            package = sink_class(sinks, name).package
            if not package:
                continue
            spec = importlib.util.find_spec(package)
            # A spec without origin is a mere folder of that name, such as one of event files.
            if spec is None or spec.origin is None:
                raise ConfigError(
                    f'sinks = "{sinks}": the package {package} is not installed where the server'
                    f" runs; to install it, run pip install -e '.[{package}]' in this app's folder",
                    key="missing-package",
                )

    @classmethod
    def check(cls, config: RunConfig) -> None:
        """Look for the packages and, for a new run, ask for the servers."""
        super().check(config)
        if config.resume:
            return
        for name in names(config.sinks):
            try:
                sink_class(config.sinks, name).check(config)
            except Exception as error:
                raise _closed(config, name, error) from error

    def start(self) -> None:
        """Open the sinks, and send the rounds in the run directory, which a resumed run does not
        repeat.

        Raises
        ------
        ConfigError
            If a sink does not open in a new run; a resumed run, which has more to lose, continues
            without it.
        """
        config = self.directory.config
        rounds = self.directory.path / "rounds.csv"
        if not self.names:
            return
        for name in self.names:
            try:
                sink = sink_class(config.sinks, name)(self.directory)
                sink.start(flatten(config) | {"run-name": self.directory.name})
            except Exception as error:
                refusal = _closed(config, name, error)
                if not config.resume:
                    raise refusal from error
                log.warning("%s; the run goes on without it", refusal)
            else:
                self._open[name] = sink
        try:
            if rounds.exists():
                self._waiting = list(
                    csv.DictReader(rounds.read_text(encoding="utf-8").splitlines())
                )
            else:
                self._waiting = []
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
        numbers = {name: value for name, value in values.items() if name not in texts}
        figures = _figures(numbers)
        self._each(lambda sink: sink.end(summary["rounds"], figures, texts))
        self._open = {}

    def _each(self, act: Callable[[Sink], None]) -> None:
        for name, sink in list(self._open.items()):
            try:
                act(sink)
            except Exception as error:
                log.warning(
                    "the sink %s failed, the run goes on without it: %s", name, _one_line(error)
                )
                del self._open[name]


def names(sinks: str) -> tuple[str, ...]:
    """The sinks of a configuration, each once."""
    return tuple(dict.fromkeys(name for name in sinks.split(",") if name))


def sink_class(sinks: str, name: str) -> type[Sink]:
    """The sink of a name.

    Parameters
    ----------
    sinks : str
        The value of the key, for the error text.
    name : str

    Raises
    ------
    ConfigError
        If no package has the name, or its object cannot be imported or is not a Sink.
    """
    classes = plugins.additions(KIND)
    if name not in classes:
        raise ConfigError(
            f'sinks = "{sinks}": there is no sink {name}; allowed is a list of'
            f' {", ".join(classes)} with commas and without spaces, or ""'
            f"{plugins.absent_hint(KIND)}",
            key="no-such-sink",
        )
    try:
        kind = plugins.addition(KIND, name)
    except DataError as error:
        raise ConfigError(f'sinks = "{sinks}": {error}', key="sink-import") from None
    if not (isinstance(kind, type) and issubclass(kind, Sink)):
        raise ConfigError(
            f'sinks = "{sinks}": {name} is {kind!r}; allowed is a subclass of'
            f" {Sink.__module__}.Sink",
            key="not-a-sink",
        )
    return kind


def _closed(config: RunConfig, name: str, error: Exception) -> ConfigError:
    text = f'sinks = "{config.sinks}": {name} does not open: {_one_line(error)}'
    return ConfigError(text, key="sink")


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
