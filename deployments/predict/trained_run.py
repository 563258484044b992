"""A finished run, read back from its directory."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from curvfed.client_app.data.load import load_data
from curvfed.client_app.node.configuration import SIMULATED
from curvfed.client_app.node.data_digest import is_of
from curvfed.client_app.personal import state_folder
from curvfed.server_app.directory.checkpoint import Checkpoint
from curvfed.strategies.base.aggregation import Aggregation
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.method import ONE_SHOT
from curvfed.strategies.base.run_keys import home
from curvfed.strategies.config.build_method import initial_aggregation, personal_patterns
from curvfed.strategies.config.model_spec import is_fixed
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import RunConfig, resolve_defaults
from curvfed.strategies.config.settings_file import read_settings
from curvfed.strategies.wire.array_file import read
from curvfed.strategies.wire.messages import Description, Facts
from curvfed.strategies.wire.records import tuples
from curvfed.strategies.wire.store import Store
from curvfed.tasks.errors import KeyedError


class PredictError(KeyedError, ValueError):
    """A prediction that cannot be made; names what is missing."""

    area = "predict"


@dataclass(frozen=True)
class TrainedRun:
    """The parts of a run directory that a prediction needs.

    Attributes
    ----------
    path : Path
    config : RunConfig
        With every choice made.
    facts : Facts
    arrays : dict of str to array
        All parameters that the server kept, by their names in the file.
    groups : tuple of str
        In a one-shot run the class of each group of hulls, "" if it is not known.
    stamps : mapping of partition to round
        The rounds of the personal state that belongs to these parameters.
    clients : mapping of partition to Description
    last_round : int
    """

    path: Path
    config: RunConfig
    facts: Facts
    arrays: Arrays
    groups: tuple[str, ...]
    stamps: Mapping[int, int]
    clients: Mapping[int, Description]
    last_round: int

    @cached_property
    def shared(self) -> Aggregation:
        """The shared parameters of every client, in a run of rounds.

        Raises
        ------
        MessageError
            If they do not fit the run's model.
        """
        found = initial_aggregation(self.config, self.facts, len(self.clients))
        found.load(
            {name: array for name, array in self.parts.model.items() if name not in self.fixed}
        )
        return found

    @cached_property
    def fixed(self) -> Arrays:
        """The parameters that the server fixed for all clients."""
        return {
            name: array for name, array in self.parts.model.items() if is_fixed(self.config, name)
        }

    @cached_property
    def parts(self) -> Checkpoint:
        """The parameters of the last round, and those of a calibrated classifier, if there is
        one.
        """
        return Checkpoint.of(self.arrays)

    @property
    def kept_at_clients(self) -> str:
        """The reason, in words, why every client has its own model; "" if all have the same."""
        if self.config.aggregation == ONE_SHOT:
            return ""
        if personal := personal_patterns(self.config, self.facts):
            return f"keeps {', '.join(personal)} at each client"
        return "" if self.shared.is_global else "sends clients different parameters"

    @property
    def has_own_parts(self) -> bool:
        """Whether a client's model has parts of its own, in addition to or instead of the shared
        ones."""
        return self.config.row.own_model or bool(personal_patterns(self.config, self.facts))

    @property
    def listed(self) -> str:
        """The numbers of the clients, in words."""
        return _in_words(self.clients)

    @property
    def with_models(self) -> str:
        """The numbers of the clients that have trained, in words; of an adapted run only of the one
        that has joined."""
        return _in_words(self.clients.keys() & self.stamps.keys() or self.clients)

    def facts_of(self, client: int) -> Facts:
        """The facts by which this client's model was built."""
        record = self.clients.get(client)
        if not self.facts.own_ends or record is None:
            return self.facts
        return replace(self.facts, num_features=record.num_features, class_names=record.class_names)

    def part_of(self, client: int) -> dict[str, Any]:
        """The node configuration that gives a client its part of the run's data set.

        Raises
        ------
        PredictError
            If it trained on data of its own.
        """
        record = self.clients[client]
        if not record.partition_digest:
            raise PredictError(
                f"client {client} trained on its own data, not on a part of a data set: give their"
                " path"
            )
        return {"partition-id": client, "num-partitions": record.num_partitions}

    def check_same(self, data: str, client: int, digest: str) -> None:
        """Refuse data other than those on which the client trained.

        Raises
        ------
        PredictError
        """
        if digest != self.clients[client].digest:
            raise PredictError(
                f"{data} is not what client {client} of this run trained on; have its files"
                " changed?"
            )

    def check_unchanged(self, data: str) -> None:
        """Refuse a file or folder of the run's that has changed since: its test part may have been
        trained on.

        Raises
        ------
        PredictError
        """
        first = min(self.clients)
        if self.clients[first].partition_digest and Path(data).expanduser().exists():
            self.check_same(data, first, load_data(self.config, first, self.part_of(first)).digest)

    def trained_on(self, digest: str, state_path: Path | None) -> bool:
        """Whether a client trained on data of this digest, as far as this machine can tell (see
        `personal_state`)."""
        node = {} if state_path is None else {"state-path": str(state_path)}
        return any(
            is_of(record.digest, digest, client, node) for client, record in self.clients.items()
        )

    @classmethod
    def read(cls, path: Path) -> "TrainedRun":
        """Read a run directory, or the run of this name in the default results folder.

        Raises
        ------
        PredictError
            If a file is absent, or is not the file of a finished run.
        ConfigError
            If its configuration is from another version.
        """
        path = path.expanduser()
        named = home() / "results" / path
        path = (named if not path.exists() and named.exists() else path).resolve()
        try:
            config = parse(read_settings(path / "config.toml", written_by_run=True))
            known = json.loads((path / "clients.json").read_text(encoding="utf-8"))
            # Older runs have one number of parts for all clients.
            clients = {
                int(entry["partition"]): _description(known | entry) for entry in known["clients"]
            }
        except FileNotFoundError as error:
            raise PredictError(
                f"{path} is not the directory of a run: no {Path(error.filename).name}"
            ) from None
        except OSError as error:
            raise PredictError(f"{path} cannot be read: {error}") from None
        except (
            tomllib.TOMLDecodeError,
            UnicodeDecodeError,
            KeyError,
            TypeError,
            json.JSONDecodeError,
        ) as error:
            raise PredictError(f"{path} is not the directory of a run: {error}") from None
        model = _read_model(path / "model.safetensors", config)
        return cls(path, resolve_defaults(config, model["facts"].task), clients=clients, **model)

    def personal_state(self, client: int, state_path: Path | None) -> tuple[Arrays, int]:
        """The personal state of a client that belongs to the shared parameters, and its round.

        Parameters
        ----------
        client : int
        state_path : Path or None
            The `state-path` in the node's own configuration. None: the run's checkpoint, where
            simulated clients keep their state, or the folder of a real node below the user's own.

        Raises
        ------
        PredictError, StoreError
            If there is none, or it belongs to another run, method or client, or to other data.
        """
        found = self._stored(client, state_path)
        if found is None:
            raise self.not_here("personal state", client, state_path, self.kept_at_clients)
        stamp = self.stamps.get(client, 0)
        if stamp == 0:
            raise PredictError(
                f"client {client} has not trained in this run: it has no personal parameters yet"
            )
        return self._load(found, stamp, client), stamp

    def tuned_model(self, client: int, state_path: Path | None) -> tuple[Arrays, int] | None:
        """The last fine-tuned model of a client, and its round; None if it is not on this machine.

        Arguments and errors are those of `personal_state`.
        """
        found = self._stored(client, state_path, "tuned")
        # Later ones belong to another run.
        stamps = [stamp for stamp in found.stamps() if stamp <= self.last_round] if found else []
        return (self._load(found, stamps[-1], client), stamps[-1]) if found and stamps else None

    def not_here(self, what: str, client: int, state_path: Path | None, why: str) -> PredictError:
        """The error that something of a client is not on this machine; `why` says why the client
        has it."""
        looked = ", nor in ".join(str(folder) for folder in self._folders(client, state_path))
        return PredictError(
            f"no {what} of client {client} in {looked}. {self.config.method} {why}: predict where"
            " that client trained (with --state-path, if its node has a state-path), or name a"
            " client that has trained in this run"
        )

    def _folders(self, client: int, state_path: Path | None) -> list[Path]:
        run = self.config.run_name
        if state_path is not None:
            return [state_folder(self.path.parent, run, client, {"state-path": str(state_path)})]
        return [
            state_folder(self.path.parent, self.path.name, client, SIMULATED),
            state_folder(self.path.parent, run, client, {}),
        ]

    def _stored(self, client: int, state_path: Path | None, part: str = "") -> Store | None:
        stores = [Store(folder / part) for folder in self._folders(client, state_path)]
        return next((store for store in stores if store.stamps()), None)

    def _load(self, store: Store, stamp: int, client: int) -> Arrays:
        arrays, metadata = store.load(stamp)
        wanted = {"run": self.config.run_name, "partition": client, "method": self.config.method}
        if client in self.clients:
            wanted["data"] = self.clients[client].digest
        for name, value in wanted.items():
            if metadata.get(name) != value:
                raise PredictError(
                    f"the personal state in {store.folder} is of {name} {metadata.get(name)};"
                    f" needed is {value}"
                )
        return arrays


def _in_words(clients: Iterable[int]) -> str:
    numbers = sorted(clients)
    return f"{numbers[0]}..{numbers[-1]}" if len(numbers) > 3 else ", ".join(map(str, numbers))


def _description(entry: Mapping[str, Any]) -> Description:
    """A client's entry in `clients.json`."""
    names = [field.name for field in fields(Description)]
    known = {name: value for name, value in entry.items() if name in names}
    return Description(**tuples(known | {"num_partitions": int(entry["num_partitions"])}))


def _read_model(path: Path, config: RunConfig) -> dict[str, Any]:
    """The content of `model.safetensors`, by the attributes of `TrainedRun`."""
    try:
        arrays, header = read(path)
        about = json.loads(header["curvfed"])
        found = {
            "facts": Facts(**tuples(about["facts"])),
            "arrays": arrays,
            "groups": tuple(str(name) for name in about.get("groups", ())),
            "stamps": {int(partition): int(stamp) for partition, stamp in about["stamps"].items()},
            "last_round": int(about["last_round"]),
        }
    except FileNotFoundError:
        dry = "this was a dry run (hull.dry-run), which trains nothing"
        told = (
            dry
            if config["hull.dry-run"]
            else "the run has not come to its end; go on with it by resume=true"
        )
        raise PredictError(f"no {path}: {told}") from None
    except (OSError, KeyError, TypeError, ValueError) as error:  # damage is a ValueError
        raise PredictError(
            f"{path} is not the model of a run ({type(error).__name__}: {error}); a resumed run"
            " writes it again"
        ) from None
    if about["method"] != config.method:
        raise PredictError(
            f"{path} is of method {about['method']}, config.toml beside it of {config.method}"
        )
    return found
