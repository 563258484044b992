"""The run directory: what a run leaves, written so that a reader never sees half of it."""

import contextlib
import csv
import json
import math
import platform
import tomllib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import NDArray
from safetensors.numpy import save

from server_app.run_lock import RunLock
from strategies.config import ConfigError, RunConfig, flatten, home, parse
from strategies.dotted import dotted, nested
from strategies.schedule import pace
from strategies.store import Store, write_atomically

ROUND_COLUMNS = (
    "round", "phase", "global_accuracy", "personal_accuracy_mean", "loss", "replies", "dropped", "bytes_up", "bytes_down",
    "seconds", "personal_accuracy_std", "score", "score_before", "validation", "seconds_training", "seconds_aggregation",
    "weights", "weights_l1", "norm_ratio", "aggregation_note", "classifier_cosine", "classifier_norm_gap", "reasons",
)  # fmt: skip
CLIENT_COLUMNS = (
    "round", "phase", "partition", "test", "val", "accuracy", "test_before", "val_before", "accuracy_before", "loss",
    "num_examples", "weight", "steps", "curvature", "clipped", "points", "revealed", "vertices", "moved", "thinned",
    "bytes_up", "bytes_down", "seconds", "dropped",
)  # fmt: skip

FREE_TO_CHANGE = frozenset({"resume", "num-rounds", "results-dir", "data-dir", "device", "threads", "round-timeout",
                            "test-data", "sinks", "mlflow.tracking-uri", "mlflow.experiment"})  # fmt: skip
"""Keys that a resumed run may set anew: they do not change what has been computed so far."""


class RunDirectory:
    """`<results-dir>/<run-name>/` of one run.

    Parameters
    ----------
    config : RunConfig
    path : Path
    """

    def __init__(self, config: RunConfig, path: Path) -> None:
        self.config, self.path = config, path
        self.checkpoints = Store(path / "checkpoint" / "server")
        self.lock = RunLock(path)

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
                directory._go_on()
            except ConfigError:
                directory.lock.release()
                raise
            return directory
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise ConfigError(
                f'run-name = "{path.name}": {path} exists; allowed is a new name, or resume = true to go on with that run'
            ) from None
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

    def _go_on(self) -> None:
        """Take the configuration of a resumed run, which may ask for more rounds than before, and not for fewer."""
        done = max(self.checkpoints.stamps(), default=0)
        if done > self.config.num_rounds:
            raise ConfigError(
                f"resume = true: num-rounds = {self.config.num_rounds}, but the run has done {done}; allowed is {done} or "
                "more"
            )
        try:
            self._write_config()
        except OSError as error:
            raise ConfigError(f"resume = true: {self.path} cannot be written ({error.strerror})") from None

    def _write_config(self) -> None:
        """`config.toml`: the configuration in effect, enough to run it again."""
        settings = flatten(self.config) | {"run-name": self.path.name, "resume": False}
        write_atomically(self.path / "config.toml", tomli_w.dumps(nested(settings)).encode())

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """`summary.json`; figures that are not finite become null."""
        text = json.dumps(_plain(summary), indent=2, allow_nan=False)
        write_atomically(self.path / "summary.json", text.encode() + b"\n")

    def write_clients(self, clients: dict[str, Any]) -> None:
        """`clients.json`: who took part, and what their data are like where they tell.

        A resumed run keeps what it knew of clients that did not come back.
        """
        path = self.path / "clients.json"
        known: dict[str, Any] = {"clients": [], "num_partitions": 0}
        if path.exists():
            known = json.loads(path.read_text())
        here = {client["partition"] for client in clients["clients"]}
        everybody = [*clients["clients"], *(client for client in known["clients"] if client["partition"] not in here)]
        merged = clients | {
            "clients": sorted(everybody, key=lambda client: int(client["partition"])),
            "num_partitions": max(known["num_partitions"], clients.get("num_partitions", len(here))),
        }
        write_atomically(path, json.dumps(_plain(merged), indent=1).encode() + b"\n")

    def num_clients(self) -> int:
        """How many clients the run has had; 0 before they have met."""
        try:
            return len(json.loads((self.path / "clients.json").read_text())["clients"])
        except (OSError, ValueError, KeyError):
            return 0

    def append(self, round_row: Mapping[str, Any], client_rows: Iterable[Mapping[str, Any]]) -> None:
        """Add a phase to `rounds.csv` and `clients.csv`."""
        _append(self.path / "rounds.csv", ROUND_COLUMNS, [round_row])
        _append(self.path / "clients.csv", CLIENT_COLUMNS, client_rows)

    def truncate(self, last_round: int) -> None:
        """Remove what a crashed run wrote of rounds after `last_round`."""
        for name in ("rounds.csv", "clients.csv"):
            path = self.path / name
            # What follows the last end of a line was being written when the run died; it may be all there is.
            lines = path.read_text().split("\n")[:-1] if path.exists() else []
            kept = lines[:1] + [line for line in lines[1:] if _belongs(line, last_round)]
            if kept:
                write_atomically(path, "".join(f"{line}\n" for line in kept).encode())
            else:
                path.unlink(missing_ok=True)

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
    names = [wanted, f"{wanted}-refused-{stamp}"] if wanted else [f"refused-{stamp}"]
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


def _check_same_run(config: RunConfig, path: Path) -> None:
    try:
        begun = parse(dotted(tomllib.loads((path / "config.toml").read_text())))
    except (OSError, ValueError):  # absent, not TOML, or of another version
        raise ConfigError(
            f"resume = true: there is no run in {path}; allowed is the run-name of a run that was begun"
        ) from None
    before, now = flatten(begun), flatten(config)
    for key, value in now.items():
        fixed = key not in FREE_TO_CHANGE or (key == "num-rounds" and pace(begun) != pace(config))
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


def _append(path: Path, columns: tuple[str, ...], rows: Iterable[Mapping[str, Any]]) -> None:
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)


def _cell(value: Any) -> Any:
    """Empty for None, and text on one line: a row must be a line for `truncate`."""
    return "" if value is None else " ".join(value.split()) if isinstance(value, str) else value


def _belongs(line: str, last_round: int) -> bool:
    number = line.split(",", 1)[0]
    return number.isdigit() and int(number) <= last_round
