"""A finished run, read back from its directory."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from curvfed.client_app.data import load_data
from curvfed.client_app.node import Node
from curvfed.client_app.node.keys import has_secret, keyed
from curvfed.client_app.node.own_split import recorded_splits
from curvfed.client_app.node.policy import Policy
from curvfed.deployments.inputs import PredictError, run_folder
from curvfed.server_app.directory.checkpoint import Checkpoint
from curvfed.strategies.base.aggregation import Aggregation
from curvfed.strategies.base.method import ONE_SHOT
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.config.build_method import initial_aggregation, is_fixed, personal_patterns
from curvfed.strategies.config.parse import parse, read_settings
from curvfed.strategies.config.run_config import RunConfig, resolve_defaults, with_bits
from curvfed.strategies.wire.messages import Description, Facts, lists_to_tuples, stored_facts
from curvfed.strategies.wire.store import read
from curvfed.tasks.record_split import RecordSplit

OwnData = TypeVar("OwnData", "ClientGraph", "ClientImages", "ClientPoints")

if TYPE_CHECKING:
    from curvfed.tasks.graphs.data.client_graph import ClientGraph
    from curvfed.tasks.images.client_images import ClientImages
    from curvfed.tasks.points import ClientPoints


class TrainedData(NamedTuple):
    """The data of a finished run.

    Attributes
    ----------
    dataset : str
        The name or path of the data set; "own" for the clients' own data.
    task : str
        The classified examples: "nodes", "graphs", "images" or "points".
    class_names : tuple of str
        In the order of the model's outputs; empty if each client has its own.
    num_features : int
        Of a node, an image or a point; 0 if each client has its own.
    shape : str
        Of an image, such as "3x32x32"; "" for other data.
    clients : tuple of int
        The numbers of the clients.
    """

    dataset: str
    task: str
    class_names: tuple[str, ...]
    num_features: int
    shape: str
    clients: tuple[int, ...]


@dataclass(frozen=True)
class TrainedRun:
    """A run directory, as a prediction needs it.

    Attributes
    ----------
    path : Path
    config : RunConfig
        With all defaults resolved, and the bits of the clients' images.
    facts : Facts
    arrays : dict of str to array
        All parameters in `model.safetensors`, by name.
    groups : tuple of str
        In a one-shot run the class of each group of hulls; "" if it is not known.
    stamps : mapping of partition to round
        The rounds of the personal states that belong to these parameters.
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
        server = initial_aggregation(self.config, self.facts, sorted(self.clients))
        model = self.checkpoint.model
        server.load({name: array for name, array in model.items() if name not in self.fixed})
        return server

    @cached_property
    def fixed(self) -> Arrays:
        """The parameters that the server fixed for all clients."""
        model = self.checkpoint.model
        return {name: array for name, array in model.items() if is_fixed(self.config, name)}

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The parameters of the last round, and of the calibrated classifier, if there is one."""
        return Checkpoint.of(self.arrays)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes that the model knows; a group of hulls without a name has its number."""
        if not self.groups:
            return self.facts.class_names
        return tuple(name or f"group {number}" for number, name in enumerate(self.groups, 1))

    @property
    def data(self) -> TrainedData:
        """The data that the run was trained on."""
        facts = self.facts
        return TrainedData(
            self.config.dataset,
            facts.task,
            self.class_names,
            facts.num_features,
            facts.shape,
            tuple(sorted(self.clients)),
        )

    @property
    def reason_for_own_models(self) -> str:
        """The reason why each client has its own model, in words; "" if all have the same."""
        if self.config.aggregation == ONE_SHOT:
            return ""
        personal = personal_patterns(self.config, self.facts)
        if personal:
            return f"keeps {', '.join(personal)} at each client"
        return "" if self.shared.is_global else "sends clients different parameters"

    @property
    def listed(self) -> str:
        """The numbers of the clients, in words."""
        return _in_words(self.clients)

    @property
    def models(self) -> list[int]:
        """The numbers of the clients that have trained; in an adapted run, of the client that has
        joined."""
        return sorted(self.clients.keys() & self.stamps.keys() or self.clients)

    @property
    def with_models(self) -> str:
        """The numbers of `models`, in words."""
        return _in_words(self.models)

    def facts_of(self, client: int | None) -> Facts:
        """The facts of this client's model; of the global model without a client."""
        record = None if client is None else self.clients.get(client)
        if not self.facts.own_ends or record is None:
            return self.facts
        return replace(self.facts, num_features=record.num_features, class_names=record.class_names)

    def part_of(self, client: int) -> Node:
        """The node configuration of a client with its part of the run's data set.

        Raises
        ------
        PredictError
            If the client trained on data of its own.
        """
        record = self.clients[client]
        if not record.partition_digest:
            raise PredictError(
                f"client {client} trained on its own data, not on a part of a data set: give their"
                " path",
                key="own-data",
            )
        return Node(partition=client, num_partitions=record.num_partitions)

    def check_same(self, data: str, client: int, digest: str) -> None:
        """Refuse data on which the client has not trained.

        Raises
        ------
        PredictError
        """
        if digest != self.clients[client].digest:
            raise PredictError(
                f"{data} is not what client {client} of this run trained on; have its files"
                " changed?",
                key="changed-data",
            )

    def check_unchanged(self, data: str) -> None:
        """Refuse a file or folder of the run that has changed: clients may have trained on its test
        part.

        Raises
        ------
        PredictError
        """
        first = min(self.clients)
        if self.clients[first].partition_digest and Path(data).expanduser().exists():
            self.check_same(data, first, load_data(self.config, self.part_of(first)).digest)

    def with_label_key(self, name: str) -> "TrainedRun":
        """This run with another name of the column of the classes of points."""
        points = self.config.points.model_copy(update={"label_key": name})
        return replace(self, config=self.config.model_copy(update={"points": points}))

    def own_data(
        self, load: Callable[[RecordSplit | None], OwnData], state_path: Path | None
    ) -> OwnData | None:
        """Data as a client that trained on them splits them, by the files on this machine (see
        `curvfed.deployments.predict.model.personal_state`); None if no client did.

        Parameters
        ----------
        load : callable
            Reads the data with the split of a node, or with that of the run's seed.
        """
        load = cache(load)
        for client, record in self.clients.items():
            node: Node = node_here(client, state_path)
            if load(None).digest == record.digest:
                return load(None)
            splits = [None, *recorded_splits(node)] if has_secret(node) else []
            for split in splits:
                if keyed(load(split).digest, node) == record.digest:
                    return load(split)
        return None

    @classmethod
    def read(cls, path: Path) -> "TrainedRun":
        """Read a run directory, or the run of this name in the default results folder.

        Raises
        ------
        NoRunError
            If it is neither.
        PredictError
            If a file is missing, or is not the file of a finished run.
        ConfigError
            If its configuration is of another version.
        """
        path = run_folder(path)
        try:
            config = parse(read_settings(path / "config.toml", written_by_run=True))
            stored = json.loads((path / "clients.json").read_text(encoding="utf-8"))
            clients = {
                int(entry["partition"]): _description(stored | entry) for entry in stored["clients"]
            }
        except FileNotFoundError as error:
            raise PredictError(
                f"{path} is not the directory of a run: no {Path(error.filename).name}",
                key="not-a-run",
            ) from None
        except OSError as error:
            raise PredictError(f"{path} cannot be read: {error}", key="unreadable") from None
        except (
            UnicodeDecodeError,
            KeyError,
            TypeError,
            json.JSONDecodeError,
        ) as error:
            raise PredictError(
                f"{path / 'clients.json'} is not the file of a run ({type(error).__name__}:"
                f" {error}); a resumed run writes it again",
                key="not-a-run",
            ) from None
        model = _read_model(path / "model.safetensors", config)
        facts = model["facts"]
        config = with_bits(resolve_defaults(config, facts.task), facts.bits)
        return cls(path, config, clients=clients, **model)


def _in_words(clients: Iterable[int]) -> str:
    numbers = sorted(clients)
    if len(numbers) > 3:
        return f"{numbers[0]}..{numbers[-1]}"
    return ", ".join(map(str, numbers))


def _description(entry: Mapping[str, Any]) -> Description:
    """A client's entry in `clients.json`."""
    names = [field.name for field in fields(Description)]
    values = {name: value for name, value in entry.items() if name in names}
    return Description(**lists_to_tuples(values | {"num_partitions": int(entry["num_partitions"])}))


def _read_model(path: Path, config: RunConfig) -> dict[str, Any]:
    """The content of `model.safetensors`, by the attributes of `TrainedRun`."""
    try:
        arrays, header = read(path)
        stored = json.loads(header["curvfed"])
        stamps = stored["stamps"].items()
        attributes = {
            "facts": stored_facts(stored["facts"]),
            "arrays": arrays,
            "groups": tuple(map(str, stored.get("groups", ()))),
            "stamps": {int(partition): int(stamp) for partition, stamp in stamps},
            "last_round": int(stored["last_round"]),
        }
    except FileNotFoundError:
        reason = "the run has not come to its end; continue it by resume=true"
        if getattr(config.keys_of(config.row), "dry_run", False):
            reason = f"this was a dry run ({config.method}.dry-run), which trains nothing"
        raise PredictError(f"no {path}: {reason}", key="no-model") from None
    except (OSError, KeyError, TypeError, ValueError) as error:  # damage is a ValueError
        raise PredictError(
            f"{path} is not the model of a run ({type(error).__name__}: {error}); a resumed run"
            " writes it again",
            key="not-a-model",
        ) from None
    if stored["method"] != config.method:
        raise PredictError(
            f"{path} is of method {stored['method']}, config.toml beside it of {config.method}",
            key="not-a-model",
        )
    return attributes


def node_here(client: int, state_path: Path | None) -> Node:
    """The real node of a client, if it is on this machine."""
    return Node(partition=client, state_path=state_path, rules=Policy())
