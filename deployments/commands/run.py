"""`curvfed simulate`, a run without Flower's programs, and `curvfed run`, a run by `flwr run`.

`flwr run` finds a local SuperLink by its port, starts one if necessary, leaves it running, and
exits with 0 even if the run failed. So each run has a SuperLink of its own, and `flwr list` gives
its result.
"""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import psutil
import typer
from rich.text import Text

from curvfed.deployments import patient_flower, patient_flwr
from curvfed.deployments.application import Address, Debug, Pairs, all_pairs
from curvfed.deployments.arguments import NUM_SUPERNODES, Value, read_request
from curvfed.deployments.errors import MachineError
from curvfed.deployments.package_files import app_folder
from curvfed.deployments.processes import (
    QUIET,
    Interrupted,
    flower_environment,
    free_ports,
    interrupt,
    is_alive,
    printing,
    signals,
    socket_folder,
    stop,
)
from curvfed.deployments.resources import Resources, check_socket_folder
from curvfed.deployments.run_results import ExpectedSummary, named, toml_pairs
from curvfed.deployments.start import INTERRUPTED, collector_off
from curvfed.deployments.terminal import open_console, summary_table


def simulate(pairs: Pairs = None, debug: Debug = False) -> None:
    """Run on this machine, without SuperLink and Ray: same code, same results, faster start.

    curvfed simulate method=flatland dataset=cora data-dir=~/data num-supernodes=10 seed=1

    Exit status: 0 completed, 1 failed, 2 wrong usage, such as missing data (nothing
    is started, and no folder made), 130 interrupted by Ctrl-C or SIGTERM (the last
    checkpoint is saved, see the key resume).
    """
    console = open_console()
    with collector_off():
        request = read_request(all_pairs(pairs, debug))
        # These imports take seconds, and a wrong key is reported at once.
        from curvfed.deployments.inprocess import simulated_nodes
        from curvfed.deployments.preflight import preflight
        from curvfed.deployments.simulation import run_simulation
        from curvfed.server_app.app import reason
        from curvfed.server_app.directory.run_files import RunFiles

        preflight(request)
    try:
        with signals(signal.default_int_handler):  # batch systems end a job by SIGTERM
            folder = run_simulation(request.config, simulated_nodes(request.num_supernodes))
    except KeyboardInterrupt:
        console.print(
            "Interrupted. The last checkpoint is saved; continue with resume=true and run-name, the"
            " last part of the run directory above."
        )
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        console.print(
            Text.assemble(("The run failed:", "red"), f" {reason(error)}"), soft_wrap=True
        )
        raise typer.Exit(1) from None
    files = RunFiles(folder)
    console.print(summary_table(files.summary, files.fine_tuned))
    page = folder / "report.html"
    print("report:", page if page.exists() else f"none; {folder} has the figures")


FAILED = 1
OUT_OF_TIME = 124


def run(
    pairs: Pairs = None,
    num_supernodes: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of clients.")
    ] = NUM_SUPERNODES,
    cpus: Annotated[
        int,
        typer.Option(
            min=1, metavar="C", help="CPUs per client; their number caps how many train at once."
        ),
    ] = 1,
    gpus: Annotated[
        float, typer.Option(min=0, metavar="F", help="GPUs per client; a fraction shares one.")
    ] = 0.0,
    address: Address = "",
    timeout: Annotated[
        float | None, typer.Option(metavar="S", help="Stop the run after S seconds.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Run through Flower: with a SuperLink of its own, clients in parallel by Ray, and all programs
    stopped at the end.

    curvfed run flatland data-dir=~/data num-supernodes=10 --gpus 0.25

    Exit status: 0 completed, 1 failed, 2 wrong usage or missing data, 124 out of
    time, 128 + n stopped by signal n (130 for Ctrl-C).
    """
    Resources(cpus, gpus, address)
    if not address:
        check_socket_folder()
    request = read_request([f"num-supernodes={num_supernodes}", *all_pairs(pairs, debug)])
    from curvfed.deployments.preflight import preflight  # its import takes seconds

    preflight(request)
    folder = None
    if address:
        folder = request.config.results_path
        folder.mkdir(parents=True, exist_ok=True)
    config = named(request.settings, request.config)
    federation: dict[str, Value] = {
        "num-supernodes": request.num_supernodes,
        "client-resources-num-cpus": cpus,
    }
    if gpus:
        federation["client-resources-num-gpus"] = gpus
    expected = ExpectedSummary(config)
    try:
        with app_folder(request.config.method) as app:
            command = ["flwr", "run", str(app), "--stream", "--run-config", toml_pairs(config)]
            command += ["--federation-config", toml_pairs(federation)]
            print("FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1", shlex.join(command), flush=True)
            status, details = run_isolated(command, timeout, address, folder)
    except Interrupted as stop:
        print(stop)
        code = 128 + stop.signum
    except FileNotFoundError as error:
        raise MachineError(
            f"Flower is not installed beside {sys.executable}: {error}", key="no-flower"
        ) from None
    except subprocess.TimeoutExpired:
        print(f"Stopped: not done after {timeout:g} s.")
        code = OUT_OF_TIME
    else:
        is_completed = expected.report(status, details)
        if not (is_completed or expected.read()[1]):
            print("`curvfed simulate` with the same keys needs neither SuperLink nor Ray.")
        raise typer.Exit(0 if is_completed else FAILED)
    if (expected.directory / "checkpoint" / "server").exists():
        name = expected.directory.name
        print(
            f"Its last checkpoint is saved. To continue: the same command with run-name={name}"
            " resume=true"
        )
    raise typer.Exit(code)


GRACE = 15.0
"""Seconds for an interrupted run to end; Flower itself forces the exit after 5."""

PATIENCE = 5.0
"""Seconds for other processes to end."""

STARTS = 3
"""Attempts to start a daemon that ends at once, as on a port that was taken meanwhile; one that
takes longer than `patient_flwr` waits is not started again."""

SLOW_PROGRAMS = ("flower-superlink", patient_flower.SIMULATION)
"""Flower's programs that get more time to start other processes."""

SERVES = "Uvicorn running"
"""The daemon writes this to its log when it is up."""


def run_isolated(
    command: Sequence[str],
    timeout: float | None = None,
    address: str = "",
    folder: Path | None = None,
) -> tuple[str, str]:
    """Run a `flwr run … --stream` command to its end, with its output on this terminal, and end all
    of its processes.

    Parameters
    ----------
    command : sequence of str
    timeout : float, optional
        In seconds.
    address : str
        The address of a running Ray cluster; empty for a Ray of its own on this machine.
    folder : Path, optional
        The folder for temporary files, which the machines of a Ray cluster must share, because the
        app is there. Default: one with a path short enough for Ray's sockets.

    Returns
    -------
    tuple
        Flower's status of the run, `finished:completed` if it succeeded, and Flower's details.

    Raises
    ------
    Interrupted
        By SIGINT, SIGTERM or SIGHUP; the run is stopped.
    subprocess.TimeoutExpired
        After `timeout` seconds; the run is stopped.
    FileNotFoundError
        If this environment lacks Flower.
    """
    for start in range(1, STARTS + 1):
        if start > 1:
            print("The SuperLink did not start: once more …", flush=True)
        # Files of a daemon that was stopped halfway block the next one, so each start has a new
        # home.
        with _own_home(folder or socket_folder()) as home:
            env = environment(home, address)
            begun = time.monotonic()
            code = _wait(command, env, home, timeout)
            is_late = time.monotonic() - begun >= patient_flwr.START_TIME
            if not code:
                return flower_status(env)
            log = home / "local-superlink" / "superlink.log"
            text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
            # The daemon makes this folder at its start, and writes its first line seconds later.
            if is_late or SERVES in text or not log.parent.exists():
                break
    lines = ["Last lines of the SuperLink's log:", *text.splitlines()[-20:]] if text else []
    return "not started", "\n".join([f"`flwr run` ended with exit status {code}", *lines])


def environment(home: Path, address: str = "") -> dict[str, str]:
    """The environment of a Flower with files, ports and processes of its own, which have more time
    to start, and with the Ray cluster at the address or a Ray of its own; writes programs into
    `home`."""
    link, control = free_ports(2)
    variables = QUIET | {
        "FLWR_HOME": str(home),
        "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(link),
        "FLWR_LOCAL_CONTROL_API_PORT": str(control),
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_raylet_start_wait_time_s": f"{patient_flower.RAY_TIME:.0f}",
        "RAY_enable_metrics_collection": "0",  # nobody reads them, and workers crash in them
        "RAY_ADDRESS": address or "local",  # not a cluster that TMPDIR names
    }
    if not address:
        variables["RAY_TMPDIR"] = str(home)
    environment = flower_environment(variables)
    # Flower finds its programs by PATH; a folder that forbids programs is passed over there.
    programs = home / "programs"
    programs.mkdir(parents=True, exist_ok=True)
    for name in SLOW_PROGRAMS:
        words = [sys.executable, "-P", patient_flower.__file__, name]
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        program.chmod(0o700)
    return environment | {"PATH": f"{programs}{os.pathsep}{environment['PATH']}"}


@contextlib.contextmanager
def _own_home(folder: Path) -> Iterator[Path]:
    """A folder for FLWR_HOME. Within the block signals raise `Interrupted`; at the end all
    processes of the folder are ended."""
    home = Path(tempfile.mkdtemp(prefix="flwr-", dir=folder))
    words = [sys.executable, "-P", "-m", __name__, str(home)]
    silent = subprocess.DEVNULL
    guard_process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=silent, stderr=silent)
    try:
        with signals(interrupt):
            guard_process.wait()  # until it has left this command's family
            yield home
    finally:
        with signals(signal.SIG_IGN):
            end(home)
            guard_process.communicate()


def end(home: Path) -> None:
    """End all processes of the Flower in `home`, and remove the folder."""
    while alive := processes(home):  # processes can start others before they end
        stop(alive, PATIENCE)
    shutil.rmtree(home, ignore_errors=True)


def guard(home: Path) -> None:
    """Wait until the command that started this process has ended, even by SIGKILL, and end its
    remaining processes.

    This process leaves the command's family, so that it is not killed with it.
    """
    if not os.fork():
        os.setsid()
        sys.stdin.read()
        end(home)


def _wait(command: Sequence[str], env: Mapping[str, str], home: Path, timeout: float | None) -> int:
    """Run the command and return its exit status; stop the run if it is interrupted or takes too
    long."""
    # In a session of its own: Ctrl-C reaches only this process, which then ends the others in
    # order.
    with printing(_patient(command, env), env, start_new_session=True) as stream:
        try:
            return stream.wait(timeout)
        except (Interrupted, subprocess.TimeoutExpired):
            print("Stopping the run …", flush=True)
            if interrupt_run(home):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    stream.wait(GRACE)
            raise


def _patient(command: Sequence[str], env: Mapping[str, str]) -> Sequence[str]:
    """A command of `flwr` that waits longer for the SuperLink; as it is if its program is no script
    of Python."""
    program = shutil.which(command[0], path=env["PATH"])
    if program is None:
        return command
    with open(program, "rb") as file:
        is_python = b"python" in file.readline()
    if not is_python:
        return command
    return [sys.executable, "-P", patient_flwr.__file__, program, *command[1:]]


def flower_status(env: Mapping[str, str], patience: float = 30.0) -> tuple[str, str]:
    """Status and details of this Flower's single run, by `flwr list`; `("unknown", reason)` without
    a run."""
    deadline = time.monotonic() + patience
    while True:
        answer = subprocess.run(
            ["flwr", "list", "--format", "json"], env=env, capture_output=True, text=True
        )
        try:
            run = json.loads(answer.stdout)["runs"][0]
        except (ValueError, LookupError):
            return "unknown", (answer.stderr or answer.stdout).strip()
        if run["status"].startswith("finished") or time.monotonic() > deadline:
            return run["status"], run["status-details"]
        time.sleep(0.5)


def processes(home: Path) -> list[psutil.Process]:
    """The processes of the Flower in `home`, recognised by their environment, and their
    descendants.

    The daemon, SuperExec and Ray start new sessions and outlive their parents, but they inherit
    FLWR_HOME. Ray's workers overwrite theirs, but their parents do not.
    """
    family: set[psutil.Process] = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get("FLWR_HOME") == str(home):
                family.update([process, *process.children(recursive=True)])
    return [process for process in family if is_alive(process)]


def interrupt_run(home: Path) -> bool:
    """Send Ctrl-C to the simulation, and return whether there is one.

    With `flwr stop` the simulation stops only at its next heartbeat, up to half a minute later.
    """
    was_sent = False
    for process in processes(home):
        with contextlib.suppress(psutil.Error):
            if "flwr-simulation" in " ".join(process.cmdline()):
                process.send_signal(signal.SIGINT)
                was_sent = True
    return was_sent


if __name__ == "__main__":
    guard(Path(sys.argv[1]))
