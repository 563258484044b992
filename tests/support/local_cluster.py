"""A cluster on one machine, by the user's commands, for tests, benchmarks and tables."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil

from curvfed.deployments.processes import free_ports, is_alive, stop, wait_until
from curvfed.extensions.cluster.commands import ClusterError
from curvfed.extensions.cluster.commands.flower_commands import ONE_PORT
from curvfed.extensions.cluster.commands.folder import ServerFolder

SERVER = "server"
PATIENCE = 180.0
"""Seconds that nodes have to come up."""

LONGEST_START = 600.0
"""Seconds after which a program that neither ends nor is accepted is given up."""

PROGRAM_END = 12.0
"""Seconds for a program to end on request; Flower's own take up to 5."""

AT_ONCE = 4
"""Nodes that start together: each imports for seconds of a core, then waits."""


CONNECTED = "SuperNode ID"
"""A SuperNode prints this when the SuperLink accepts it."""

REFUSED = "Failed to activate SuperNode"
"""A SuperNode prints this when the SuperLink refuses it."""

LEASE_STARTS = 8
LEASE_PAUSE = 12.0
"""Starts of a node that was killed, and seconds between them: the SuperLink counts the killed one
as connected for a minute."""


class Program:
    """A program that runs beside the tests, with its output in a file.

    Parameters
    ----------
    log : Path
        Each start appends to it.
    """

    def __init__(self, log: Path) -> None:
        self.log = log
        self._child: subprocess.Popen[bytes] | None = None

    def start(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it in a session of its own, so that no Ctrl-C reaches it."""
        self.process()  # else Python warns about one that was killed
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                words,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def process(self) -> psutil.Process | None:
        """The process, if it runs."""
        if self._child is None or self._child.poll() is not None:
            return None
        return psutil.Process(self._child.pid)

    def stop(self) -> None:
        """End it, then its remaining children."""
        process = self.process()
        if self._child is not None and process is not None:
            children = process.children(recursive=True)
            stop([process], PROGRAM_END)
            stop([child for child in children if is_alive(child)], 2.0)
            self._child.wait()

    def text(self) -> str:
        """Its output so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def tail(self) -> str:
        """The last lines of its output."""
        return "\n".join(self.text().splitlines()[-12:])


class LocalCluster:
    """A SuperLink and SuperNodes, each started by `curvfed cluster`.

    Parameters
    ----------
    folder : Path
        New; holds keys, logs, and the results of runs in `results`.
    node_configs : sequence of str
        One per node; a node is called `n0`, `n1`, …
    prefixes : mapping of str to sequence of str, optional
        Words before the commands of a host, `server` or a node's name: `ip netns exec NAME`.
    host : str
        Name or address by which the nodes reach the server.
    """

    def __init__(
        self,
        folder: Path,
        node_configs: Sequence[str],
        prefixes: Mapping[str, Sequence[str]] | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.folder, self.host = folder, host
        self.node_configs = {f"n{number}": config for number, config in enumerate(node_configs)}
        self._prefixes = dict(prefixes or {})
        self.results = folder / "results"
        self.fleet_port, self.api_port = free_ports(2)
        self._programs: dict[str, Program] = {}
        self._killed: set[str] = set()

    @property
    def files(self) -> ServerFolder:
        """The server's folder; those of the nodes are in it."""
        return ServerFolder(self.folder / "cluster", self.fleet_port, self.api_port)

    def command(self, host: str, *words: str) -> list[str]:
        """`curvfed cluster` with these words on a host."""
        prefix = self._prefixes.get(host, ())
        return [
            *prefix,
            sys.executable,
            "-m",
            "curvfed",
            "cluster",
            "--folder",
            str(self.files.path),
            *words,
        ]

    def call(self, host: str, *words: str, timeout: float = 120) -> str:
        """Run a command to its end; what it said.

        Raises
        ------
        ClusterError
            If it fails, with what it said.
        """
        done = subprocess.run(
            self.command(host, *words),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if done.returncode:
            raise ClusterError(
                f"exit status {done.returncode}: {' '.join(words)}\n{done.stdout}{done.stderr}"
            )
        return done.stdout + done.stderr

    @property
    def environment(self) -> dict[str, str]:
        """Of every command: a home of its own, so that nothing of this user's is touched."""
        home = self.folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        return os.environ | {"HOME": str(home)}

    def init(self) -> None:
        """Make certificates and keys."""
        names = [word for name in self.node_configs for word in ("--node", name)]
        ports = ["--fleet-port", str(self.fleet_port), "--api-port", str(self.api_port)]
        self.call(SERVER, "init", "--host", self.host, *names, *ports)

    def start_superlink(self) -> None:
        """Start it and wait until it answers; used again after it was killed, too."""
        program = self.program(SERVER)
        words = self.command(SERVER, "superlink", "--bind", self.host)
        program.start(words, self.environment)

        def has_answered() -> bool:
            with contextlib.suppress(ClusterError):
                self.call(SERVER, "status")
                return True
            return program.process() is None

        answers = wait_until(has_answered, LONGEST_START)
        if not answers or program.process() is None:
            raise ClusterError(f"the SuperLink does not answer, or it ended\n{program.tail()}")

    def start_node(self, name: str, *words: str) -> None:
        """Start a SuperNode and wait until the SuperLink accepts it; a killed one is accepted after
        a minute.

        Raises
        ------
        ClusterError
            If it ends; with the end of its log.
        """
        for _ in range(LEASE_STARTS):
            said = self.try_node(name, *words)
            if not said:
                self._killed.discard(name)
                return
            if name not in self._killed or REFUSED not in said:
                break
            time.sleep(LEASE_PAUSE)
        raise ClusterError(f"{name} ended\n{said}")

    def try_node(self, name: str, *words: str) -> str:
        """Start a SuperNode; its output if it ends before the SuperLink accepts it.

        Raises
        ------
        ClusterError
            If it is neither accepted nor ends.
        """
        link = ("--superlink", f"{self.host}:{self.api_port}") if ONE_PORT else ()
        program = self.program(name)
        begin = len(program.text())
        config = ("--node-config", self.node_configs[name])
        node = self.command(name, "supernode", name, *config, *link, *words)
        program.start(node, self.environment)

        def is_accepted() -> bool:
            return CONNECTED in program.text()[begin:]

        if not wait_until(lambda: is_accepted() or program.process() is None, LONGEST_START):
            raise ClusterError(f"{name} is neither accepted nor refused\n{program.tail()}")
        return "" if is_accepted() else program.text()[begin:]

    def start(self) -> None:
        """All of it, and wait until every node is connected."""
        self.init()
        self.start_superlink()
        self.call(SERVER, "register")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self.start_node, self.node_configs))
        self.wait_online(len(self.node_configs))

    def wait_online(self, number: int, seconds: float = PATIENCE) -> None:
        """Wait until so many nodes are connected.

        Raises
        ------
        ClusterError
            If they are not in time; with the ends of their logs.
        """
        try:
            self.call(
                SERVER,
                "status",
                "--wait",
                str(number),
                "--within",
                str(seconds),
                timeout=seconds + 120,
            )
        except ClusterError as error:
            logs = "\n".join(f"{name}: {self.program(name).tail()}" for name in self.node_configs)
            raise ClusterError(f"{error}\n{logs}") from None

    def program(self, host: str) -> Program:
        """The SuperLink or the SuperNode of a host."""
        return self._programs.setdefault(host, Program(self.folder / f"{host}.log"))

    def family(self, host: str) -> list[psutil.Process]:
        """A host's process and all that it started.

        Raises
        ------
        ClusterError
            If it is not running.
        """
        process = self.program(host).process()
        if process is None:
            raise ClusterError(f"{host} is not running\n{self.program(host).tail()}")
        return [process, *process.children(recursive=True)]

    def kill(self, host: str, signum: int = signal.SIGKILL) -> None:
        """Send a signal to a host's process; SIGKILL to all that it started too, as if the machine
        lost its power."""
        process, *others = self.family(host)
        if signum != signal.SIGKILL:
            process.send_signal(signum)
            return
        for each in (process, *others):
            with contextlib.suppress(psutil.Error):
                each.kill()
        psutil.wait_procs([process, *others], 10)
        self._killed.add(host)

    def busy(self, host: str) -> bool:
        """Whether a client runs on a host: a child of the process that is forked for each
        message.
        """
        serving, parents = set(), []
        for process in self.family(host):
            with contextlib.suppress(psutil.Error):  # it may end while it is looked at
                parents.append(process.parent())
                if "--serve" in process.cmdline():
                    serving.add(process)
        return any(parent in serving for parent in parents)

    def pause(self, host: str) -> None:
        """Stop a host's processes where they are."""
        for process in self.family(host):
            process.suspend()

    def go_on(self, host: str) -> None:
        """Let them go on."""
        for process in self.family(host):
            process.resume()

    def submit(self, *pairs: str, retries: int = 0) -> "subprocess.Popen[str]":
        """Start a run and return at once; its output is in the pipe."""
        return subprocess.Popen(
            self.command(
                SERVER, "run", f"results-dir={self.results}", *pairs, "--retries", str(retries)
            ),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *pairs: str, timeout: float = 600) -> tuple[int, str]:
        """A run from start to end: its exit status and what it said."""
        process = self.submit(*pairs)
        output, _ = process.communicate(timeout=timeout)
        return process.returncode, output

    def summary(self, run: str) -> dict[str, Any]:
        """`summary.json` of a run."""
        outcome: dict[str, Any] = json.loads(
            (self.results / run / "summary.json").read_text(encoding="utf-8")
        )
        return outcome

    def rounds_done(self, run: str) -> int:
        """The last whole round of a run, by its checkpoints."""
        stamps = [
            path.stem
            for path in (self.results / run / "checkpoint" / "server").glob("[0-9]*.safetensors")
        ]
        return max(map(int, stamps), default=0)

    def down(self) -> None:
        """Stop everything."""
        nodes = [self.program(name) for name in self.node_configs]
        with ThreadPoolExecutor() as pool:
            list(pool.map(Program.stop, nodes))
        self.program(SERVER).stop()


@contextlib.contextmanager
def cluster(folder: Path, node_configs: Sequence[str], **settings: Any) -> Iterator[LocalCluster]:
    """A cluster that is up, and gone at the end."""
    one = LocalCluster(folder, node_configs, **settings)
    try:
        one.start()
        yield one
    finally:
        one.down()


def shares(number: int) -> list[str]:
    """Node configurations of as many nodes with a share each of a public data set."""
    return [f"partition-id={partition} num-partitions={number}" for partition in range(number)]


def signed(folder: Path, node_configs: Sequence[str]) -> list[str]:
    """Node configurations with signing keys and roster, by commands of docs/secure-sums.md."""
    (folder / "roster").mkdir(parents=True)
    for partition in range(len(node_configs)):
        key = str(folder / f"node{partition}.pem")
        for words in (
            ("genpkey", "-algorithm", "ed25519", "-out", key),
            ("pkey", "-in", key, "-pubout", "-out", str(folder / "roster" / f"{partition}.pem")),
        ):
            subprocess.run(["openssl", *words], check=True, capture_output=True)
    return [
        f'{config} signing-key="{folder / f"node{partition}.pem"}" roster="{folder / "roster"}"'
        for partition, config in enumerate(node_configs)
    ]
