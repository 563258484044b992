"""`flwr run` with a Flower of its own, whose files, ports and processes are all gone at the end.

`flwr run` finds a local SuperLink by its port, starts one if there is none, and leaves it running;
and it exits with 0 even if the run failed. So each run gets a SuperLink of its own, and Flower is
asked how the run ended.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

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

GRACE = 15.0
"""Seconds that an interrupted run has to end; Flower itself forces the exit after 5."""

PATIENCE = 5.0
"""Seconds that other processes have to end."""

STARTS = 3
"""How often the daemon may be too slow for Flower, which gives it 15 seconds."""

SERVES = "Uvicorn running"
"""The daemon writes this to its log when it is up."""


def run(command: Sequence[str], timeout: float | None = None) -> tuple[str, str]:
    """Run a `flwr run … --stream` command to its end, with its output on this terminal, and leave
    no process behind.

    Returns
    -------
    tuple
        Flower's status of the run, `finished:completed` if it succeeded, and the details that
        Flower gives.

    Raises
    ------
    Interrupted
        By SIGINT, SIGTERM or SIGHUP; the run has been stopped.
    subprocess.TimeoutExpired
        After `timeout` seconds; the run has been stopped.
    FileNotFoundError
        If this environment has no Flower.
    """
    for start in range(1, STARTS + 1):
        if start > 1:
            print("The SuperLink was not up in Flower's 15 s: once more …", flush=True)
        # A daemon that was stopped halfway leaves files that block the next one, so every start has
        # a new home.
        with _own_home() as home:
            env = environment(home)
            code = _wait(command, env, home, timeout)
            if not code:
                return flower_status(env)
            log = home / "local-superlink" / "superlink.log"
            text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
            # The daemon makes this folder when it starts, and writes its first line seconds later.
            if SERVES in text or not log.parent.exists():
                break
    lines = ["Last lines of the SuperLink's log:", *text.splitlines()[-20:]] if text else []
    return "not started", "\n".join([f"`flwr run` ended with exit status {code}", *lines])


def environment(home: Path) -> dict[str, str]:
    """The environment of a Flower whose files, ports and processes are its own."""
    link, control = free_ports(2)
    return flower_environment(
        QUIET
        | {
            "FLWR_HOME": str(home),
            "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(link),
            "FLWR_LOCAL_CONTROL_API_PORT": str(control),
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ADDRESS": "local",  # not a Ray cluster that already runs, in TMPDIR either
            "RAY_TMPDIR": str(home),
        }
    )


@contextlib.contextmanager
def _own_home() -> Iterator[Path]:
    """A folder for FLWR_HOME. Signals raise `Interrupted` in the meantime, and at the end nothing
    runs in it any more."""
    home = Path(tempfile.mkdtemp(prefix="flwr-", dir=socket_folder()))
    words = [sys.executable, "-P", "-m", __name__, str(home)]
    silent = subprocess.DEVNULL
    watch = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=silent, stderr=silent)
    try:
        with signals(interrupt):
            watch.wait()  # it has left this command's family
            yield home
    finally:
        with signals(signal.SIG_IGN):
            end(home)
            watch.communicate()


def end(home: Path) -> None:
    """End every process of the Flower that lives in `home`, and remove the folder."""
    while alive := processes(home):  # processes may start others before they end
        stop(alive, PATIENCE)
    shutil.rmtree(home, ignore_errors=True)


def guard(home: Path) -> None:
    """Wait until the command that started this process has ended, even by SIGKILL, and end what it
    has left.

    This process leaves the command's family, so that it is not killed with it.
    """
    if not os.fork():
        os.setsid()
        sys.stdin.read()
        end(home)


def _wait(command: Sequence[str], env: Mapping[str, str], home: Path, timeout: float | None) -> int:
    """Run the command and return its exit status; stop the run first if it is interrupted or takes
    too long."""
    # In a session of its own: Ctrl-C reaches this process alone, which then ends the others in
    # order.
    with printing(command, env, start_new_session=True) as stream:
        try:
            return stream.wait(timeout)
        except (Interrupted, subprocess.TimeoutExpired):
            print("Stopping the run …", flush=True)
            if interrupt_run(home):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    stream.wait(GRACE)
            raise


def flower_status(env: Mapping[str, str], patience: float = 30.0) -> tuple[str, str]:
    """Status and details of the one run of this Flower by `flwr list`; `("unknown", reason)` if it
    has none."""
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
    """Every process of the Flower that lives in `home`, by its environment, and the descendants of
    each.

    The daemon, SuperExec and Ray start sessions of their own and outlive their parents, but they
    inherit FLWR_HOME. Ray's workers overwrite theirs, but are children of a process that does not.
    """
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get("FLWR_HOME") == str(home):
                found.update([process, *process.children(recursive=True)])
    return [process for process in found if is_alive(process)]


def interrupt_run(home: Path) -> bool:
    """Send Ctrl-C to the simulation; tell whether there is one.

    `flwr stop` stops a run too, but the simulation hears of it only at its next heartbeat, up to
    half a minute later.
    """
    found = False
    for process in processes(home):
        with contextlib.suppress(psutil.Error):
            if "flwr-simulation" in " ".join(process.cmdline()):
                process.send_signal(signal.SIGINT)
                found = True
    return found


if __name__ == "__main__":
    guard(Path(sys.argv[1]))
