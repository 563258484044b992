"""Small runs of the whole app in this process, and what they leave, for tests of methods."""

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Context, Message, RecordDict
from numpy.typing import NDArray
from safetensors.numpy import load, load_file

from curvfed.client_app.app import app
from curvfed.deployments.inprocess import simulate, simulated_nodes
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import defaults
from curvfed.strategies.methods import METHODS
from curvfed.strategies.wire.codec import decode_reply, encode_arrays, encode_reply, encode_request
from curvfed.strategies.wire.messages import Facts, Header, Reply, Request
from curvfed.tasks.kinds import KINDS

Handle = Callable[[Message], Message]

SMALL = {"embedding-dim": 8, "num-rounds": 2, "report": False}
"""A report takes longer than the run."""
CLIENTS = 3
QUICK: dict[str, dict[str, Any]] = {
    "images": {
        "dataset": "digits",
        "images__train_subset": 150,
        "images__test_subset": 50,
        "local_epochs": 2,
        "batch_size": 16,
        "global_every": 0,
    },
    "nodes": {"dataset": "trees", "local_epochs": 2},
    "points": {"dataset": "uniform", "points__num": 300},
    **({"links": {"dataset": "balanced-tree", "batch_size": 0}} if "links" in KINDS else {}),
}
"""Settings of a run of seconds, by task."""
EVERY = [
    (name, task)
    for name, row in METHODS.items()
    for task in QUICK
    if task in row.tasks and name != "pca"
]
"""Every method on each of these tasks that it works on; `pca` needs files of expression."""
MEASURED = ("seconds", "seconds_training", "seconds_aggregation")
"""Columns and figures that are times, and so differ between equal runs."""


def run(
    folder: Path,
    name: str = "run",
    clients: int = CLIENTS,
    nodes: Any = None,
    intercept: Any = None,
    gpus: Sequence[str] = (),
    **settings: Any,
) -> "Run":
    """Run on `trees` in `folder`; keys are written with _ for -, and __ for the dot. With `workers`
    the clients are in that number of processes, each with one of `gpus` if there are some."""
    keys = dotted_keys(settings)
    configuration = SMALL | {"results-dir": str(folder), "run-name": name} | keys
    workers = settings.get("workers")
    if isinstance(workers, int):
        from curvfed.extensions.workers.commands.grid import run_in_workers  # may be deleted

        configs = nodes or simulated_nodes(clients)
        return Run(run_in_workers(parse(configuration), configs, workers, gpus))
    return Run(simulate(configuration, clients, nodes, intercept))


class Run:
    """A run directory as it is now; what is not there is empty."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.summary: dict[str, Any] = self._json("summary.json")
        self.described = self._json("clients.json")
        self.rounds = rows(path / "rounds.csv")
        self.clients = rows(path / "clients.csv")
        model = path / "model.safetensors"
        self.model_bytes = model.read_bytes() if model.exists() else b""

    @property
    def model(self) -> dict[str, NDArray[Any]]:
        """The shared parameters at the end."""
        return load(self.model_bytes)

    def personal(self, partition: int) -> dict[str, NDArray[Any]]:
        """What a simulated client keeps, at its last stamp."""
        return newest(self.path / "checkpoint" / "clients" / f"{partition:05d}")

    @property
    def figures(self) -> dict[str, Any]:
        """What must be equal between equal runs: summary, both tables, the model's bytes."""
        return {
            "summary": {key: value for key, value in self.summary.items() if key not in MEASURED},
            "rounds": [untimed(row) for row in self.rounds],
            "clients": [untimed(row) for row in self.clients],
            "model": self.model_bytes,
        }

    def _json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        return json.loads(path.read_text()) if path.exists() else {}


def rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file with a header."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def untimed(row: dict[str, str]) -> dict[str, str]:
    """A row without its times."""
    return {key: value for key, value in row.items() if key not in MEASURED}


def dotted_keys(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of the run config, of names with _ for -, and __ for the dot."""
    return {name.replace("__", ".").replace("_", "-"): value for name, value in settings.items()}


def parameters_in(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters among what a client keeps, by their own names."""
    start = "parameter/"
    return {name[len(start) :]: arrays[name] for name in arrays if name.startswith(start)}


def newest(folder: Path) -> dict[str, NDArray[Any]]:
    """The arrays of the last stamp in a client's folder; none without a stamp."""
    files = sorted(folder.glob("[0-9]*.safetensors"))
    return load_file(files[-1]) if files else {}


class Recorder:
    """Passes every message on to the ClientApp and keeps what it and its reply hold."""

    def __init__(self) -> None:
        self.pairs: list[tuple[RecordDict, RecordDict]] = []

    def __call__(self, request: Message, handle: Handle) -> Message:
        asked = RecordDict(
            dict(request.content)
        )  # records of their own: the app takes the arrays out once it read them
        reply = handle(request)
        self.pairs.append((asked, RecordDict(dict(reply.content))))
        return reply

    def replies(self, phase: str | None = None) -> list[RecordDict]:
        """Contents of the replies, of one phase or of all."""
        return [reply for asked, reply in self.pairs if phase in (None, phase_of(asked))]

    def requests(self, phase: str | None = None) -> list[RecordDict]:
        """Contents of the requests, of one phase or of all."""
        return [asked for asked, _ in self.pairs if phase in (None, phase_of(asked))]


class Fault:
    """Answers `answer(request, handle)` for one client, phase and round; None is silence."""

    def __init__(
        self,
        partition: int,
        answer: Callable[[Message, Handle], Message | None],
        phase: str = "train",
        round: int = 1,
    ) -> None:
        self.where = partition, phase, round
        self.answer = answer
        self._partitions: dict[int, int] = {}

    def __call__(self, request: Message, handle: Handle) -> Message | None:
        node, header = request.metadata.dst_node_id, request.content.config_records["header"]
        if header["phase"] == "describe":
            self._partitions[node] = partition_of(handle(request).content)
        if (self._partitions.get(node), header["phase"], header["round"]) == self.where:
            return self.answer(request, handle)
        return handle(request)


def forged(change: Callable[[Reply], Reply]) -> Callable[[Message, Handle], Message]:
    """An answer that is the client's own reply but for `change(reply)`."""

    def answer(request: Message, handle: Handle) -> Message:
        header = request.content.config_records["header"]
        expected = Header(str(header["run"]), str(header["phase"]), int(header["round"]))
        reply = decode_reply(handle(request).content, expected)
        return Message(encode_reply(change(reply)), reply_to=request)

    return answer


def real_nodes(folder: Path, graphs: Iterable[Mapping[str, object]]) -> list[dict[str, Any]]:
    """Configurations of real nodes, each with one graph and a disk of its own in `folder`."""
    folder.mkdir(exist_ok=True)
    nodes: list[dict[str, Any]] = []
    for index, fields in enumerate(graphs):
        path = folder / f"{index}.pt"
        torch.save(dict(fields), path)
        nodes.append(
            {
                "partition-id": index,
                "data-path": str(path),
                "state-path": str(folder / f"state{index}"),
            }
        )
    return nodes


def asked(
    node: dict[str, Any], settings: dict[str, Any], phase: str, message_type: str, run: str = "run"
) -> tuple[str, list[str]]:
    """A node's answer to a message of a lying server: the error, and names of arrays."""
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    facts = Facts("nodes", 8, ("0", "1"))
    request = Request(Header(run, phase, 1), 0, facts, encode_arrays({}))
    message = Message(encode_request(request), 1, message_type)
    reply = app(message, Context(1, 1, node, RecordDict(), defaults() | settings))
    return str(reply.content["header"]["error"]), sorted(array_names(reply.content))


def phase_of(content: RecordDict) -> str:
    """The phase that a message belongs to."""
    return str(content.config_records["header"]["phase"])


def partition_of(reply: RecordDict) -> int:
    """The partition-id that a reply names."""
    return int(reply.config_records["header"]["partition"])


def array_names(content: RecordDict) -> set[str]:
    """Names of all arrays in a message."""
    return {name for record in content.array_records.values() for name in record}


def value_names(content: RecordDict) -> set[str]:
    """Every value in a message as "record.key"; all arrays are "arrays.*"."""
    return {
        f"{key}.{'*' if key == 'arrays' else name}"
        for key, record in content.items()
        for name in record
    }


def all_bytes(content: RecordDict) -> bytes:
    """The raw bytes of all arrays in a message, and its other values in words."""
    arrays = b"".join(
        array.data for record in content.array_records.values() for array in record.values()
    )
    others = [*content.config_records.values(), *content.metric_records.values()]
    return arrays + repr([dict(record) for record in others]).encode()


def all_numbers(content: RecordDict) -> NDArray[np.float64]:
    """Every number in a message."""
    arrays = [
        array.numpy().ravel()
        for record in content.array_records.values()
        for array in record.values()
    ]
    metrics = [
        np.asarray(value, dtype=np.float64).ravel()
        for r in content.metric_records.values()
        for value in r.values()
    ]
    config = [
        np.asarray(value, dtype=np.float64).ravel()
        for record in content.config_records.values()
        for value in record.values()
        if isinstance(value, float)
        or (isinstance(value, list) and value and isinstance(value[0], float))
    ]
    return np.concatenate(
        [np.asarray(part, dtype=np.float64) for part in [*arrays, *metrics, *config, np.zeros(0)]]
    )
