"""Whole runs: in-process against a plain loop, by Flower in Ray and by gRPC, and what starting them takes."""

import csv
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.client_start import client_start
from benchmarks.inprocess import against_plain_loop, images_against_plain_loop
from benchmarks.ray_rounds import overhead
from benchmarks.row import Place, Row
from benchmarks.timing import Ratio, against_budget
from curvfed.deployments.cluster.local import cluster, shares
from curvfed.strategies.config.run_config import home
from curvfed.tasks.graphs.data import GraphSpec, load_client

CLIENTS = 10
ROUNDS = 30
NODES = 3
GRPC_ROUNDS = 5
STARTS = 5


def rows(place: Place) -> list[Row]:
    """FlatLand on the graph at hand, HyperFed on images; start-up in parts."""
    images = _images(place)
    graph = _graph(place)
    return [
        Row(
            f"in-process run, flatland, {place.graph}, 10 clients, 100 rounds", "the same training in one plain loop",
            "limit", lambda: against_plain_loop(place.folder, place.graph), 1.1,
        ),
        Row(
            f"in-process run, hyperfed, {images['dataset']}, 20 clients, {images['num-rounds']} rounds",
            "the same training in one plain loop", "limit", lambda: images_against_plain_loop(images, 20), 1.1,
        ),
        Row(
            f"flwr run in Ray, flatland, {place.graph}, 10 clients: a round beyond its training, after the first",
            "0.15 s", "budget", lambda: _seconds(_by_ray(place)["round"], 0.15), 1.0,
        ),
        Row(
            f"flwr run over gRPC with TLS on loopback, 3 nodes, {place.graph}: a round beyond its training", "3 s",
            "budget", lambda: against_budget(lambda: _by_grpc(graph), 3.0, 1),
        ),
        *(
            Row(f"flwr run in Ray, {words}", f"{budget:g} s", "budget",
                lambda part=part, budget=budget: _seconds(_by_ray(place)[part], budget))  # type: ignore[misc]
            for part, words, budget in (
                ("flower", "from the command to the ServerApp's first line", 10.0),
                ("meeting", "from there until the clients are known and the start is made: Ray's workers import", 10.0),
                ("first", "the first round beyond a later one: models", 1.0),
                ("report", "after the last round: model, summary, report with its pictures", 2.0),
            )
        ),
        *(
            Row(f"a client's process on a real node: {words}", f"{budget:g} s", "budget",
                lambda part=part, budget=budget: _start(place, part, budget), goal)  # type: ignore[misc]
            for part, words, budget, goal in (
                ("torch", "import torch", 2.0, None),
                ("imports", "other imports", 1.0, 1.0),
                ("handler", "data, model and one training round, data cached", 1.0, 1.0),
                ("beyond", "both of these", 1.0, 1.0),
            )
        ),
    ]  # fmt: skip


def _graph(place: Place) -> dict[str, Any]:
    return {"method": "flatland", "dataset": place.graph} | ({"data-dir": str(place.data)} if place.data else {})


def _images(place: Place) -> dict[str, Any]:
    """The preset of MNIST with fewer rounds, or digits."""
    common = {"method": "hyperfed", "num-rounds": 5, "batch-size": 64, "embedding-dim": 20, "fine-tune-epochs": 0}
    if place.data is None:
        return common | {"dataset": "digits", "min-client-size": 2}
    mnist = {"dataset": "mnist", "data-dir": str(place.data), "model": "cnn"}
    return common | mnist | {"images.train-subset": 6000, "images.test-subset": 2000}


def _seconds(told: float, budget: float) -> Ratio:
    return against_budget(lambda: told, budget, 1)


@cache
def _by_ray(place: Place) -> dict[str, float]:
    """Seconds of one `flwr run` by its parts, in their order, and of a later round beyond its training."""
    with _folder() as folder:
        pairs = _graph(place) | {"num-rounds": ROUNDS, "results-dir": str(folder), "run-name": "run"}
        command = [
            sys.executable,
            "-m",
            "curvfed",
            "run",
            *(f"{key}={value}" for key, value in pairs.items()),
        ]
        began = time.monotonic()
        process = subprocess.Popen(
            [*command, "--num-supernodes", str(CLIENTS)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout is not None
        first, output = 0.0, []
        for line in process.stdout:
            output.append(line)
            if not first and "run directory:" in line:
                first = time.monotonic() - began
        if process.wait():
            raise RuntimeError(f"flwr run ended with status {process.returncode}: {''.join(output)[-500:]}")
        rounds = _rounds(folder / "run")
        written = {path.name: path.stat().st_mtime for path in (folder / "run").iterdir()}
    trained = [float(row["seconds"]) for row in rounds if row["phase"] == "train"]
    return {
        "flower": first,
        "meeting": written["clients.json"] - written["config.toml"],
        "first": trained[0] - statistics.median(trained[1:]),
        "report": written["report.html"] - written["rounds.csv"],
        "round": overhead(rounds, workers=2),
    }


def _by_grpc(settings: dict[str, Any]) -> float:
    """Mean seconds of a later round beyond the slowest client's training."""
    with _folder() as folder, cluster(folder / "cluster", shares(NODES)) as running:
        pairs = settings | {"num-rounds": GRPC_ROUNDS}
        code, output = running.run(*(f"{key}={value}" for key, value in pairs.items()), "run-name=run")
        if code:
            raise RuntimeError(f"the run ended with status {code}: {output[-500:]}")
        return overhead(_rounds(running.results / "run"), workers=NODES)


def _start(place: Place, part: str, budget: float) -> Ratio:
    """Median seconds of a part of a client's process."""
    found = [one[part] if part != "beyond" else one["imports"] + one["handler"] for one in _starts(place)]
    return Ratio(statistics.median(found), budget, min(found) / budget, max(found) / budget)


@cache
def _starts(place: Place) -> list[dict[str, float]]:
    with _folder() as folder:
        config = _graph(place) | {"results-dir": str(folder)}
        node = {"partition-id": 0, "num-partitions": CLIENTS, "state-path": str(folder / "node")}
        graph = load_client(GraphSpec(place.graph, place.folder), 0, CLIENTS, home() / "cache")
        features, classes = graph.features.shape[1], list(graph.class_names)
        return [client_start("start", config, node, features, classes) for _ in range(STARTS)]


def _rounds(run: Path) -> list[dict[str, str]]:
    with (run / "rounds.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
