"""`curvfed cluster run`: a run that is submitted to the SuperLink and followed to its end."""

import contextlib
import signal
import subprocess
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import typer

from curvfed.deployments.application import Debug, Pairs, all_pairs
from curvfed.deployments.arguments import Value, read_pairs
from curvfed.deployments.package_files import app_folder
from curvfed.deployments.processes import Interrupted, interrupt, printing, signals, wait_until
from curvfed.deployments.run_results import COMPLETED, ExpectedSummary, named, toml_pairs
from curvfed.extensions.cluster.commands import ClusterError, registry
from curvfed.extensions.cluster.commands.flower_commands import flwr
from curvfed.extensions.cluster.commands.folder import ServerFolder, open_folder
from curvfed.server_app.directory.run_lock import has_begun, is_written
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.config.run_config import defaults
from curvfed.tasks.amounts import amount

POLL = 1.0
"""Seconds between two queries of a run's status."""

NODES_WAIT = 20.0
"""Seconds to wait for registered nodes that are not connected."""

NEWS = 30.0
"""Seconds between two lines about the progress of a run after the end of its log."""

SILENCE = 60.0
"""Seconds that the SuperLink may stay silent."""

STOPPED = "finished:stopped"

STOPPING = 45.0
"""Seconds for a run to stop: its server learns of the stop with its next heartbeat, up to half a
minute later."""


def run(
    ctx: typer.Context,
    pairs: Pairs = None,
    retries: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="After a failure, resume from the checkpoint up to N times."
        ),
    ] = 0,
    debug: Debug = False,
) -> None:
    """Run a method and wait for its end."""
    from curvfed.extensions.cluster.commands.checks import check_started  # imports Flower

    folder = open_folder(ctx, is_changed=True)
    config = configuration(all_pairs(pairs, debug))
    check_started(folder)
    raise typer.Exit(run_to_end(folder, config, retries))


def configuration(pairs: Sequence[str]) -> dict[str, Value]:
    """Read the run config, and add the name and the folder of the results.

    Raises
    ------
    UsageError, ConfigError
        If the ServerApp would refuse it; nothing has been sent.
    """
    from curvfed.strategies.config.parse import parse  # imports torch, which no other command needs

    settings = read_pairs(pairs, defaults())
    config = parse(settings)
    if "dataset" not in settings:  # the nodes decide which data they use
        config = config.model_copy(update={"dataset": "cluster"})
    return named(settings, config)


def run_to_end(folder: ServerFolder, config: Mapping[str, Value], retries: int = 0) -> int:
    """Run to the end; after a failure, resume from the checkpoint up to `retries` times.

    Returns
    -------
    int
        0 completed, 1 failed, 128 + n stopped by signal n.

    Raises
    ------
    ConfigError
        If the results folder has a run of this name, and `resume` is not set or that run began
        with other keys; or if it cannot be made or written.
    ClusterError
        If the file with the nodes' names is damaged.
    """
    from curvfed.server_app.directory.run_name import check_name  # imports torch
    from curvfed.strategies.config.parse import parse

    config = dict(config)
    directory = ExpectedSummary(config).directory
    check_name(parse(config))  # the ServerApp refuses this too, but only after a minute
    registry.read_names(folder)  # a damaged file is refused before anything starts
    code = 1
    try:
        with signals(interrupt):
            _await_nodes(folder)
            for retry in range(retries + 1):
                status = _run_once(folder, config)
                if status == COMPLETED:
                    return 0
                if retry == retries or status == STOPPED:
                    break
                if (directory / "config.toml").exists():
                    config["resume"] = True
                elif not config.get("resume") and has_begun(directory):
                    break  # its name is in use, and it lacks a checkpoint
                wait = min(15 * 2**retry, 120)
                print(
                    f"Resuming from the last saved round in {wait} s; {retries - retry} of"
                    f" {retries} retries left.",
                    flush=True,
                )
                time.sleep(wait)
    except Interrupted as stop:
        print(stop)
        code = 128 + stop.signum
    if _rounds_done(directory):
        print(
            "Its checkpoint is saved. To continue: the same command with",
            f"run-name={directory.name} resume=true",
        )
    return code


def _await_nodes(folder: ServerFolder) -> None:
    """Wait a while for registered nodes that are not connected; they may be starting."""
    with contextlib.suppress(ClusterError):  # the next command reports the same error
        offline = _offline_nodes(folder)
        if not offline:
            return
        print(f"waiting up to {NODES_WAIT:g} s for {', '.join(offline)}", flush=True)
        if not wait_until(lambda: not _offline_nodes(folder), NODES_WAIT, POLL):
            offline = _offline_nodes(folder)
            number = len(registry.heard_nodes(folder))
            print(
                f"{number - len(offline)} of {amount(number, 'node')} connected; continuing without"
                f" {', '.join(offline)}"
            )


def _offline_nodes(folder: ServerFolder) -> list[str]:
    """The names of registered nodes that are not connected, with those that only seem so after a
    restart of the SuperLink."""
    names = []
    for node in registry.heard_nodes(folder):
        if node["status"] != "online":
            state = f" ({registry.UNHEARD})" if "unheard" in node else ""
            names.append(f"{node['name'] or node['node-id']}{state}")
    return names


def _run_once(folder: ServerFolder, config: Mapping[str, Value]) -> str:
    """Run once, print the result, and return Flower's status of the run."""
    expected = ExpectedSummary(config)
    try:
        identity = _submit(folder, config)
        try:
            status, details = _follow(
                folder, identity, expected.directory, lambda: expected.read()[1]
            )
        except (Interrupted, ClusterError):  # nobody follows the run any more
            with signals(signal.SIG_IGN):
                _stop(folder, identity, expected.directory)
            if not expected.read()[1].get("status", "").startswith("completed"):
                raise
            status = COMPLETED  # in the meantime
            details = ""
    except ClusterError as error:
        status = "unknown"
        details = str(error)
    # The results may lie on another machine.
    if expected.report(
        status, details, is_here=False, wording=lambda reason: registry.add_names(folder, reason)
    ):
        return COMPLETED
    return "finished:failed" if status == COMPLETED else status


def _submit(folder: ServerFolder, config: Mapping[str, Value]) -> str:
    """Submit a run to the SuperLink, and return Flower's id of the run.

    A signal waits for the id, which is needed to stop the run.
    """
    caught: list[int] = []
    method = str(config.get("method", RunKeys().method))
    with app_folder(method) as app, signals(lambda signum, frame: caught.append(signum)):
        command = flwr(
            folder, "run", app, options=["--run-config", toml_pairs(config), "--format", "json"]
        )
        print(f"bundle {bundle_digest(app)}; a node runs its own code unless its policy names this")
        identity = str(command.show().ask()["run-id"])
    directory = ExpectedSummary(config).directory
    try:
        names = registry.read_names(folder, registry.RUNS)
        registry.write_names(folder, names | {identity: str(directory)}, registry.RUNS)
        kind = registry.RESUMED if config.get("resume") else registry.RUN
        registry.audit(folder, kind, str(config["run-name"]), method=method, id=identity)
    except OSError as error:  # a full disk; nobody would follow the run
        _stop(folder, identity, directory)
        raise ClusterError(
            f"the run was stopped, for it cannot be recorded in {folder.path}: {error.strerror}",
            key="unwritable",
        ) from None
    if caught:
        _stop(folder, identity, directory)
        raise Interrupted(caught[0])
    return identity


def _follow(
    folder: ServerFolder, identity: str, directory: Path, ended: Callable[[], object]
) -> tuple[str, str]:
    """Print the log of a run until its end, and return its status and details. `ended` is whether
    the run has a summary."""
    log = flwr(folder, "log", identity, options=["--stream"]).show()
    ask = flwr(folder, "list", options=["--run-id", identity, "--format", "json"]).ask
    answered_at = time.monotonic()
    printed_at = answered_at
    was_written = False
    with printing(log.words, log.environment) as stream:
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    stream.wait(5 * POLL)
                    time.sleep(POLL)  # the log has ended, so there was no wait
                try:
                    run = ask()["runs"][0]
                    answered_at = time.monotonic()
                # A late answer does not end a run of hours.
                except (ClusterError, IndexError) as error:
                    if time.monotonic() - answered_at > SILENCE:
                        raise ClusterError(
                            f"no news of the run for {SILENCE:g} s: {error}", key="no-answer"
                        ) from None
                    continue
                if run["status"].startswith("finished"):
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        stream.wait(5 * POLL)  # for the last lines of the log
                    return run["status"], run["status-details"]
                # Flower notices a killed server only after more than a minute.
                if was_written and not is_written(directory) and not ended():
                    _stop(folder, identity, directory)
                    return "finished:failed", "its ServerApp was killed"
                was_written = is_written(directory)
                # The log ends with the SuperLink; a new one would repeat it from the first line.
                if stream.poll() is None:
                    printed_at = time.monotonic()
                elif time.monotonic() - printed_at > NEWS:
                    print(
                        f"the log has ended, but the run is {run['status']}; saved rounds:"
                        f" {_rounds_done(directory)}",
                        flush=True,
                    )
                    printed_at = time.monotonic()
        finally:
            stream.terminate()
            # A signal inside of `poll` can leave Popen's lock taken; only a wait with a limit ends.
            with contextlib.suppress(subprocess.TimeoutExpired):
                stream.wait(STOPPING)


def _stop(folder: ServerFolder, identity: str, directory: Path) -> None:
    """Let the SuperLink stop a run, and wait until the run's server has ended."""
    print("Stopping the run …", flush=True)
    with contextlib.suppress(ClusterError):
        flwr(folder, "stop", identity).show().ask()
    wait_until(lambda: not is_written(directory), STOPPING)


def _rounds_done(directory: Path) -> int:
    """The last saved round of the run; 0 if none is on this machine."""
    from curvfed.strategies.wire.store import Store  # imports NumPy

    return max(Store(directory / "checkpoint" / "server").stamps(), default=0)


def bundle_digest(folder: Path) -> str:
    """The digest of Flower's bundle of an app's folder, as a node's policy names it."""
    from flwr.cli.build import build_fab_from_disk

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Flower's patterns of files
        bundle = build_fab_from_disk(folder)
    return f"sha256:{sha256(bundle).hexdigest()}"
