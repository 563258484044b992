"""The run directory: the files that a run writes, each of them atomically."""

import csv
import io
import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tomli_w

from curvfed.geometry.arrays import Array
from curvfed.server_app.directory import TABLES, check_table, text_cell, truncate
from curvfed.server_app.directory.run_lock import RunLock, has_begun
from curvfed.strategies.base.keys import nested
from curvfed.strategies.base.run_keys import OF_THE_SERVER, RunKeys
from curvfed.strategies.config.parse import SEALED_HEADING, parse, read_settings
from curvfed.strategies.config.run_config import RunConfig, flatten
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.store import Store, file_parts
from curvfed.tasks import plugins
from curvfed.tasks.registry import OWN, is_own_data
from curvfed.tasks.stored_files import sealed, write_atomically

FREE_TO_CHANGE = OF_THE_SERVER | {"num-rounds", "data-dir", "device", "threads", "early-stopping"}
"""Keys that may change when a run is resumed: the results so far do not depend on them. So may the
method's own `resumable` keys."""

PATHS = ("dataset", "data-dir", "test-data", "init-from")
"""Keys with values that may be paths of what a run reads."""

CONFUSION = "confusion.csv"


def partitions_in(folder: Path) -> list[int]:
    """The clients of the run in this folder, ascending; none before they are connected."""
    return [client["partition"] for client in _stored_clients(folder).get("clients", ())]


def num_clients_in(folder: Path) -> int:
    """The number of clients with which the run in this folder began, refused ones included; 0
    before they are connected."""
    stored = _stored_clients(folder)
    return len(stored.get("clients", ())) + len(stored.get("refused", ()))


def _stored_clients(folder: Path) -> dict[str, Any]:
    """The content of `clients.json`; empty if it is absent or damaged."""
    try:
        return dict(json.loads((folder / "clients.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


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
    """

    def __init__(self, config: RunConfig, path: Path) -> None:
        self.config = config
        self.path = path
        self.checkpoints = Store(path / "checkpoint" / "server")
        self.lock = RunLock(path)
        self.is_writable = not config.resume

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
        if not _is_new(config, path):
            _check_same_run(config, path)
            directory.lock.acquire()
            done = max(directory.checkpoints.stamps(), default=0)
            if done > config.num_rounds:
                directory.lock.release()
                raise ConfigError(
                    f"resume = true: num-rounds = {config.num_rounds}, but the run has done"
                    f" {done}; allowed is {done} or more",
                    key="too-few-rounds",
                )
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
            raise _unwritable(config, path, error.strerror) from None
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
        stored = {"clients": []} | _stored_clients(self.path)
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


def named(config: RunConfig) -> RunConfig:
    """The configuration with a run-name; a run that is resumed must have one."""
    if config.run_name or config.resume:
        return config
    return config.model_copy(update={"run_name": default_name(config)})


def default_name(config: RunKeys) -> str:
    """method-dataset-seed-time, the time in UTC."""
    dataset = Path(config.dataset).stem.lower()
    safe = "".join(
        letter if (letter.isascii() and letter.isalnum()) or letter in "._-" else "-"
        for letter in dataset
    )
    method = config.method.replace("+", "plus")
    return f"{method}-{safe[:64]}-{config.seed}-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"


def check_name(config: RunConfig) -> None:
    """Refuse the run's name for the same reasons as `RunDirectory.open`; nothing stays created.

    Raises
    ------
    ConfigError
        If a run of that name exists although `resume` is false, or does not exist or differs
        although it is true; or if its directory cannot be made or written.
    """
    path = config.results_path / config.run_name
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:  # a folder that this user may not enter, or too long a name
        raise _unwritable(config, path, error.strerror) from None
    if (config.resume or config.run_name) and not _is_new(config, path):
        _check_same_run(config, path)
    place = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise _unwritable(config, path, f"{place} is no folder that this user can write")
    try:
        # Rights say too little: root has them in places where nothing can be made.
        with tempfile.TemporaryDirectory(prefix=".curvfed-", dir=place):
            pass
    except OSError as error:
        raise _unwritable(config, path, error.strerror) from None


def _unwritable(config: RunConfig, path: Path, reason: str | None) -> ConfigError:
    return ConfigError(
        f'results-dir = "{config.results_dir}": {path} cannot be made ({reason}); needed is a'
        " folder that can be written, and room on its disk",
        key="unwritable",
    )


def _is_new(config: RunConfig, path: Path) -> bool:
    """Whether a run begins in a folder, and does not resume there.

    Raises
    ------
    ConfigError
        If there is a run although `resume` is false.
    """
    begun = has_begun(path)
    if begun and not config.resume:
        raise ConfigError(
            f'run-name = "{path.name}": {path} exists; allowed is a new name, or resume = true to'
            " continue that run",
            key="run-exists",
        )
    return not begun and (path.exists() or not config.resume)


def _check_same_run(config: RunConfig, path: Path) -> None:
    try:
        earlier = parse(read_settings(path / "config.toml", written_by_run=True))
    except FileNotFoundError:
        raise ConfigError(
            f"resume = true: there is no run in {path}; allowed is the run-name of an existing run",
            key="no-run",
        ) from None
    except (OSError, ValueError) as error:  # not TOML, or written by another version
        reason = error if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"resume = true: {path / 'config.toml'} cannot be read ({reason}): it is damaged, or"
            " was written by another version of the app",
            key="unreadable-config",
        ) from None
    if earlier.run_name != path.name and (path / "checkpoint" / "clients").exists():
        raise ConfigError(
            f'run-name = "{path.name}": {path} is the renamed folder, or a copy, of the run'
            f' "{earlier.run_name}", and what its clients keep there belongs to that name;'
            " name it so again to continue the run, a copy in another results-dir",
            key="renamed-run",
        )
    before = flatten(earlier)
    now = flatten(config)
    free = FREE_TO_CHANGE | config.resumable_keys
    for key, value in now.items():
        fixed = key not in free or (
            key == "num-rounds" and earlier.fixed_by_num_rounds != config.fixed_by_num_rounds
        )
        # The run has named itself, and may have learned from its clients that they have data of
        # their own.
        named_by_run = key == "run-name" or (key == "dataset" and before[key] == OWN)
        is_equal = located(key, before.get(key)) == located(key, value)
        if fixed and not named_by_run and not is_equal:
            raise ConfigError(
                f"resume = true: {key} = {value!r}, but the run began with {before.get(key)!r};"
                " allowed is the same value",
                key="changed-key",
            )
    check_model_code(path, config.model)


def located(key: str, value: Any) -> Any:
    """The value of a key; a relative path of a file or folder that is there, as an absolute one."""
    if key not in PATHS or value in ("", "auto", "none") or str(value).startswith("~"):
        return value
    if key == "dataset" and not is_own_data(value):
        return value
    path = Path(value)
    return value if path.is_absolute() or not path.exists() else str(path.resolve())


def check_model_code(path: Path, model: str | None) -> None:
    """Refuse a run's model if its code has changed since the run began, by `check` of the group
    `curvfed.model-code`.

    Raises
    ------
    ConfigError
    DataError
        If the model cannot be imported.
    """
    stored = _stored_clients(path)
    if stored and "check" in plugins.additions(plugins.MODEL_CODE):
        plugins.addition(plugins.MODEL_CODE, "check")(stored, path, model)


def _plain(value: Any) -> Any:
    """A value for JSON, which lacks NaN: figures that are not finite become None."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
