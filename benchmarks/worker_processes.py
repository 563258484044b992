"""Runs whose clients train in two worker processes, against one process, and the memory of four."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from command_runs import command_run, rounds_of

from benchmarks.measure import Pair, Place, Row
from curvfed.deployments.inprocess import run_in_process, simulated_nodes
from curvfed.extensions.workers.commands.grid import run_in_workers
from curvfed.strategies.config.parse import parse

IMPORTED = (
    "import curvfed.extensions.workers.commands.grid, curvfed.server_app.report.run_page, sys;"
    "print(flush=True); sys.stdin.read()"
)
"""A program that imports what a run needs, and waits."""


def rows(place: Place) -> list[Row]:
    """FlatLand on the graph at hand, and FedAvg on images."""
    graph: dict[str, Any] = {"method": "flatland", "dataset": place.graph}
    images: dict[str, Any] = {"method": "fedavg", "dataset": "digits", "min-client-size": 2}
    if place.data:
        graph["data-dir"] = str(place.data)
        images |= {"dataset": "mnist", "data-dir": str(place.data), "model": "cnn"}
        images |= {"images.train-subset": 6000, "images.test-subset": 2000}
    graph["num-rounds"] = place.size(100, 2)
    images["num-rounds"] = place.size(10, 2)
    name = images["dataset"]
    of_rounds = place.size(20, 2)
    command = {**graph, "num-rounds": place.size(200, 2)}
    return [
        Row(
            f"flatland, {place.graph}, 10 clients: a command of {command['num-rounds']} rounds with"
            " workers=2",
            "workers=1",
            lambda: (partial(_command, command, 10, 2), partial(_command, command, 10, 1)),
            0.62,
        ),
        Row(
            f"flatland, {place.graph}, 10 clients: a run with workers=2",
            "workers=1",
            partial(_both_numbers, graph, 10),
            0.7,
        ),
        Row(
            f"fedavg, {name}, 20 clients: a run with workers=2",
            "workers=1",
            partial(_both_numbers, images, 20),
            0.6,
        ),
        *(
            Row(
                f"{settings['method']}, {settings['dataset']}, {clients} clients: memory with"
                " workers=4 beyond the imports, in bytes in place of seconds",
                "workers=1",
                partial(_memory, settings | {"num-rounds": of_rounds}, clients),
                1.5,
                1,
                is_figure=True,
            )
            for settings, clients in ((graph, 50), (images, 100))
        ),
    ]


def _both_numbers(settings: Mapping[str, Any], clients: int) -> Pair:
    return partial(_run, settings, clients, 2), partial(_run, settings, clients, 1)


def _run(settings: Mapping[str, Any], clients: int, number: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = parse({**settings, "results-dir": folder, "run-name": "run", "device": "cpu"})
        nodes = simulated_nodes(clients)
        if number == 1:
            run_in_process(config, nodes)
        else:
            run_in_workers(config, nodes, number)


def _command(settings: Mapping[str, Any], clients: int, number: int) -> None:
    with command_run("simulate", {**settings, "workers": number}, clients) as (process, run):
        rounds_of(run, process)


def _memory(settings: Mapping[str, Any], clients: int) -> tuple[Callable[[], int], int]:
    """The largest memory of a run's processes, less that of its imports."""
    with subprocess.Popen(
        [sys.executable, "-c", IMPORTED], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        imports = _bytes_of(process.pid)
        process.kill()
    four, one = (_peak(settings, clients, number) - imports for number in (4, 1))
    return lambda: four, one


def _peak(settings: Mapping[str, Any], clients: int, number: int) -> int:
    peak = 0
    with command_run("simulate", {**settings, "workers": number}, clients) as (process, _):
        while process.poll() is None:
            peak = max(peak, _bytes_of(process.pid))
            time.sleep(0.05)
        if process.returncode:
            raise RuntimeError(f"the run ended with status {process.returncode}")
    return peak


def _bytes_of(process: int) -> int:
    """Memory of a process and its children; of what some share, each has its part."""
    total = 0
    try:
        family = [
            process,
            *(child.pid for child in psutil.Process(process).children(recursive=True)),
        ]
        for pid in family:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    except (OSError, psutil.Error):  # one has ended
        return 0
    return total * 1024
