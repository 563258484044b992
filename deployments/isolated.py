"""A Flower of one's own: its files, its ports, its processes, and an end to all of them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

import psutil

GRACE = 15.0  # seconds an interrupted run has to end; Flower itself forces the exit after 5

STARTS = 3
"""How often the daemon may be too slow for Flower, which gives it 15 seconds."""

SERVES = "Uvicorn running"
"""What the daemon's log says once it is up."""


class Interrupted(BaseException):
    """A signal asked for the end of the run; a BaseException, so that no handler of errors swallows it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


def environment(home: Path) -> dict[str, str]:
    """The environment of a Flower whose files, ports and processes are its own."""
    link, control = free_ports(2)
    loopback = "127.0.0.1,localhost"
    env = os.environ | {
        "FLWR_HOME": str(home),
        "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(link),
        "FLWR_LOCAL_CONTROL_API_PORT": str(control),
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
        "RAY_USAGE_STATS_ENABLED": "0",
        # `flwr run` looks `flower-superlink` up on PATH, and this environment need not be the activated one.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        # Behind a proxy the CLI would ask the proxy for the SuperLink on this machine.
        "NO_PROXY": ",".join(filter(None, [os.environ.get("NO_PROXY") or os.environ.get("no_proxy"), loopback])),
    }
    env["no_proxy"] = env["NO_PROXY"]
    env.pop("RAY_ADDRESS", None)  # would send the clients to a Ray cluster that runs already
    # Ray keeps sockets in its folder, and the path of a socket has at most 104 characters, of which Ray needs 65.
    if len(str(home)) < 35:
        env["RAY_TMPDIR"] = str(home)
    return env


def free_ports(count: int) -> list[int]:
    """Different TCP ports that are free on the loopback interface now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def processes(home: Path) -> list[psutil.Process]:
    """Every process of the Flower that lives in `home`, by its environment, and the descendants of each.

    The daemon, SuperExec and Ray put themselves into sessions of their own and outlive their parents, but they inherit
    FLWR_HOME; Ray's workers overwrite theirs, but are children of one that does not.
    """
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get("FLWR_HOME") == str(home):
                found.update([process, *process.children(recursive=True)])
    return [process for process in found if _alive(process)]


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def stop_processes(home: Path, patience: float = 5.0) -> None:
    """Terminate what runs in `home`, kill what is left after `patience` seconds, and what was started meanwhile."""
    deadline = time.monotonic() + patience
    asked: set[psutil.Process] = set()
    while alive := processes(home):
        late = time.monotonic() > deadline
        for process in alive:
            with contextlib.suppress(psutil.Error):
                if late:
                    process.kill()
                elif process not in asked:
                    process.terminate()
        asked.update(alive)
        time.sleep(0.1)


def interrupt_run(home: Path) -> bool:
    """Ask the simulation to end, as Ctrl-C in a terminal of its own would; tell whether there is one.

    `flwr stop` does the same, but the simulation hears of it only at its next heartbeat, up to half a minute later.
    """
    found = False
    for process in processes(home):
        with contextlib.suppress(psutil.Error):
            if "flwr-simulation" in " ".join(process.cmdline()):
                process.send_signal(signal.SIGINT)
                found = True
    return found


def flower_status(env: Mapping[str, str], patience: float = 30.0) -> tuple[str, str]:
    """Status and details of the one run of this Flower by `flwr list`; `("unknown", reason)` if it has none."""
    deadline = time.monotonic() + patience
    while True:
        answer = subprocess.run(["flwr", "list", "--format", "json"], env=env, capture_output=True, text=True)
        try:
            run = json.loads(answer.stdout)["runs"][0]
        except (ValueError, LookupError):
            return "unknown", (answer.stderr or answer.stdout).strip()
        if run["status"].startswith("finished") or time.monotonic() > deadline:
            return run["status"], run["status-details"]
        time.sleep(0.5)


@contextlib.contextmanager
def signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> Iterator[None]:
    """Let `handler` take the signals that ask a process to end, less those that are ignored (as under `nohup`)."""
    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.getsignal(each) for each in ends}
    for each in ends:
        if before[each] is not signal.SIG_IGN:
            signal.signal(each, handler)
    try:
        yield
    finally:
        for each in ends:
            signal.signal(each, before[each])


def interrupt(signum: int, _frame: FrameType | None) -> None:
    """Handle a signal by raising `Interrupted`."""
    raise Interrupted(signum)


def run(command: Sequence[str], timeout: float | None = None) -> tuple[str, str]:
    """Run a `flwr run … --stream` command to its end, with its output on this terminal, and leave no process behind.

    Returns
    -------
    tuple
        Flower's status of the run, `finished:completed` where it went well, and the details it gives.

    Raises
    ------
    Interrupted
        By SIGINT, SIGTERM or SIGHUP; the run has been stopped.
    subprocess.TimeoutExpired
        After `timeout` seconds; the run has been stopped.
    FileNotFoundError
        If this environment has no Flower.
    """
    for left in reversed(range(STARTS)):
        found = _attempt(command, timeout, left > 0)
        if found is not None:
            return found
        print("The SuperLink was not up in Flower's 15 s: once more …", flush=True)
    raise AssertionError("the last attempt has an outcome")


def _attempt(command: Sequence[str], timeout: float | None, may_repeat: bool) -> tuple[str, str] | None:
    """As `run`, in a home of its own, for a daemon that was stopped halfway leaves files that stand in the next one's way;
    None where it may be repeated because the daemon was too slow."""
    home = Path(tempfile.mkdtemp(prefix="flwr-"))
    try:
        with signals(interrupt):
            env = environment(home)
            code = _stream(command, env, home, timeout)
            if code and may_repeat and _is_too_slow(home):
                return None
            if code:
                return "not started", f"`flwr run` ended with exit status {code}\n{_superlink_log(home)}".strip()
            return flower_status(env)
    finally:
        with signals(signal.SIG_IGN):
            stop_processes(home)
            shutil.rmtree(home, ignore_errors=True)


def _stream(command: Sequence[str], env: Mapping[str, str], home: Path, timeout: float | None) -> int:
    """Exit status of the command; where it is interrupted or takes too long, the run is stopped first."""
    # A session of its own: Ctrl-C reaches this process alone, which then ends the rest in order.
    stream = subprocess.Popen(command, env=env, start_new_session=True)
    try:
        return stream.wait(timeout)
    except (Interrupted, subprocess.TimeoutExpired):
        print("Stopping the run …", flush=True)
        if interrupt_run(home):
            with contextlib.suppress(subprocess.TimeoutExpired):
                stream.wait(GRACE)
        raise


def _is_too_slow(home: Path) -> bool:
    """Whether the daemon was started and did not get to the point where it serves: a busy machine, and no run."""
    if not _log(home).exists():
        return _log(home).parent.exists()  # it takes seconds before it writes a line
    return SERVES not in _log(home).read_text(encoding="utf-8", errors="replace")


def _log(home: Path) -> Path:
    return home / "local-superlink" / "superlink.log"


def _superlink_log(home: Path, lines: int = 20) -> str:
    """Return the last lines of the daemon's log, which goes with `home`."""
    with contextlib.suppress(OSError):
        text = _log(home).read_text(encoding="utf-8", errors="replace")
        return "\n".join(["Last lines of the SuperLink's log:", *text.splitlines()[-lines:]])
    return ""
