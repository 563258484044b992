"""A cluster on this machine, a run of rounds and a one-shot run on it, and an end to all of it.

A SuperLink and three SuperNodes with TLS and a key each, on loopback; FlatLand on generated graphs, then convex hulls by
a secure sum. Exit status 0 if everything went well.
"""

import tempfile
import time
from pathlib import Path

from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.cluster.local import LocalCluster, cluster, shares
from curvfed.deployments.processes import Interrupted, interrupt, is_alive, signals

NODES = 3
RUNS = {
    "flatland": ("method=flatland", "dataset=trees", "num-rounds=4"),
    "hull": ("method=hull", "dataset=uniform", "points.num=600"),
}


def main() -> int:
    """Show it, and return the exit status.

    Raises
    ------
    ClusterError
        If something does not go as it should.
    """
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="curvfed-demo-"))
    print(f"folder: {folder}", flush=True)
    try:
        with signals(interrupt), cluster(folder, shares(NODES)) as demo:
            print(demo.call("server", "status"), flush=True)
            processes = [process for host in ("server", *demo.node_configs) for process in demo.family(host)]
            for name, pairs in RUNS.items():
                _run(demo, name, pairs)
        if left := [process for process in processes if is_alive(process)]:
            raise ClusterError(f"processes are left: {left}")
    except Interrupted as stop:
        return 128 + stop.signum
    print(f"All went well, and all is down again: {time.monotonic() - started:.0f} s. Results: {folder / 'results'}")
    return 0


def _run(demo: LocalCluster, name: str, pairs: tuple[str, ...]) -> None:
    process = demo.submit(*pairs, f"run-name={name}")
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if "| configuration:" not in line:  # a screen full of keys
                print(line, end="", flush=True)
    finally:
        if process.poll() is None:
            process.terminate()
    if process.wait() or demo.summary(name)["status"] != "completed":
        raise ClusterError(f"the run {name} failed, exit status {process.returncode}")
    if demo.summary(name)["num_clients"] != NODES:
        raise ClusterError(f"the run {name} had {demo.summary(name)['num_clients']} clients of {NODES}")
