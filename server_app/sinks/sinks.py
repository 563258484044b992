"""Sinks: where the figures of a run go besides its directory. One that is not asked for is not even imported."""

import csv
import importlib.util
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.sinks.sink import Sink
from curvfed.strategies.base.dotted import dotted
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.run_config import RunConfig, flatten

TEXTS = frozenset({"round", "phase", "weights", "aggregation_note", "reasons"})
"""Columns of `rounds.csv` that are no figures."""

log = logging.getLogger("curvfed")


class Sinks:
    """Those that a run asks for. Each gets every round once; one that fails is left out from then on.

    Parameters
    ----------
    directory : RunDirectory
    """

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._names = names(directory.config)
        self._open: dict[str, Sink] = {}
        self._waiting: list[Mapping[str, Any]] = []

    def start(self) -> None:
        """Open them, and send what the run directory has of rounds that a resumed run does not repeat.

        Raises
        ------
        ConfigError
            If one does not open; a resumed run, which has more to lose, goes on without it.
        """
        config = self._directory.config
        told = flatten(config) | {"run-name": self._directory.name}
        for name in self._names:
            try:
                sink = _make(name, self._directory)
                sink.start(told)
            except Exception as error:
                reason = f'sinks = "{config.sinks}": {name} does not open: {_words(error)}'
                if not config.resume:
                    raise ConfigError(reason) from error
                log.warning("%s; the run goes on without it", reason)
            else:
                self._open[name] = sink
        try:
            self._waiting = _rows(self._directory.path / "rounds.csv") if self._open else []
        except (OSError, csv.Error) as error:
            log.warning("rounds.csv cannot be read, the sinks do without the rounds so far: %s", _words(error))
        self.flush()

    def add(self, row: Mapping[str, Any]) -> None:
        """Note a row of `rounds.csv`, to be sent by `flush`."""
        if self._open:
            self._waiting.append(row)

    def flush(self) -> None:
        """Send the rows so far: the run is past them, and will not write them again if it is resumed."""
        for number, rows in groupby(self._waiting, key=lambda row: int(row["round"])):
            figures = _figures(rows)
            self._each(lambda sink: sink.round(number, figures))  # noqa: B023
        self._waiting = []

    def end(self, summary: Mapping[str, Any]) -> None:
        """Send the summary and close."""
        if summary["status"] == "completed":
            self.flush()
        told = {name: value for name, value in dotted(summary).items() if value is not None}
        chosen = {name: value for name, value in told.items() if isinstance(value, str) or name.startswith("settled.")}
        texts = {name: " ".join(str(value).split()) for name, value in chosen.items()}
        figures = {name: n for name, value in told.items() if name not in chosen and (n := _number(value)) is not None}
        self._each(lambda sink: sink.end(summary["rounds"], figures, texts))
        self._open = {}

    def _each(self, act: Callable[[Sink], None]) -> None:
        for name, sink in list(self._open.items()):
            try:
                act(sink)
            except Exception as error:
                log.warning("the sink %s failed, the run goes on without it: %s", name, _words(error))
                del self._open[name]


def names(config: RunConfig) -> tuple[str, ...]:
    """The sinks that a configuration asks for, each once; each has the name of its package and of our extra."""
    return tuple(dict.fromkeys(name for name in config.sinks.split(",") if name))


def check_installed(config: RunConfig) -> None:
    """Look for the packages, without importing them.

    Raises
    ------
    ConfigError
        If one is not there.
    """
    for name in names(config):
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:  # no more than a folder of that name, such as ours of event files
            raise ConfigError(
                f'sinks = "{config.sinks}": the package {name} is not installed where the server runs; what installs it is '
                f"pip install -e '.[{name}]' in this app's folder"
            )


def _make(name: str, directory: RunDirectory) -> Sink:
    if name == "tensorboard":
        from curvfed.server_app.sinks.tensorboard_sink import TensorBoard

        return TensorBoard(directory.path)
    from curvfed.server_app.sinks.mlflow_sink import MLflow

    return MLflow(directory)


def _rows(path: Path) -> list[Mapping[str, Any]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _figures(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """By `phase/column`, of rows as they are written or as they are read back."""
    cells = {f"{row['phase']}/{column}": row[column] for row in rows for column in row.keys() - TEXTS}
    return {name: number for name, cell in sorted(cells.items()) if (number := _number(cell)) is not None}


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _words(error: Exception) -> str:
    """An error on one line, without the password that an address may hold."""
    text = " ".join(str(error).split()) or type(error).__name__
    return re.sub(r"//[^/@\s]+@", "//", text)[:500]
