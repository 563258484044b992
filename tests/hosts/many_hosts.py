"""A cluster on hosts of their own, and what tests do to it and look at."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from app_runs import Run
from app_runs import run as run_here
from local_cluster import SERVER, LocalCluster, shares
from namespaces import Network, NoNamespacesError

from curvfed.deployments.processes import free_ports, wait_until
from curvfed.extensions.cluster.commands.registry import read_names

NODES = ("n0", "n1", "n2")
GUEST, STRANGER = "n3", "stranger"
"""A host whose node some tests start, and one beside it that is not registered."""

LONG = 300.0
"""Seconds in which everything must end; a machine that has much else to do may need them."""

FLATLAND = {"method": "flatland", "dataset": "trees"}
"""What most runs do."""

TAMPERING = Path(__file__).with_name("tampering.py")
USUAL_START = 25.0
"""Seconds that a cluster takes to start on two cores with nothing else to do."""


class Hosts(LocalCluster):
    """A SuperLink and three SuperNodes, on hosts of their own where this machine lets them be made.

    The first node's messages go by a process that can change them; see `tamper`.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self.network: Network | None = None
        self.reason = ""
        try:
            self.network = Network([SERVER, *NODES, GUEST])
        except NoNamespacesError as error:
            self.reason = str(error)
        prefixes: Mapping[str, tuple[str, ...]] = {}
        host = "127.0.0.1"
        if self.network is not None:
            prefixes = {name: self.network.prefix(name) for name in (SERVER, *NODES, GUEST)}
            prefixes[STRANGER] = prefixes[GUEST]
            host = self.network.address(SERVER)
        super().__init__(folder, [*shares(len(NODES)), ""], prefixes, host)
        self._tampering: subprocess.Popen[bytes] | None = None
        (self._port,) = free_ports(1)
        self.slowness = 1.0

    def start(self) -> None:
        """All but the guest."""
        started = time.monotonic()
        self.init()
        self._start_tampering()
        self.start_superlink()
        self.call(SERVER, "register", *NODES)
        with ThreadPoolExecutor() as pool:
            refused = list(pool.map(self.connect, NODES))
        assert not any(refused), refused
        self.slowness = max(1.0, (time.monotonic() - started) / USUAL_START)

    def connect(self, name: str) -> str:
        """Start a node; empty if the SuperLink takes it, else what it says at its end."""
        words = ("--superlink", f"127.0.0.1:{self._port}") if name == NODES[0] else ()
        return self.try_node(name, *words)

    def down(self) -> None:
        """Stop everything, and take the network away."""
        super().down()
        if self._tampering is not None:
            self._tampering.kill()
            self._tampering.wait()
        if self.network is not None:
            self.network.remove()

    def patience(self, seconds: float) -> float:
        """A time on this machine, which may be slower than those for which it was measured."""
        return seconds * self.slowness

    def prefix(self, host: str) -> tuple[str, ...]:
        """Words before a command on a host."""
        return tuple(self._prefixes.get(host, ()))

    def _start_tampering(self) -> None:
        words = [
            sys.executable,
            str(TAMPERING),
            str(self._port),
            self.host,
            str(self.fleet_port),
            str(self.tampering),
        ]
        self._tampering = subprocess.Popen([*self.prefix(NODES[0]), *words])

    @property
    def tampering(self) -> Path:
        """A file that asks for a changed byte in the first node's next reply; gone when done."""
        return self.folder / "tamper"

    @contextlib.contextmanager
    def guest(self, node_config: str) -> Iterator[None]:
        """One more node for a while; runs without it then wait for it first."""
        self.node_configs[GUEST] = node_config
        if GUEST not in self.names():
            self.call(SERVER, "register", GUEST)
        try:
            assert self.connect(GUEST) == ""
            yield
        finally:
            self.program(GUEST).stop()

    def result(self, run: str) -> Run:
        """What a run has left by now."""
        return Run(self.results / run)

    def trained(self, run: str) -> list[dict[str, str]]:
        """The rows of training in a run's `rounds.csv`."""
        return [row for row in self.result(run).rounds if row["phase"] == "train"]

    def await_round(self, run: str, number: int, seconds: float = LONG) -> None:
        """Wait until a run has done this round, and so has begun the next one."""
        await_(lambda: self.rounds_done(run) >= number, seconds, f"round {number} of {run}")

    def clients(self, run: str, partition: int) -> dict[int, dict[str, str]]:
        """A client's rows of the training rounds in `clients.csv`, by round."""
        rows = self.result(run).clients
        return {
            int(row["round"]): row
            for row in rows
            if row["phase"] == "train" and row["partition"] == str(partition)
        }

    def names(self) -> dict[str, str]:
        """Flower's ids of the nodes."""
        return read_names(self.files)


def pairs(
    name: str,
    num_rounds: int,
    *more: str,
    timeout: float = 120.0,
    settings: Mapping[str, Any] = FLATLAND,
) -> tuple[str, ...]:
    """A run that must end as `reference` does; its timeout is for what hangs."""
    words = (f"{key}={str(value).lower()}" for key, value in settings.items())
    limits = (f"round-timeout={timeout}", f"num-rounds={num_rounds}")
    return *words, "embedding-dim=8", *limits, f"run-name={name}", *more


def reference(folder: Path, num_rounds: int, settings: Mapping[str, Any] = FLATLAND) -> Run:
    """The same in this process: what comes of it where nothing goes wrong."""
    keys = {key.replace("-", "_"): value for key, value in settings.items()}
    return run_here(folder, clients=len(NODES), num_rounds=num_rounds, **keys)


def await_(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until something is so.

    Raises
    ------
    AssertionError
        If it is not in time.
    """
    assert wait_until(condition, seconds, pause=0.1), f"not within {seconds:.0f} s: {what}"


def ended(process: "subprocess.Popen[str]", seconds: float = LONG) -> tuple[int, str]:
    """Exit status and output of a run that has to end."""
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.terminate()  # which stops the run: it must not be in the way of others
        output, _ = process.communicate()
        raise AssertionError(f"no end within {seconds:.0f} s\n{output}") from None
    return process.returncode, output


def ctrl_c(process: "subprocess.Popen[str]") -> None:
    """What a terminal does: the signal goes to the command and to all that it runs."""
    for each in [psutil.Process(process.pid), *psutil.Process(process.pid).children()]:
        each.send_signal(signal.SIGINT)


def trained(run: Run) -> list[list[str]]:
    """What the training rounds of a run came to."""
    kept = ("round", "replies", "dropped", "personal_accuracy_mean", "loss")
    return [[row[name] for name in kept] for row in run.rounds if row["phase"] == "train"]


def assert_equal(run: Run, reference: Run) -> None:
    """The same figures and, to the last bit, the same parameters."""
    assert run.summary["status"] == "completed"
    assert trained(run) == trained(reference)
    assert run.model.keys() == reference.model.keys()
    for name, array in reference.model.items():
        np.testing.assert_array_equal(run.model[name], array, err_msg=name)
