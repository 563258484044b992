"""Flower's own commands, as they are run: they are printed first, so that people can do without
`curvfed cluster`."""

import json
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.cluster.folder import CONNECTION, NodeFolder, ServerFolder
from curvfed.deployments.processes import LOOPBACK, QUIET, flower_environment

ANSWER_TIME = 60
"""Seconds that Flower has to answer."""

BY = "\n  by: "
"""Between an error and the command that caused it."""

DAEMONS = QUIET | {
    # the app runs in this environment, not in one of its own
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",  # a second per message otherwise
}


@dataclass(frozen=True)
class Command:
    """A command, and the environment variables that it has in addition to those of this process."""

    words: list[str]
    variables: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.variables.items()]
        return " ".join([*settings, shlex.join(self.words)])

    @property
    def environment(self) -> dict[str, str]:
        """All environment variables of the command."""
        return flower_environment(self.variables)

    def show(self) -> "Command":
        """Print it."""
        print(f"$ {self}", flush=True)
        return self

    def ask(self) -> dict[str, Any]:
        """Run a command that answers in JSON, in a session of its own so that Ctrl-C does not reach
        it.

        Raises
        ------
        ClusterError
            If it fails or does not answer, with its own message.
        """
        try:
            done = subprocess.run(
                self.words,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=ANSWER_TIME,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            raise ClusterError(f"no answer within {ANSWER_TIME} s to: {self}") from None
        try:
            # Flower prints lines of its own before the answer.
            answer: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
        except ValueError:
            answer = {}
        if not answer.get("success"):
            said = (
                answer.get("error-message")
                or done.stderr
                or done.stdout
                or f"exit status {done.returncode}"
            )
            if "Connection to the SuperLink is unavailable" in said:
                said = (
                    "this cluster's SuperLink does not answer; `curvfed cluster superlink`"
                    " starts it"
                )
            raise ClusterError(f"{said.strip()}{BY}{self}")
        return answer


ONE_PORT = tuple(map(int, version("flwr").split(".")[:2])) >= (1, 40)
"""Whether this Flower serves nodes on the port for runs and registrations: then nodes come by a
proxy of the site."""


def superlink(folder: ServerFolder, bind: str, health_port: int = 0) -> Command:
    """The SuperLink: nodes reach it on the address `bind`, runs and registrations come from this
    machine alone."""
    certificate, key = folder.server
    return Command(
        [
            *("flower-superlink", "--host", LOOPBACK, "--port", str(folder.api_port)),
            *("--fleet-api-address", f"{bind}:{folder.fleet_port}"),
            *("--ssl-ca-certfile", str(folder.authority[0]), "--ssl-certfile", str(certificate)),
            *(
                "--ssl-keyfile",
                str(key),
                "--enable-supernode-auth",
                "--database",
                str(folder.database),
            ),
            *("--disable-runtime-dependency-installation", *_health(health_port)),
        ],
        DAEMONS | {"FLWR_HOME": str(folder.flower_home)},
    )


def supernode(
    folder: NodeFolder, superlink: str, node_config: str, port: int, health_port: int = 0
) -> Command:
    """A SuperNode, whose own API listens on `port` of the loopback interface."""
    return Command(
        [
            *(
                "flower-supernode",
                "--superlink",
                superlink,
                "--root-certificates",
                str(folder.authority),
            ),
            *("--auth-supernode-private-key", str(folder.key), "--node-config", node_config),
            *("--host", LOOPBACK, "--port", str(port), *_health(health_port)),
        ],
        DAEMONS | {"FLWR_HOME": str(folder.flower_home)},
    )


def _health(port: int) -> list[str]:
    """Flower's health service, without TLS and so on loopback; port 0: none."""
    return ["--health-server-address", f"{LOOPBACK}:{port}"] if port else []


def flwr(
    folder: ServerFolder, *words: str | Path, options: Sequence[str] = ("--format", "json")
) -> Command:
    """A command of `flwr` for the SuperLink of this folder; by default one that answers in JSON."""
    return Command(
        ["flwr", *map(str, words), CONNECTION, *options],
        QUIET | {"FLWR_HOME": str(folder.flower_home)},
    )
