"""Flower's own commands, as they are run: printed first, so that people can do without the wrapper."""

import contextlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.cluster.folder import CONNECTION, NodeFolder, ServerFolder

LOOPBACK = "127.0.0.1"

BY = "\n  by: "
"""Between what went wrong and the command by which it did."""

QUIET = {
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_TELEMETRY_ENABLED": "0",  # Flower tells its makers of every start otherwise
}
ALWAYS = QUIET | {
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",  # the app runs in this environment, not in one of its own
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",  # a second per message otherwise
}


@dataclass(frozen=True)
class Command:
    """A command, and what its environment has besides this process's."""

    words: list[str]
    variables: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.variables.items()]
        return " ".join([*settings, shlex.join(self.words)])

    @property
    def environment(self) -> dict[str, str]:
        """All of it."""
        # Flower looks its own programs up on PATH, and this environment need not be the activated one.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        # Behind a proxy the commands would ask the proxy for the SuperLink on this machine.
        direct = ",".join(
            filter(None, [os.environ.get("NO_PROXY") or os.environ.get("no_proxy"), "127.0.0.1,localhost"])
        )
        return os.environ | {"PATH": path, "NO_PROXY": direct, "no_proxy": direct} | dict(self.variables)

    def show(self) -> "Command":
        """Print it."""
        print(f"$ {self}", flush=True)
        return self

    def ask(self, timeout: float = 60, own_session: bool = False) -> dict[str, Any]:
        """Run a command that answers in JSON; in a session of its own Ctrl-C does not reach it.

        Raises
        ------
        ClusterError
            If it does not, with what it said.
        """
        try:
            done = subprocess.run(
                self.words,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=timeout,
                start_new_session=own_session,
            )
        except subprocess.TimeoutExpired:
            raise ClusterError(f"no answer within {timeout:g} s to: {self}") from None
        answer: dict[str, Any] = {}
        for line in done.stdout.splitlines():
            if line.lstrip().startswith("{"):
                with contextlib.suppress(ValueError):
                    answer = json.loads(done.stdout[done.stdout.index(line) :])
                break
        if not answer.get("success"):
            said = answer.get("error-message") or done.stderr or done.stdout or f"exit status {done.returncode}"
            if "Connection to the SuperLink is unavailable" in said:
                said = "this cluster's SuperLink does not answer; `curvfed cluster superlink` starts it"
            raise ClusterError(f"{said.strip()}{BY}{self}")
        return answer


def superlink(folder: ServerFolder, bind: str) -> Command:
    """The SuperLink: nodes reach it on `bind`, runs and registrations come from this machine alone."""
    certificate, key = folder.server
    return Command(
        [
            *("flower-superlink", "--host", LOOPBACK, "--port", str(folder.api_port)),
            *("--fleet-api-address", f"{bind}:{folder.fleet_port}"),
            *("--ssl-ca-certfile", str(folder.authority[0]), "--ssl-certfile", str(certificate)),
            *("--ssl-keyfile", str(key), "--enable-supernode-auth", "--database", str(folder.database)),
            "--disable-runtime-dependency-installation",
        ],
        ALWAYS | {"FLWR_HOME": str(folder.flower_home)},
    )


def supernode(folder: NodeFolder, superlink: str, node_config: str, port: int) -> Command:
    """A SuperNode, whose own API listens on `port` of the loopback interface."""
    return Command(
        [
            *("flower-supernode", "--superlink", superlink, "--root-certificates", str(folder.authority)),
            *("--auth-supernode-private-key", str(folder.key), "--node-config", node_config),
            *("--host", LOOPBACK, "--port", str(port)),
        ],
        ALWAYS | {"FLWR_HOME": str(folder.flower_home)},
    )


def flwr(folder: ServerFolder, words: Sequence[str]) -> Command:
    """A command of Flower's command line, with the SuperLink of this folder."""
    return Command(["flwr", *words], QUIET | {"FLWR_HOME": str(folder.flower_home)})


def register(folder: ServerFolder, public_key: Path, name: str) -> Command:
    """Let the holder of a key take part."""
    return flwr(folder, ["supernode", "register", str(public_key), CONNECTION, "--name", name, "--format", "json"])


def unregister(folder: ServerFolder, node: str) -> Command:
    """Let a node take part no more."""
    return flwr(folder, ["supernode", "unregister", node, CONNECTION, "--format", "json"])


def list_nodes(folder: ServerFolder) -> Command:
    """The registered nodes."""
    return flwr(folder, ["supernode", "list", CONNECTION, "--format", "json"])


def list_runs(folder: ServerFolder, run: str | None = None) -> Command:
    """The runs, or one."""
    chosen = ["--run-id", run] if run else []
    return flwr(folder, ["list", CONNECTION, *chosen, "--format", "json"])
