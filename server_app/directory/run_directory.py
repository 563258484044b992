"""The run directory: the files that a run writes, each of them atomically."""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from curvfed.geometry.arrays import Array
from curvfed.server_app.directory import TABLES, check_table, text_cell, truncate
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.directory.run_lock import RunLock
from curvfed.server_app.directory.run_name import (
    PATHS,
    check_rounds,
    check_same_run,
    checkpoints_of,
    default_name,
    is_new,
    located,
    unwritable,
)
from curvfed.strategies.base.keys import nested
from curvfed.strategies.config.parse import SEALED_HEADING
from curvfed.strategies.config.run_config import RunConfig, flatten
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.store import file_parts
from curvfed.tasks.registry import OWN
from curvfed.tasks.stored_files import sealed, write_atomically

CONFUSION = "confusion.csv"


class RunDirectory:
    """`<results-dir>/<run-name>/` of one run.

    Parameters
    ----------
    config : RunConfig
    path : Path

    Attributes
    ----------
    is_writable : bool
        Whether this run may write here; a resumed run may only after `start_writing`.
    changed : dict
        The keys that a resume has changed, with their values before.
    """

    def __init__(self, config: RunConfig, path: Path) -> None:
        self.config = config
        self.path = path
        self.checkpoints = checkpoints_of(path)
        self.lock = RunLock(path)
        self.is_writable = not config.resume
        self.changed: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """The run's name."""
        return self.path.name

    @classmethod
    def open(cls, config: RunConfig) -> "RunDirectory":
        """Create the directory, or with `resume` open an existing one.

        Raises
        ------
        ConfigError
            If it exists although `resume` is false, does not exist although it is true, belongs to
            another configuration, is being written by another process, or cannot be written.
        """
        path = config.results_path / (config.run_name or default_name(config))
        directory = cls(config, path)
        if not is_new(config, path):
            directory.changed = check_same_run(config, path)
            directory.lock.acquire()
            try:
                check_rounds(config, directory.checkpoints)
            except ConfigError:
                directory.lock.release()
                raise
            return directory
        directory.is_writable = True
        try:
            path.mkdir(parents=True, mode=0o700, exist_ok=True)
            directory.lock.acquire(patience=0)
            for name in ("summary.json", "report.html"):  # of a run that was refused
                (path / name).unlink(missing_ok=True)
            directory._write_config()
        except OSError as error:
            directory.lock.release()
            raise unwritable(config, path, error.strerror) from None
        return directory

    def start_writing(self, last_round: int, is_complete: bool = False) -> None:
        """Continue a resumed run after a round; before this call no file of it is changed.

        Writes the configuration in effect, and removes the rows of later rounds.

        Parameters
        ----------
        last_round : int
            The checkpoint's round; -1 without a checkpoint.
        is_complete : bool
            Whether this is the run's last round, so that nothing follows.

        Raises
        ------
        ConfigError
            If the tables do not fit this checkpoint or this version of the app, or the directory
            cannot be written.
        """
        if self.is_writable:
            return
        for name in TABLES:
            check_table(self.path / name, last_round)
        try:
            self._write_config()
        except OSError as error:
            raise ConfigError(
                f"resume = true: {self.path} cannot be written ({error.strerror})", key="unwritable"
            ) from None
        self.is_writable = True
        for name in TABLES:
            truncate(self.path / name, last_round)
        if not is_complete:
            # Its round is no longer the last one.
            (self.path / CONFUSION).unlink(missing_ok=True)

    def note_own_data(self) -> RunConfig:
        """Set `dataset` to own data, because all clients have data of their own, and return the
        configuration."""
        self.config = self.config.model_copy(update={"dataset": OWN})
        if self.is_writable:
            self._write_config()
        return self.config

    def _write_config(self) -> None:
        """`config.toml`: the configuration in effect, enough to run it again."""
        settings = flatten(self.config) | {"run-name": self.path.name, "resume": False}
        settings |= {key: located(key, settings[key]) for key in PATHS}
        text = SEALED_HEADING + tomli_w.dumps(nested(settings))
        write_atomically(self.path / "config.toml", sealed(text.encode()))

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """`summary.json`; figures that are not finite become null."""
        text = json.dumps(_plain(summary), indent=2, allow_nan=False)
        write_atomically(self.path / "summary.json", text.encode() + b"\n", private=True)

    def write_clients(self, clients: dict[str, Any]) -> None:
        """`clients.json`: the clients that take part, with the figures about their data that they
        share.

        A resumed run keeps the entries of clients that did not reconnect, and writes a damaged file
        again.
        """
        path = self.path / "clients.json"
        stored = {"clients": []} | RunFiles(self.path).described
        by_partition = {
            client["partition"]: client for client in [*stored["clients"], *clients["clients"]]
        }
        merged = (
            stored
            | clients
            | {"clients": [by_partition[partition] for partition in sorted(by_partition)]}
        )
        write_atomically(path, json.dumps(_plain(merged), indent=1).encode() + b"\n", private=True)

    def write_confusions(self, rows: Iterable[tuple[int, str, str, int]]) -> None:
        """`confusion.csv`: the number of each client's test examples by true and predicted class,
        after the last round."""
        rows = list(rows)
        if not rows:
            (self.path / CONFUSION).unlink(missing_ok=True)
            return
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("partition", "class", "predicted", "examples"))
        for partition, true, predicted, examples in rows:
            writer.writerow((partition, text_cell(true), text_cell(predicted), examples))
        write_atomically(self.path / CONFUSION, text.getvalue().encode(), private=True)

    def write_model(self, arrays: Mapping[str, Array], metadata: Mapping[str, Any]) -> None:
        """`model.safetensors`: the shared parameters, and metadata to rebuild the model."""
        # Sorted, so that a resumed run writes the same bytes.
        content = b"".join(
            file_parts(dict(sorted(arrays.items())), {"curvfed": json.dumps(metadata)})
        )
        write_atomically(self.path / "model.safetensors", content, private=True)


def _plain(value: Any) -> Any:
    """A value for JSON, which lacks NaN: figures that are not finite become None."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
