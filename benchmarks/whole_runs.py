"""Whole runs: in-process against a plain loop, by Flower in Ray and by gRPC, what starting them takes, many clients."""

import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from plain_loop import PlainLoop

from benchmarks import TESTS
from benchmarks.local_training import own_graph
from benchmarks.measure import Pair, Place, Row, Told
from curvfed.deployments.cluster.local import cluster, shares
from curvfed.deployments.simulate import simulate
from curvfed.strategies.config import parse

CLIENTS, NODES = 10, 3

RAY = (
    ("round", "flwr run in Ray, flatland, {}, 10 clients: a round beyond its training, after the first", 0.15, 1.0),
    ("flower", "flwr run in Ray, from the command to the ServerApp's first line", 10.0, None),
    (
        "meeting", "flwr run in Ray, from there until the clients are known and the start is made: Ray's workers import",
        10.0, None,
    ),
    ("first", "flwr run in Ray, the first round beyond a later one: models", 1.0, None),
    ("report", "flwr run in Ray, after the last round: model, summary, report with its pictures", 2.0, None),
)  # fmt: skip
"""Parts of a run by Flower in Ray, their budgets in seconds, and goals."""
OVER_GRPC = "flwr run over gRPC with TLS on loopback, 3 nodes, {}: a round beyond its training"
START = (
    ("torch", "a client's process on a real node: import torch", 2.0, None),
    ("imports", "a client's process on a real node: other imports", 1.0, 1.0),
    ("handler", "a client's process on a real node: data, model and one training round, data cached", 1.0, 1.0),
    ("beyond", "a client's process on a real node: both of these", 1.0, 1.0),
)
"""Parts of a client's process, likewise."""

MANY, FEW = 1_000, 10
ROUNDS, SETTLED = 40, 30
"""All rounds, and the one after which memory is to be flat: by then 19 of 20 clients have trained once and stay set up, up
to the bytes that a process keeps. Earlier rounds pay for that, in time and in memory."""
MANY_SETTINGS: dict[str, dict[str, Any]] = {
    "flatland on trees": {"method": "flatland", "dataset": "trees"},
    "hyperfed on digits": {
        "method": "hyperfed", "dataset": "digits", "partition": "iid", "min-client-size": 1, "global-every": 0,
        "fine-tune-epochs": 0,
    },
}  # fmt: skip
"""Clients are of one size whatever their number: of `digits`, whose 1,438 training images cannot give a thousand clients
more, each has one. The server scores nothing and no client is fine-tuned: both would be as much for ten clients as for the
hundred that train."""


def rows(place: Place) -> list[Row]:
    """FlatLand on the graph at hand, HyperFed on images; starts in parts."""
    graph, loop = _graph(place), "the same training in one plain loop"
    images: dict[str, Any] = {"dataset": "digits", "min-client-size": 2}  # or the preset of MNIST with fewer rounds
    if place.data:
        images = {"dataset": "mnist", "data-dir": str(place.data), "model": "cnn"}
        images |= {"images.train-subset": 6000, "images.test-subset": 2000}
    images |= {"method": "hyperfed", "num-rounds": 5, "batch-size": 64, "embedding-dim": 20, "fine-tune-epochs": 0}
    of_graph = partial(_against_loop, graph | {"num-rounds": place.size(100, 2)}, CLIENTS)
    of_images = partial(_against_loop, images, 20)
    grpc = partial(_by_grpc, graph | {"num-rounds": place.size(5, 2)})
    return [
        Row(f"in-process run, flatland, {place.graph}, 10 clients, 100 rounds", loop, of_graph, 1.1, 3),
        Row(f"in-process run, hyperfed, {images['dataset']}, 20 clients, 5 rounds", loop, of_images, 1.1, 3),
        *(
            _budget(words.format(place.graph), one, partial(_by_ray, place, part), goal)
            for part, words, one, goal in RAY
        ),
        _budget(OVER_GRPC.format(place.graph), 3.0, grpc),
        *(_budget(words, one, partial(_starts, place, part), goal, 5) for part, words, one, goal in START),
    ]


def _budget(what: str, most: float, found: Callable[[], list[float]], goal: float | None = None, num: int = 1) -> Row:
    """A row of figures that are found, each held against the same number of seconds."""
    return Row(what, f"{most:g} s", lambda: (iter(found()).__next__, most), goal, num, told=True)


def _graph(place: Place) -> dict[str, Any]:
    return {"method": "flatland", "dataset": place.graph} | ({"data-dir": str(place.data)} if place.data else {})


def _against_loop(settings: Mapping[str, Any], clients: int) -> Pair:
    """Ours has data from the cache, messages, checkpoints and report, theirs the rounds alone."""

    def ours() -> None:
        with tempfile.TemporaryDirectory() as folder:
            simulate({**settings, "results-dir": folder, "run-name": "run"}, clients)

    return ours, PlainLoop(parse(dict(settings)), clients).run


def round_overhead(rows: Sequence[Mapping[str, str]], workers: int) -> float:
    """Mean seconds of a round, the first left out, beyond the clients' training, which `workers` processes share."""
    later = [row for row in rows if row["phase"] == "train"][1:]
    return statistics.mean(float(row["seconds"]) - float(row["seconds_training"]) / workers for row in later)


@cache
def _run_in_ray(place: Place) -> dict[str, float]:
    with _command("run", _graph(place) | {"num-rounds": place.size(30, 3)}, CLIENTS) as (process, run):
        began = time.perf_counter()
        while not run.exists() and process.poll() is None:
            time.sleep(0.01)
        first = time.perf_counter() - began
        rounds = _rounds(run, process)
        written = {path.name: path.stat().st_mtime for path in run.iterdir()}
    trained = [float(row["seconds"]) for row in rounds if row["phase"] == "train"]
    return {
        "flower": first,
        "meeting": written["clients.json"] - written["config.toml"],
        "first": trained[0] - statistics.median(trained[1:]),
        "report": written["report.html"] - written["rounds.csv"],
        "round": round_overhead(rounds, workers=2),
    }


def _by_ray(place: Place, part: str) -> list[float]:
    """Seconds of a part of one `flwr run`, or of a later round beyond its training."""
    return [_run_in_ray(place)[part]]


def _by_grpc(settings: Mapping[str, Any]) -> list[float]:
    """Mean seconds of a later round beyond the slowest client's training."""
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "cluster", shares(NODES)) as running:
        code, output = running.run(*(f"{key}={value}" for key, value in settings.items()), "run-name=run")
        if code:
            raise RuntimeError(f"the run ended with status {code}: {output[-500:]}")
        return [round_overhead(_rounds(running.results / "run"), workers=NODES)]


@cache
def _started(place: Place) -> list[dict[str, float]]:
    graph, found = own_graph(place), []
    with tempfile.TemporaryDirectory() as folder:
        node = {"partition-id": 0, "num-partitions": CLIENTS, "state-path": f"{folder}/node"}
        settings: dict[str, Any] = {"config": _graph(place) | {"results-dir": folder}, "node": node}
        settings |= {"features": graph.features.shape[1], "classes": graph.class_names}
        command = [sys.executable, str(TESTS / "client_start.py"), json.dumps(settings)]
        for _ in range(place.size(5, 1)):
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            parts = json.loads(done.stdout.splitlines()[-1])
            found.append(parts | {"beyond": parts["imports"] + parts["handler"]})
    return found


def _starts(place: Place, part: str) -> list[float]:
    """Seconds of a part of fresh processes that answer one message each."""
    return [one[part] for one in _started(place)]


def many_clients(place: Place) -> list[Row]:
    """A thousand clients in one process, a tenth of them in each round, against ten that all train."""
    many, rounds, settled = place.size((MANY, ROUNDS, SETTLED), (20, 3, 2))

    def seconds(name: str) -> Pair:
        ours, theirs = (iter(_watched(name, *run).seconds) for run in ((many, rounds, 0.1), (FEW, rounds, 1.0)))
        return ours.__next__, theirs.__next__

    def memory(name: str) -> Pair:
        resident = _watched(name, many, rounds, 0.1).memory
        return lambda: resident[-1], resident[settled - 1]

    found = []
    for name in MANY_SETTINGS:
        client = f"a trained client of {name}, {MANY:,} clients, a tenth in each round"
        few = f"the same of {FEW} clients, all in each round"
        all_of = f"memory of {name} with {MANY:,} clients, in bytes in place of seconds, after round {ROUNDS}"
        found.append(Row(client, few, partial(seconds, name), 1.2, ROUNDS - 1, told=True))
        found.append(Row(all_of, f"bytes after round {SETTLED}", partial(memory, name), 1.05, 1, told=True))
    return found


def descriptions(clients: int) -> Told:
    """What clients on trees take to say who they are, and the server to write down what they told."""
    return Told(_watched("flatland on trees", clients, 3, 1.0).described)


def whole_round(clients: int) -> Told:
    """A round of FlatLand on trees in which all clients train."""
    found = _watched("flatland on trees", clients, 3, 1.0)
    return Told(clients * statistics.median(found.seconds), round(statistics.median(found.peaks)))


class Watched(NamedTuple):
    """A run as seen from outside: seconds until the clients were known; of the second and later rounds the seconds for each
    client that trained, and the most bytes beyond those before; the bytes after each round."""

    described: float
    seconds: list[float]
    peaks: list[float]
    memory: list[float]


@cache
def _watched(name: str, clients: int, rounds: int, fraction: float) -> Watched:
    """A round lasts from the record of the one before in `rounds.csv` to its own: aggregation and checkpoint are in it."""
    settings = MANY_SETTINGS[name] | {"num-rounds": rounds + 1, "fraction-train": fraction}
    if settings["dataset"] == "digits":
        settings["images.train-subset"] = clients
    times, memory, peaks = list[float](), list[float](), [0.0]
    with _command("simulate", settings, clients) as (process, run):
        watched, table = psutil.Process(process.pid), run / "rounds.csv"
        while len(times) < rounds and process.poll() is None:
            resident = float(watched.memory_info().rss)
            peaks[-1] = max(peaks[-1], resident)
            if table.exists() and len(table.read_bytes().splitlines()) > len(times) + 1:
                times.append(time.perf_counter())
                memory.append(resident)
                peaks.append(0.0)
            time.sleep(0.002)
        if any(int(row["dropped"]) for row in _rounds(run, process)):
            raise RuntimeError("replies were dropped")
        described = (run / "clients.json").stat().st_mtime - (run / "config.toml").stat().st_mtime
    seconds = [(after - before) / round(fraction * clients) for before, after in pairwise(times)]
    return Watched(described, seconds, [peak - before for peak, before in zip(peaks[1:], memory[:-1])], memory)


@contextmanager
def _command(name: str, settings: Mapping[str, Any], clients: int) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    """A run by a command of its own, with its directory, which goes at the end; what is simulated has an empty home."""
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/log", "w+b") as log:
        pairs = {**settings, "results-dir": folder, "run-name": "run", "num-supernodes": clients}
        words = [sys.executable, "-m", "curvfed", name, *(f"{key}={value}" for key, value in pairs.items())]
        home = {"HOME": folder} if name == "simulate" else {}
        with subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=os.environ | home) as process:
            try:
                yield process, Path(folder) / "run"
            except (RuntimeError, OSError) as error:
                raise RuntimeError(f"{error}: {Path(log.name).read_text(errors='replace')[-500:]}") from None
            finally:
                process.kill()


def _rounds(run: Path, process: "subprocess.Popen[bytes] | None" = None) -> list[dict[str, str]]:
    """The table of a run that its process has ended."""
    if process and process.wait():
        raise RuntimeError(f"the run ended with status {process.returncode}")
    with (run / "rounds.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))
