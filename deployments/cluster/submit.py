"""A run on a cluster: handed to the SuperLink, followed to its end, its exit status told."""

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from curvfed.deployments.bundle import app_folder
from curvfed.deployments.cluster import commands, registry
from curvfed.deployments.cluster.daemons import wait_until
from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.cluster.folder import CONNECTION, ServerFolder
from curvfed.deployments.flower import named, read_summary, stamps, summaries, toml_pairs
from curvfed.deployments.isolated import Interrupted, interrupt, signals
from curvfed.deployments.pairs import Value, read_pairs
from curvfed.deployments.tables import summary_table
from curvfed.server_app.run_lock import is_written
from curvfed.strategies.run_config import ConfigError, RunConfig, flatten
from curvfed.strategies.store import Store
from curvfed.tasks.atomic_file import write_atomically

RUNS = "runs.json"
"""In the server's folder: what each of Flower's ids is called."""

POLL = 1.0
"""Seconds between two looks at a run's status."""

NODES_WAIT = 20.0
"""Seconds to wait for registered nodes that are not connected."""

NEWS = 30.0
"""Seconds between two words of how far a run is whose log comes no more."""

SILENCE = 60.0
"""Seconds for which the SuperLink may fail to answer."""

COMPLETED, STOPPED = "finished:completed", "finished:stopped"

STOPPING = 45.0
"""Seconds that a run has to stop: its server hears of it by its next heartbeat, up to half a minute later."""


def configuration(pairs: Sequence[str]) -> dict[str, Value]:
    """The run config, with a name and a place for the results.

    Raises
    ------
    UsageError, ConfigError
    """
    from curvfed.strategies.config import parse  # brings torch with it, which no other command needs

    defaults = flatten(RunConfig())
    config = named(read_pairs(pairs, defaults), defaults)
    parse(config)  # what the ServerApp would refuse is refused here, before anything is sent
    return config


def run(folder: ServerFolder, config: Mapping[str, Value], retries: int = 0) -> int:
    """Run to the end; after a failure go on from the checkpoint, up to `retries` times.

    Returns
    -------
    int
        0 completed, 1 failed, 128 + n stopped by signal n.

    Raises
    ------
    ConfigError
        If the results folder has a run of this name that is not to be resumed.
    """
    config = dict(config)
    directory = summaries(config)[0].parent
    if directory.exists() and not config.get("resume"):  # the ServerApp says so, too, but after a minute
        raise ConfigError(
            f'run-name = "{directory.name}": {directory} exists; allowed is a new name, or resume=true to go on with '
            "that run"
        )
    try:
        with signals(interrupt):
            _await_nodes(folder)
            for left in reversed(range(retries + 1)):
                status = _once(folder, config)
                if status == COMPLETED:
                    return 0
                if not left or status == STOPPED:
                    break
                if (directory / "config.toml").exists():
                    config["resume"] = True
                elif not config.get("resume") and directory.exists():
                    break  # its name is taken, and there is nothing to go on from
                wait = min(15 * 2 ** (retries - left), 120)
                print(f"Going on from the last whole round in {wait} s; {left} of {retries} retries left.", flush=True)
                time.sleep(wait)
    except Interrupted as stop:
        print(f"Stopped by {signal.Signals(stop.signum).name}.")
        _tell_resume(directory)
        return 128 + stop.signum
    _tell_resume(directory)
    return 1


def _once(folder: ServerFolder, config: Mapping[str, Value]) -> str:
    """Flower's status of one run; why it did not complete is printed."""
    console = Console()
    places = summaries(config)
    before = stamps(places)
    try:
        identity = _submit(folder, config)
        try:
            status, details = _follow(folder, identity, places[0].parent)
        except (Interrupted, ClusterError):  # nobody would follow it any more
            with signals(signal.SIG_IGN):
                _stop(folder, identity, places[0].parent)
            if read_summary(places, before)[1].get("status") != "completed":
                raise
            status, details = COMPLETED, ""  # it came to its end meanwhile
    except ClusterError as error:
        status, details = "unknown", str(error)
    directory, summary = read_summary(places, before)
    if summary:
        console.print(summary_table(summary))
    # The results may lie on another machine: Flower's word is enough then.
    if status == COMPLETED and summary.get("status", "completed") == "completed":
        print("results:", directory)
        return COMPLETED
    reason = summary.get("error") or details or "the app left no summary"
    reason = registry.named(folder, str(reason))
    console.print(f"[red]The run failed[/red] (Flower says {status}): {escape(reason)}", soft_wrap=True)
    return "finished:failed" if status == COMPLETED else status


def _submit(folder: ServerFolder, config: Mapping[str, Value]) -> str:
    """Hand a run to the SuperLink; Flower's id of it. A signal waits until that is known: nobody could stop it else."""
    caught: list[int] = []
    method = str(config.get("method", RunConfig().method))
    with app_folder(method) as app, signals(lambda signum, frame: caught.append(signum)):
        words = ["run", str(app), CONNECTION, "--run-config", toml_pairs(config), "--format", "json"]
        identity = str(commands.flwr(folder, words).show().ask(own_session=True)["run-id"])
    _note_name(folder, identity, str(config["run-name"]))
    if caught:
        _stop(folder, identity, summaries(config)[0].parent)
        raise Interrupted(caught[0])
    return identity


def names(folder: ServerFolder) -> dict[str, str]:
    """The run-name of each run, by Flower's id."""
    try:
        found: dict[str, str] = json.loads((folder.path / RUNS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _note_name(folder: ServerFolder, identity: str, name: str) -> None:
    write_atomically(folder.path / RUNS, json.dumps(names(folder) | {identity: name}, indent=1).encode())


def _await_nodes(folder: ServerFolder) -> None:
    """Wait a while for registered nodes that are not connected: they may be about to come up, or to come back."""
    deadline, told = time.monotonic() + NODES_WAIT, False
    while True:
        try:
            nodes = registry.present(folder)
        except ClusterError:
            return  # what follows says it better
        called = {identity: name for name, identity in registry.known(folder).items()}
        away = [called.get(node["node-id"], node["node-id"]) for node in nodes if node["status"] != "online"]
        if not away:
            return
        if time.monotonic() > deadline:
            print(f"{len(nodes) - len(away)} of {len(nodes)} nodes are connected; going on without {', '.join(away)}")
            return
        if not told:
            print(f"waiting up to {NODES_WAIT:g} s for {', '.join(away)}", flush=True)
            told = True
        time.sleep(POLL)


def _follow(folder: ServerFolder, identity: str, directory: Path) -> tuple[str, str]:
    """Show a run's log as it comes; its status and details at the end."""
    command = commands.flwr(folder, ["log", identity, CONNECTION, "--stream"]).show()
    stream = subprocess.Popen(command.words, env=command.environment)
    answered, told = time.monotonic(), 0.0
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                stream.wait(5 * POLL)
            try:
                run = commands.list_runs(folder, identity).ask()["runs"][0]
                answered = time.monotonic()
            except (ClusterError, IndexError) as error:  # an answer that is late does not end a run of hours
                if time.monotonic() - answered > SILENCE:
                    raise ClusterError(f"no word of the run for {SILENCE:g} s: {error}") from None
                time.sleep(POLL)
                continue
            if run["status"].startswith("finished"):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    stream.wait(5 * POLL)  # for the last lines of the log
                return run["status"], run["status-details"]
            if (
                stream.poll() is not None
            ):  # it ends with the SuperLink, and a new one would begin with the run's first line
                told = told or time.monotonic()
                if time.monotonic() - told > NEWS:
                    done = _rounds_done(directory)
                    print(f"no log any more, but the run is {run['status']}; rounds kept: {done}", flush=True)
                    told = time.monotonic()
                time.sleep(POLL)
    finally:
        if stream.poll() is None:
            stream.terminate()
            stream.wait()


def _stop(folder: ServerFolder, identity: str, directory: Path) -> None:
    """Ask the SuperLink to stop a run, and wait until its server has ended."""
    print("Stopping the run …", flush=True)
    with contextlib.suppress(ClusterError):
        commands.flwr(folder, ["stop", identity, CONNECTION, "--format", "json"]).show().ask()
    wait_until(lambda: not is_written(directory), STOPPING)


def _rounds_done(directory: Path) -> int:
    """The last round that can be gone on from, where the results are on this machine."""
    return max(Store(directory / "checkpoint" / "server").stamps(), default=0)


def _tell_resume(directory: Path) -> None:
    if _rounds_done(directory):
        print("What it has done is kept. To go on: the same command with", f"run-name={directory.name} resume=true")
