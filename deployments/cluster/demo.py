"""A demonstration cluster on this machine: a SuperLink, three SuperNodes, a run of rounds and a
one-shot run.

It uses the commands that a user types, on loopback, with TLS and a key per node.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.processes import LOOPBACK, Interrupted, free_ports, interrupt, signals

NODES = ("n0", "n1", "n2")
RUNS = {
    "flatland": ("method=flatland", "dataset=trees", "num-rounds=4"),
    "hull": ("method=hull", "dataset=uniform", "points.num=600"),
}


def main() -> int:
    """Run the demonstration.

    Returns
    -------
    int
        0 if every command succeeded, 128 + n if signal n interrupted it.

    Raises
    ------
    ClusterError
        If a command fails.
    """
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="curvfed-demo-"))
    print(f"folder: {folder}", flush=True)
    fleet_port, api_port = map(str, free_ports(2))
    names = [word for name in NODES for word in ("--node", name)]
    ports = ["--fleet-port", fleet_port, "--api-port", api_port]
    _call(folder, "init", "--host", LOOPBACK, *names, *ports)
    try:
        with signals(interrupt):
            _start(folder)
            for name, pairs in RUNS.items():
                results = f"results-dir={folder / 'results'}"
                _call(
                    folder, "run", *pairs, results, f"run-name={name}", f"min-replies={len(NODES)}"
                )
    except BaseException as error:
        with contextlib.suppress(ClusterError):  # the first error is reported
            _call(folder, "down")
        if isinstance(error, Interrupted):
            return 128 + error.signum
        raise
    _call(folder, "down")
    print(
        f"All commands succeeded, and all programs are stopped: {time.monotonic() - started:.0f} s."
        f" Results: {folder / 'results'}"
    )
    return 0


def _start(folder: Path) -> None:
    """Start all programs, and wait until the nodes are connected."""
    _call(folder, "superlink", "--bind", LOOPBACK, "--background")
    _call(folder, "register")
    for number, name in enumerate(NODES):
        share = f"partition-id={number} num-partitions={len(NODES)}"
        _call(folder, "supernode", name, "--node-config", share, "--background")
    _call(folder, "status", "--wait", str(len(NODES)))


def _call(folder: Path, *words: str) -> None:
    """Run `curvfed cluster` with a home folder of its own, so that the user's stays unchanged."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    program = [sys.executable, "-m", "curvfed", "cluster", "--folder", str(folder / "cluster")]
    environment = os.environ | {"HOME": str(home)}
    status = subprocess.run([*program, *words], env=environment).returncode
    if status:
        raise ClusterError(
            f"`curvfed cluster {words[0]}` ended with exit status {status}", key="failed-command"
        )
