"""Whole runs: in-process against a plain loop, by Flower in Ray and by gRPC, what starting them
takes, many clients."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
from command_runs import command_run, round_overhead, rounds_of
from local_cluster import cluster, shares, signed
from one_client import own_graph
from plain_loop import PlainLoop

from benchmarks import TESTS
from benchmarks.measure import Pair, Place, Row
from curvfed.deployments.inprocess import simulate
from curvfed.strategies.config.parse import parse

CLIENTS = 10
NODES = 3
GROUP = 5
PAIRS = 3
"""Nodes of a masked round, and pairs of runs, masked and in the open."""

Parts = Callable[[Place], Mapping[str, Sequence[float]]]

RAY = (
    ("round", "flatland, {}, 10 clients: a round beyond its training, after the first", 0.15, 1.0),
    ("flower", "from the command to the ServerApp's first line", 10.0, None),
    (
        "meeting",
        "from there until the clients are known and the start is made: Ray's workers import",
        10.0,
        None,
    ),
    ("first", "the first round beyond a later one: models", 1.0, None),
    ("report", "after the last round: model, summary, report with its pictures", 2.0, None),
)
"""Parts of a run by Flower in Ray, their budgets in seconds, and goals."""
START = (
    ("torch", "import torch", 2.0, None),
    ("imports", "other imports", 1.0, 1.0),
    ("handler", "data, model and one training round, data cached", 1.0, 1.0),
    ("beyond", "both of these", 1.0, 1.0),
)
"""Parts of a client's process, likewise."""

A_RUN = "messages, checks, files to resume from, pictures"
POLLING = "3 s are a SuperNode's pause between two looks for a message, which Flower fixes"
SET_UP = "clients beyond 1.5 GiB are set up again from their files, so that any number fits"

MANY = 1_000
FEW = 10
ROUNDS = 40
SETTLED = 30
"""All rounds, and the one after which memory is to be flat: by then 19 of 20 clients have trained
once and stay set up, up to the bytes that a process keeps. Earlier rounds pay for that, in time and
in memory."""
MANY_SETTINGS: dict[str, dict[str, Any]] = {
    "flatland on trees": {"method": "flatland", "dataset": "trees"},
    "hyperfed on digits": (
        {"method": "hyperfed", "dataset": "digits", "partition": "iid", "min-client-size": 1}
        | {"global-every": 0, "fine-tune-epochs": 0}
    ),
}
"""Clients are of one size whatever their number: of `digits`, whose 1,438 training images cannot
give a thousand clients more, each has one. The server scores nothing and no client is fine-tuned:
both would be as much for ten clients as for the hundred that train."""


def rows(place: Place) -> list[Row]:
    """FlatLand on the graph at hand, HyperFed on images; starts in parts."""
    graph = _graph(place)
    loop = "the same training in one plain loop"
    # or the preset of MNIST with fewer rounds
    images: dict[str, Any] = {"dataset": "digits", "min-client-size": 2}
    if place.data:
        images = {"dataset": "mnist", "data-dir": str(place.data), "model": "cnn"}
        images |= {"images.train-subset": 6000, "images.test-subset": 2000}
    images |= {
        "method": "hyperfed",
        "num-rounds": 5,
        "batch-size": 64,
        "embedding-dim": 20,
        "fine-tune-epochs": 0,
    }
    of_graph = partial(_against_loop, graph | {"num-rounds": place.size(100, 2)}, CLIENTS)
    of_images = partial(_against_loop, images, 20)
    grpc = (
        f"flwr run over gRPC with TLS on loopback, 3 nodes, {place.graph}: a round beyond its"
        " training"
    )
    return [
        Row(
            f"in-process run, flatland, {place.graph}, 10 clients, 100 rounds",
            loop,
            of_graph,
            1.1,
            3,
            buys=A_RUN,
        ),
        Row(
            f"in-process run, hyperfed, {images['dataset']}, 20 clients, 5 rounds",
            loop,
            of_images,
            1.1,
            3,
            buys=A_RUN,
        ),
        *(
            _part(place, _in_ray, f"flwr run in Ray, {what.format(place.graph)}", part, *of)
            for part, what, *of in RAY
        ),
        _part(place, _by_grpc, grpc, "round", 3.0)._replace(buys=POLLING),
        Row(
            f"a round under secure sums by gRPC on loopback, {GROUP} nodes with a roster,"
            f" {place.graph}",
            "the same in the open",
            partial(_masked_rounds, place),
            1.2,
            place.size(PAIRS, 1),
            is_figure=True,
        ),
        *(
            _part(place, _starts, f"a client's process on a real node: {what}", part, *of)
            for part, what, *of in START
        ),
    ]


def _part(
    place: Place, find: Parts, what: str, part: str, most: float, goal: float | None = None
) -> Row:
    """A row of figures, each held against the same number of seconds."""
    repeats = 5 if find is _starts else 1
    return Row(
        what,
        f"{most:g} s",
        lambda: (iter(find(place)[part]).__next__, most),
        goal,
        repeats,
        is_figure=True,
    )


def _graph(place: Place) -> dict[str, Any]:
    return {"method": "flatland", "dataset": place.graph} | (
        {"data-dir": str(place.data)} if place.data else {}
    )


def _against_loop(settings: Mapping[str, Any], clients: int) -> Pair:
    """Ours has data from the cache, messages, checkpoints and report, theirs the rounds alone."""

    def ours() -> None:
        with tempfile.TemporaryDirectory() as folder:
            simulate({**settings, "results-dir": folder, "run-name": "run"}, clients)

    return ours, PlainLoop(parse(dict(settings)), clients).run


@cache
def _in_ray(place: Place) -> dict[str, list[float]]:
    """Seconds of one `flwr run` by its parts, and of a later round beyond its training."""
    with command_run("run", _graph(place) | {"num-rounds": place.size(30, 3)}, CLIENTS) as (
        process,
        run,
    ):
        began = time.perf_counter()
        while not run.exists() and process.poll() is None:
            time.sleep(0.01)
        first = time.perf_counter() - began
        rounds = rounds_of(run, process)
        written = {path.name: path.stat().st_mtime for path in run.iterdir()}
    trained = [float(row["seconds"]) for row in rounds if row["phase"] == "train"]
    return {
        "flower": [first],
        "meeting": [written["clients.json"] - written["config.toml"]],
        "first": [trained[0] - statistics.median(trained[1:])],
        "report": [written["report.html"] - written["rounds.csv"]],
        "round": [round_overhead(rounds, workers=2)],
    }


def _by_grpc(place: Place) -> dict[str, list[float]]:
    """Mean seconds of a later round beyond the slowest client's training."""
    pairs = [
        f"{key}={value}"
        for key, value in (_graph(place) | {"num-rounds": place.size(5, 2)}).items()
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster(Path(folder) / "cluster", shares(NODES)) as running,
    ):
        for name in running.node_configs if place.data else ():
            _allow_data(running.files.node(name).policy, place)
        code, output = running.run(*pairs, "run-name=run")
        if code:
            raise RuntimeError(f"the run ended with status {code}: {output[-500:]}")
        return {"round": [round_overhead(rounds_of(running.results / "run"), workers=NODES)]}


def _masked_rounds(place: Place) -> Pair:
    """Median seconds of a later round of training, masked and in the open, in runs by turns."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    rounds = place.size(5, 2)
    with tempfile.TemporaryDirectory() as folder:
        configs = [
            f'{share} state-path="{Path(folder) / "state" / str(number)}"'
            for number, share in enumerate(shares(GROUP))
        ]
        nodes = signed(Path(folder) / "keys", configs)
        with cluster(Path(folder) / "cluster", nodes) as running:
            for name in running.node_configs if place.data else ():
                _allow_data(running.files.node(name).policy, place)
            for pair in range(place.size(PAIRS, 1)):
                for is_masked in (True, False):
                    settings = _graph(place) | {
                        "method": "fedavg",
                        "num-rounds": rounds,
                        "seed": pair,
                        "secure-sum": str(is_masked).lower(),
                        "run-name": f"run-{pair}-{is_masked}",
                    }
                    code, output = running.run(*(f"{k}={v}" for k, v in settings.items()))
                    if code:
                        raise RuntimeError(f"the run ended with status {code}: {output[-500:]}")
                    rows = rounds_of(running.results / str(settings["run-name"]))
                    trained = [float(row["seconds"]) for row in rows if row["phase"] == "train"]
                    seconds[is_masked].append(statistics.median(trained[1:]))
    return iter(seconds[True]).__next__, iter(seconds[False]).__next__


def _allow_data(policy: Path, place: Place) -> None:
    """From where a node reads public data is its own to say."""
    policy.write_text(f'[runs.keys]\n"data-dir" = ["{place.data}"]\n', encoding="utf-8")


@cache
def _starts(place: Place) -> dict[str, list[float]]:
    """Seconds by part of fresh processes that answer one message each."""
    graph = own_graph(place.graph, place.data)
    with tempfile.TemporaryDirectory() as folder:
        node = {"partition-id": 0, "num-partitions": CLIENTS, "state-path": f"{folder}/node"}
        if place.data:
            node |= {"policy": f"{folder}/policy.toml"}
            _allow_data(Path(folder, "policy.toml"), place)
        settings: dict[str, Any] = {"config": _graph(place) | {"results-dir": folder}, "node": node}
        settings |= {"features": graph.features.shape[1], "classes": graph.class_names}
        command = [sys.executable, str(TESTS / "support" / "client_start.py"), json.dumps(settings)]
        done = [
            subprocess.run(command, capture_output=True, check=True).stdout
            for _ in range(place.size(5, 1))
        ]
    starts = [json.loads(output.splitlines()[-1]) for output in done]
    parts = {part: [start[part] for start in starts] for part in starts[0]}
    return parts | {"beyond": [start["imports"] + start["handler"] for start in starts]}


def many_clients(place: Place) -> list[Row]:
    """A thousand clients in one process, a tenth of them in each round, against ten that all
    train.
    """
    many, rounds, settled = place.size((MANY, ROUNDS, SETTLED), (20, 3, 2))

    def seconds(name: str) -> Pair:
        ours, theirs = (
            iter(_watched(name, *run)["seconds"])
            for run in ((many, rounds, 0.1), (FEW, rounds, 1.0))
        )
        return ours.__next__, theirs.__next__

    def memory(name: str) -> Pair:
        resident = _watched(name, many, rounds, 0.1)["memory"]
        return lambda: resident[-1], resident[settled - 1]

    rows = []
    for name in MANY_SETTINGS:
        client = f"a trained client of {name}, {MANY:,} clients, a tenth in each round"
        few = f"the same of {FEW} clients, all in each round"
        all_of = (
            f"memory of {name} with {MANY:,} clients, in bytes in place of seconds, after round"
            f" {ROUNDS}"
        )
        per_client = partial(seconds, name)
        rows.append(Row(client, few, per_client, 1.2, ROUNDS - 1, is_figure=True, buys=SET_UP))
        rows.append(
            Row(
                all_of,
                f"bytes after round {SETTLED}",
                partial(memory, name),
                1.05,
                1,
                is_figure=True,
            )
        )
    return rows


def descriptions(clients: int) -> dict[str, Any]:
    """Seconds until clients on trees have described themselves and the server has written that."""
    return {"seconds": _watched("flatland on trees", clients, 3, 1.0)["described"], "bytes": None}


def whole_round(clients: int) -> dict[str, Any]:
    """A round of FlatLand on trees in which all clients train."""
    watched = _watched("flatland on trees", clients, 3, 1.0)
    return {
        "seconds": clients * statistics.median(watched["seconds"]),
        "bytes": round(statistics.median(watched["peaks"])),
    }


@cache
def _watched(name: str, clients: int, rounds: int, fraction: float) -> dict[str, Any]:
    """A run as seen from outside.

    Returns
    -------
    dict of str to float or list of float
        `described`, seconds until the clients were known; of the second and later rounds `seconds`
        for each client that trained, and `peaks`, the most bytes beyond those before; `memory`, the
        bytes after each round. A round lasts from the record of the one before in `rounds.csv` to
        its own: aggregation and checkpoint are in it.
    """
    settings = MANY_SETTINGS[name] | {"num-rounds": rounds + 1, "fraction-train": fraction}
    settings["workers"] = 1
    if settings["dataset"] == "digits":
        settings["images.train-subset"] = clients
    times = list[float]()
    memory = list[float]()
    peaks = [0.0]
    with command_run("simulate", settings, clients) as (process, run):
        watched = psutil.Process(process.pid)
        table = run / "rounds.csv"
        while len(times) < rounds and process.poll() is None:
            resident = float(watched.memory_info().rss)
            peaks[-1] = max(peaks[-1], resident)
            if table.exists() and len(table.read_bytes().splitlines()) > len(times) + 1:
                times.append(time.perf_counter())
                memory.append(resident)
                peaks.append(0.0)
            time.sleep(0.002)
        if any(int(row["dropped"]) for row in rounds_of(run, process)):
            raise RuntimeError("replies were dropped")
        described = (run / "clients.json").stat().st_mtime - (run / "config.toml").stat().st_mtime
    seconds = [(after - before) / round(fraction * clients) for before, after in pairwise(times)]
    peaks = [peak - before for peak, before in zip(peaks[1:], memory[:-1])]
    return {"described": described, "seconds": seconds, "peaks": peaks, "memory": memory}
