"""Runs on a cluster, killed at random moments and gone on with."""

import contextlib
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
from local_cluster import SERVER, LocalCluster

from curvfed.deployments.processes import wait_until
from studies.accept.cluster import (
    TREES,
    apart,
    pairs,
    personal,
    round_seconds,
    run_on,
    states,
    three_nodes,
)
from studies.accept.lab import Lab, Outcome, RunFailed

KILLS, ROUNDS, SEED = 10, 6, 0
RUN = TREES | {"method": "flatland", "embedding-dim": 16, "num-rounds": ROUNDS}
VICTIMS = ("SuperLink and ServerApp", "ServerApp")

Table = Callable[[Lab], Iterator[Outcome]]


def cluster_killed(lab: Lab) -> Iterator[Outcome]:
    """Server processes killed with -9 in the middle of a run, which is then resumed."""
    lab.wait()
    generator = random.Random(SEED)
    with three_nodes(lab, "killed") as nodes:
        run_on(nodes, "whole", RUN)
        pace = min(round_seconds(nodes.results / "whole").values())
        equal, went_on, moments = 0, 0, []
        for index in range(KILLS):
            name, victim = f"killed-{index}", VICTIMS[index % len(VICTIMS)]
            number, share = generator.randint(1, ROUNDS), generator.random()
            rows = _kill(nodes, name, victim, number, share * pace)
            run_on(nodes, name, RUN | {"resume": True})
            moments.append(f"{number - 1 + share:.1f}")
            equal += _is_equal(nodes, name)
            went_on += _rows(nodes.results / name)[: len(rows)] == rows
    victims = f"kill -9 in turn of {VICTIMS[0]}, and of {VICTIMS[1]} alone; seed {SEED}"
    what = f"killed after {', '.join(moments)} rounds ({victims}) and resumed"
    yield Outcome(
        f"{what}: final model and personal state",
        f"those of the uninterrupted run, {KILLS} of {KILLS}",
        f"{equal} of {KILLS} equal to the bit",
        equal == KILLS,
    )
    yield Outcome(
        "the same: gone on with from the last whole round",
        f"{KILLS} of {KILLS}",
        f"{went_on} of {KILLS}",
        went_on == KILLS,
    )


TABLES: tuple[Table, ...] = (cluster_killed,)


def _kill(nodes: LocalCluster, name: str, victim: str, number: int, seconds: float) -> list[str]:
    """Start a run and kill its server so long after a round has begun; its rows of whole rounds."""
    process = nodes.submit(*pairs(RUN), f"run-name={name}")
    directory = nodes.results / name
    try:
        begun = wait_until(
            # The first round begins when the clients have met, and every other one with the
            # checkpoint before it.
            lambda: (directory / "clients.json").exists() and nodes.rounds_done(name) >= number - 1,
            300,
            pause=0.02,
        )
        if not begun:
            raise RunFailed(f"{name} does not come to round {number}")
        time.sleep(seconds)
        if victim == VICTIMS[0]:
            nodes.kill(SERVER)
        else:
            _server_app(nodes).kill()
        done = nodes.rounds_done(name)
        rows = [row for row in _rows(directory) if int(row.partition(",")[0]) <= done]
        if victim == VICTIMS[0]:
            nodes.start_superlink()
    finally:
        process.terminate()  # else it would wait until Flower misses the server's heartbeats
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=120)
    return rows


def _server_app(nodes: LocalCluster) -> psutil.Process:
    for process in nodes.family(SERVER):
        with contextlib.suppress(psutil.Error):
            if any(word.endswith("flwr-serverapp") for word in process.cmdline()):
                return process
    raise RunFailed("no ServerApp is running")


def _rows(directory: Path) -> list[str]:
    """The whole rows of `rounds.csv`."""
    path = directory / "rounds.csv"
    return path.read_text().split("\n")[1:-1] if path.exists() else []


def _is_equal(nodes: LocalCluster, name: str) -> bool:
    """Whether model and personal states are those of the uninterrupted run."""
    models = [(nodes.results / run / "model.safetensors").read_bytes() for run in ("whole", name)]
    clients = zip(states(nodes, "whole"), states(nodes, name), strict=True)
    return models[0] == models[1] and all(
        apart(personal(one), personal(other)) == 0 for one, other in clients
    )
