"""Flower's own commands for a cluster: they are printed before they run, so that users can do
without `curvfed cluster`."""

import json
import os
import shlex
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import tomli_w

from curvfed.deployments.flower_version import is_grpc
from curvfed.deployments.processes import LOOPBACK, QUIET, flower_environment
from curvfed.extensions.cluster.commands import ClusterError
from curvfed.extensions.cluster.commands.folder import ServerFolder, cluster_command
from curvfed.strategies.base.keys import toml_text
from curvfed.tasks.stored_files import write_atomically

CONNECTION = "cluster"
"""The name of the SuperLink in Flower's own configuration."""

ANSWER_TIME = 60
"""Seconds for Flower to answer."""

BY = "\n  by: "
"""The text between an error and the command that caused it."""

SILENT = "silent-superlink"
"""The key of an error where no SuperLink answers."""

PROGRAMS = QUIET | {
    # The app runs in this environment, not in a new one.
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",  # a second per message otherwise
}

ONE_PORT = not is_grpc(version("flwr"))
"""Whether this Flower serves nodes on the port for runs and registrations: then nodes connect
through a proxy of the site."""


def write_connection(folder: ServerFolder) -> None:
    """Name this folder's SuperLink in Flower's configuration there, again if the folder was moved
    or its port changed.

    Raises
    ------
    ClusterError
        If the configuration cannot be read.
    """
    path = folder.flower_home / "config.toml"
    connection = {
        "address": f"{LOOPBACK}:{folder.api_port}",
        "root-certificates": str(folder.authority[0].absolute()),
    }
    try:
        flower = tomllib.loads(toml_text(path.read_bytes())) if path.exists() else {}
    except ValueError as error:
        raise ClusterError(f"{path} cannot be read: {error}", key="unreadable") from None
    superlinks = flower.setdefault("superlink", {"default": CONNECTION})
    stored = superlinks.get(CONNECTION, {})
    if stored | connection != stored:
        superlinks[CONNECTION] = stored | connection
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_atomically(path, tomli_w.dumps(flower).encode())


@dataclass(frozen=True)
class Command:
    """A command, and its environment variables in addition to those of this process."""

    words: list[str]
    variables: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.variables.items()]
        return " ".join([*settings, shlex.join(self.words)])

    @property
    def environment(self) -> dict[str, str]:
        """All environment variables of the command."""
        return flower_environment(self.variables)

    def become(self) -> NoReturn:
        """Run the command in place of this process."""
        os.execvpe(self.words[0], self.words, self.environment)

    def show(self) -> "Command":
        """Print the command."""
        print(f"$ {self}", flush=True)
        return self

    def ask(self) -> dict[str, Any]:
        """Run a command that answers in JSON, in a new session so that Ctrl-C does not reach it.

        Raises
        ------
        ClusterError
            If it fails or does not answer; the text has its own message.
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
            raise ClusterError(
                f"no answer within {ANSWER_TIME} s to: {self}", key="no-answer"
            ) from None
        try:
            # Flower prints lines of its own before the answer.
            answer: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
        except ValueError:
            answer = {}
        if not answer.get("success"):
            output = answer.get("error-message") or done.stderr or done.stdout
            reason = output or f"exit status {done.returncode}"
            key = "flower"
            if "Connection to the SuperLink is unavailable" in reason:
                key = SILENT
                start = cluster_command("superlink", Path(self.variables["FLWR_HOME"]).parent)
                reason = f"this cluster's SuperLink does not answer; `{start}` starts it"
            raise ClusterError(f"{reason.strip()}{BY}{self}", key=key)
        return answer


def flower_program(
    name: str,
    options: Mapping[str, object],
    health_port: int,
    flower_home: Path,
    flags: Sequence[str] = (),
) -> Command:
    """A SuperLink or a SuperNode; with port 0 it lacks a health service."""
    words = [name]
    for option, value in options.items():
        words += [option, str(value)]
    if health_port:  # without TLS, and so on loopback
        words += ["--health-server-address", f"{LOOPBACK}:{health_port}"]
    return Command([*words, *flags], PROGRAMS | {"FLWR_HOME": str(flower_home)})


def flwr(
    folder: ServerFolder, *words: str | Path, options: Sequence[str] = ("--format", "json")
) -> Command:
    """A command of `flwr` for the SuperLink of this folder; by default it answers in JSON."""
    return Command(
        ["flwr", *map(str, words), CONNECTION, *options],
        QUIET | {"FLWR_HOME": str(folder.flower_home)},
    )
