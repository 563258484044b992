"""The run directory: what a run leaves, written so that a reader never sees half of it."""

import contextlib
import json
import math
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import NDArray
from safetensors.numpy import save

from curvfed.server_app.directory.run_lock import RunLock
from curvfed.server_app.directory.tables import TABLES, append, check_table, truncate
from curvfed.strategies.base.dotted import nested
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import RunConfig, flatten, home
from curvfed.strategies.config.settings_file import HEADING, read_settings
from curvfed.strategies.wire.store import Store
from curvfed.tasks.atomic_file import write_atomically

FREE_TO_CHANGE = frozenset({"resume", "num-rounds", "results-dir", "data-dir", "device", "threads", "round-timeout",
                            "debug", "test-data", "sinks", "mlflow.tracking-uri", "mlflow.experiment"})  # fmt: skip
"""Keys that a resumed run may set anew: they do not change what has been computed so far."""


class RunDirectory:
    """`<results-dir>/<run-name>/` of one run.

    Parameters
    ----------
    config : RunConfig
    path : Path

    Attributes
    ----------
    is_writable : bool
        Whether this run may write here; a resumed one not before `start_writing`.
    """

    def __init__(self, config: RunConfig, path: Path) -> None:
        self.config, self.path = config, path
        self.checkpoints = Store(path / "checkpoint" / "server")
        self.lock = RunLock(path)
        self.is_writable = not config.resume

    @property
    def name(self) -> str:
        """The run's name."""
        return self.path.name

    @classmethod
    def open(cls, config: RunConfig) -> "RunDirectory":
        """Make the directory, or with `resume` find it.

        Raises
        ------
        ConfigError
            If it exists and is not to be resumed, does not exist and is, was made with another configuration, is written
            by another process, or cannot be written.
        """
        path = config.results_path / (config.run_name or default_name(config))
        directory = cls(config, path)
        if config.resume:
            _check_same_run(config, path)
            directory.lock.acquire()
            try:
                directory._check_rounds()
            except ConfigError:
                directory.lock.release()
                raise
            return directory
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise _taken(path) from None
        except OSError as error:
            raise ConfigError(
                f'results-dir = "{config.results_dir}": {path} cannot be made ({error.strerror}); needed is a folder that '
                "can be written"
            ) from None
        directory.lock.acquire()
        try:
            directory._write_config()
        except OSError:
            directory.lock.release()
            raise
        return directory

    def _check_rounds(self) -> None:
        """A resumed run may ask for more rounds than before, and not for fewer."""
        done = max(self.checkpoints.stamps(), default=0)
        if done > self.config.num_rounds:
            raise ConfigError(
                f"resume = true: num-rounds = {self.config.num_rounds}, but the run has done {done}; allowed is {done} or "
                "more"
            )

    def start_writing(self, last_round: int) -> None:
        """Go on from a round, which a resumed run does once nothing stands against it: until then all stays as it was.

        Its configuration becomes the one in effect, and what was written of later rounds is removed.

        Parameters
        ----------
        last_round : int
            That of the checkpoint; -1 where there is none yet.

        Raises
        ------
        ConfigError
            If the tables are not those that this checkpoint and this version of the app go on with, or the directory
            cannot be written.
        """
        if self.is_writable:
            return
        for name in TABLES:
            check_table(self.path / name, last_round)
        try:
            self._write_config()
        except OSError as error:
            raise ConfigError(f"resume = true: {self.path} cannot be written ({error.strerror})") from None
        self.is_writable = True
        for name in TABLES:
            truncate(self.path / name, last_round)

    def _write_config(self) -> None:
        """`config.toml`: the configuration in effect, enough to run it again."""
        settings = flatten(self.config) | {
            "run-name": self.path.name,
            "resume": False,
        }
        write_atomically(self.path / "config.toml", (HEADING + tomli_w.dumps(nested(settings))).encode())

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """`summary.json`; figures that are not finite become null."""
        text = json.dumps(_plain(summary), indent=2, allow_nan=False)
        write_atomically(self.path / "summary.json", text.encode() + b"\n")

    def write_clients(self, clients: dict[str, Any]) -> None:
        """`clients.json`: who took part, and what their data are like where they tell.

        A resumed run keeps what it knew of clients that did not come back.
        """
        path = self.path / "clients.json"
        known: dict[str, Any] = {"clients": []}
        if path.exists():
            known = json.loads(path.read_text())
        here = {client["partition"] for client in clients["clients"]}
        everybody = [*clients["clients"], *(client for client in known["clients"] if client["partition"] not in here)]
        merged = known | clients | {"clients": sorted(everybody, key=lambda client: int(client["partition"]))}
        write_atomically(path, json.dumps(_plain(merged), indent=1).encode() + b"\n")

    def num_clients(self) -> int:
        """How many clients the run has had; 0 before they have met."""
        try:
            return len(json.loads((self.path / "clients.json").read_text())["clients"])
        except (OSError, ValueError, KeyError):
            return 0

    def append(self, round_row: Mapping[str, Any], client_rows: Iterable[Mapping[str, Any]]) -> None:
        """Add a phase to `rounds.csv` and `clients.csv`."""
        append(self.path / "rounds.csv", [round_row])
        append(self.path / "clients.csv", client_rows)

    def write_model(self, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> None:
        """`model.safetensors`: the shared parameters, with what is needed to build the model again."""
        write_atomically(self.path / "model.safetensors", save(_in_rows(arrays), {"curvfed": json.dumps(about)}))


def _in_rows(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays in C order: safetensors writes the memory of any other as if it were."""
    return {name: np.asarray(array, order="C") for name, array in arrays.items()}


def default_name(config: RunConfig) -> str:
    """method-dataset-seed-time, the time in UTC."""
    dataset = Path(config.dataset).stem.lower()
    safe = "".join(letter if (letter.isascii() and letter.isalnum()) or letter in "._-" else "-" for letter in dataset)
    method = config.method.replace("+", "plus")
    return f"{method}-{safe[:64]}-{config.seed}-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"


def write_failure(error: str, raw: Mapping[str, Any], config: RunConfig | None) -> Path | None:
    """A summary of a run that could not even begin, in a directory of its own; its path, or None if there is no place.

    It goes where the run directory would have been, and where that is the trouble below the default results folder. A
    directory that is there already is left as it is.

    Parameters
    ----------
    raw : mapping
        The configuration as given, possibly unfit.
    config : RunConfig or None
        The same as parsed, if it could be.
    """
    run_name, results_dir = raw.get("run-name"), raw.get("results-dir")
    wanted = run_name if isinstance(run_name, str) and run_name == Path(run_name).name else ""
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    names = [f"{wanted}-refused-{stamp}"] if wanted else [f"refused-{stamp}"]
    if wanted and raw.get("resume") is not True:  # a run that is to be resumed has that name, or will have it
        names.insert(0, wanted)
    given = [Path(results_dir)] if isinstance(results_dir, str) and results_dir else []
    with contextlib.suppress(RuntimeError):  # "~nobody"
        given = [folder.expanduser() for folder in given]
    for folder in [*given, home() / "results"]:
        for name in names:
            try:
                (folder / name).mkdir(parents=True)
                text = json.dumps(failed_summary(error, config), indent=2)
                write_atomically(folder / name / "summary.json", text.encode())
            except (OSError, ValueError):
                continue
            return folder / name
    return None


def failed_summary(error: str, config: RunConfig | None) -> dict[str, Any]:
    """The keys that every summary has, for a run without figures."""
    return {
        "status": "failed",
        "error": error,
        "method": config.method if config else None,
        "dataset": config.dataset if config else None,
        "seed": config.seed if config else None,
        "num_clients": None,
        "rounds": 0,
        "global_accuracy": None,
        "personal_accuracy_mean": None,
        "personal_accuracy_std": None,
        "metrics": {},
        "best_validation": None,
        "bytes_up": None,
        "bytes_down": None,
        "seconds": None,
        "seconds_training": None,
        "seconds_aggregation": None,
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """What a run was made with."""
    return {"python": platform.python_version()} | {name: version(name) for name in ("flwr", "torch", "numpy")}


def check_name(config: RunConfig) -> None:
    """What `RunDirectory.open` refuses for the run's name, before anything is made.

    Raises
    ------
    ConfigError
        If a run of that name is there, and is not to be resumed; or is to be, and is not there or another one.
    """
    path = config.results_path / config.run_name
    if config.resume:
        _check_same_run(config, path)
    elif config.run_name and path.exists():
        raise _taken(path)


def _taken(path: Path) -> ConfigError:
    return ConfigError(
        f'run-name = "{path.name}": {path} exists; allowed is a new name, or resume = true to go on with that run'
    )


def _check_same_run(config: RunConfig, path: Path) -> None:
    try:
        begun = parse(read_settings(path / "config.toml"))
    except FileNotFoundError:
        raise ConfigError(
            f"resume = true: there is no run in {path}; allowed is the run-name of a run that was begun"
        ) from None
    except (OSError, ValueError) as error:  # not TOML, or of another version
        told = error if isinstance(error, ConfigError) else type(error).__name__
        raise ConfigError(
            f"resume = true: {path / 'config.toml'} cannot be read ({told}): it is damaged, or of another "
            "version of the app"
        ) from None
    before, now = flatten(begun), flatten(config)
    for key, value in now.items():
        fixed = key not in FREE_TO_CHANGE or (
            key == "num-rounds" and begun.fixed_by_num_rounds != config.fixed_by_num_rounds
        )
        if fixed and key != "run-name" and before[key] != value:
            raise ConfigError(
                f"resume = true: {key} = {value!r}, but the run was begun with {before[key]!r}; allowed is the same value"
            )


def _plain(value: Any) -> Any:
    """JSON has no NaN: such figures become null."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
