"""A run on a cluster: handed to the SuperLink, followed to its end, its exit status told."""

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from deployments.cluster import commands
from deployments.cluster.errors import ClusterError
from deployments.cluster.folder import CONNECTION, ServerFolder
from deployments.flower import DEFAULT_RESULTS, app_defaults, named, toml_pairs
from deployments.isolated import Interrupted, interrupt, signals
from deployments.pairs import Value, read_pairs
from deployments.tables import summary_table

POLL = 1.0
"""Seconds between two looks at a run's status."""


def configuration(app: Path, pairs: Sequence[str]) -> dict[str, Value]:
    """The run config, with a name and a place for the results.

    Raises
    ------
    UsageError
    """
    defaults = app_defaults(app)
    return named(read_pairs(pairs, defaults), defaults)


def run(folder: ServerFolder, app: Path, config: Mapping[str, Value], retries: int = 0) -> int:
    """Run to the end; after a failure go on from the checkpoint, up to `retries` times.

    Returns
    -------
    int
        0 completed, 1 failed, 128 + n stopped by signal n.
    """
    config = dict(config)
    directory = Path(str(config["results-dir"])) / str(config["run-name"])
    for attempt in range(retries + 1):
        try:
            if _once(folder, app, config, directory):
                return 0
        except Interrupted as stop:
            print(f"Stopped by {signal.Signals(stop.signum).name}.")
            _tell_resume(folder, directory)
            return 128 + stop.signum
        except ClusterError as error:
            if attempt == retries:
                raise
            Console(stderr=True).print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        if attempt < retries:
            wait = min(15 * 2**attempt, 120)
            print(f"Going on in {wait} s from the last whole round ({retries - attempt} of {retries} retries left).")
            time.sleep(wait)
            config["resume"] = (directory / "checkpoint").is_dir()
    _tell_resume(folder, directory)
    return 1


def _once(folder: ServerFolder, app: Path, config: Mapping[str, Value], directory: Path) -> bool:
    """Whether one run completed."""
    words = ["run", str(app), CONNECTION, "--run-config", toml_pairs(config), "--format", "json"]
    with signals(interrupt):
        identity = str(commands.flwr(folder, words).show().ask()["run-id"])
        try:
            status, details = _follow(folder, identity)
        except Interrupted:
            with signals(signal.SIG_IGN):
                _stop(folder, identity)
            raise
    summary = _summary(directory, config)
    console = Console()
    if summary:
        console.print(summary_table(summary))
    completed = status == "finished:completed" and summary.get("status", "completed") == "completed"
    if completed:
        print("results:", directory)
        return True
    reason = summary.get("error") or details or "the app left no summary"
    console.print(f"[red]The run failed[/red] (Flower says {status}): {escape(str(reason))}", soft_wrap=True)
    return False


def _follow(folder: ServerFolder, identity: str) -> tuple[str, str]:
    """Show a run's log as it comes; its status and details at the end."""
    command = commands.flwr(folder, ["log", identity, CONNECTION, "--stream"]).show()
    stream = subprocess.Popen(command.words, env=command.environment)
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                stream.wait(5 * POLL)
            status, details = _status(folder, identity)
            if status.startswith("finished"):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    stream.wait(5)
                return status, details
            if stream.poll() is not None:  # the stream may end before the run does
                time.sleep(POLL)
    finally:
        if stream.poll() is None:
            stream.terminate()
            stream.wait()


def _status(folder: ServerFolder, identity: str) -> tuple[str, str]:
    answer = commands.list_runs(folder, identity).ask()
    run = answer["runs"][0]
    return str(run["status"]), str(run["status-details"])


def _stop(folder: ServerFolder, identity: str) -> None:
    """Ask the SuperLink to stop a run, and wait until it has."""
    print("Stopping the run …", flush=True)
    with contextlib.suppress(ClusterError):
        commands.flwr(folder, ["stop", identity, CONNECTION, "--format", "json"]).show().ask()


def _summary(directory: Path, config: Mapping[str, Value]) -> dict[str, Any]:
    for folder in (directory, DEFAULT_RESULTS / directory.name):
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
            return found
    return {}


def _tell_resume(folder: ServerFolder, directory: Path) -> None:
    if (directory / "checkpoint").exists():
        print(
            "Its last checkpoint is kept. To go on: the same command with",
            f"run-name={directory.name} resume=true",
        )
