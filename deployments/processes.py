"""Processes of one machine, for the commands that start programs, for simulated nodes and for the
runs of a sweep: signals, ports, waiting and the end of a process."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any

import psutil

LOOPBACK = "127.0.0.1"

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Those that end a command; its workers leave them to it."""

PR_SET_PDEATHSIG = 1

RELAY_PATIENCE = 5.0
"""Seconds for the last lines of a program that has ended."""

MAX_SOCKET_FOLDER = 20
"""Maximum length of the path of a folder for Ray's sockets."""

QUIET = {
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_TELEMETRY_ENABLED": "0",  # otherwise Flower reports each start to its authors
}
"""Environment variables of all Flower programs."""

NO_PROXIES = ("NO_PROXY", "no_proxy", "no_grpc_proxy")
"""Environment variables with the hosts that a program reaches without a proxy."""


class Interrupted(BaseException):
    """A signal to end the run; a BaseException, so that no error handler catches it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum

    def __str__(self) -> str:
        return f"Stopped by {signal.Signals(self.signum).name}."


@contextlib.contextmanager
def signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> Iterator[None]:
    """Within the block `handler` handles `SIGNALS`, except ignored ones, as under `nohup`."""
    handlers = {signum: signal.getsignal(signum) for signum in SIGNALS}
    for signum, previous in handlers.items():
        if previous is not signal.SIG_IGN:
            signal.signal(signum, handler)
    try:
        yield
    finally:
        for signum, previous in handlers.items():
            signal.signal(signum, previous)


def interrupt(signum: int, _frame: FrameType | None) -> None:
    """Handle a signal by raising `Interrupted`."""
    raise Interrupted(signum)


def follow(parent: int) -> None:
    """End this process with its parent, whatever ends that one, and leave `SIGNALS` to it."""
    for signum in SIGNALS:
        signal.signal(signum, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before
        os._exit(0)


def forked(work: Callable[[], None]) -> int:
    """A fork of this process, which does this work and ends; the number of its process.

    Raises
    ------
    OSError
        If there are too many processes.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    with warnings.catch_warnings():  # of threads: BLAS has some, which it stops for a fork
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process:
        return process
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def flower_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of Flower's programs: that of this process, and further variables."""
    # These programs find each other by PATH, and this Python environment may not be activated.
    programs = str(Path(sys.executable).parent)
    path = os.pathsep.join([programs, os.environ.get("PATH", os.defpath)])
    # Otherwise they reach a SuperLink on this machine through the proxy. gRPC ignores the first
    # variable.
    hosts = [os.environ.get(name) for name in NO_PROXIES]
    direct = ",".join(filter(None, [*dict.fromkeys(hosts), f"{LOOPBACK},localhost"]))
    return os.environ | {"PATH": path} | dict.fromkeys(NO_PROXIES, direct) | dict(variables)


@contextlib.contextmanager
def printing(
    words: Sequence[str], environment: Mapping[str, str], **options: Any
) -> Iterator["subprocess.Popen[str]"]:
    """A program; this process prints its output, unless both have the same terminal.

    So a closed or full output does not end the program.
    """
    encoding = sys.stdout.encoding or "utf-8"
    variables = dict(environment) | {"PYTHONIOENCODING": f"{encoding}:replace"}
    pipe = None if sys.stdout.isatty() else subprocess.PIPE
    program = subprocess.Popen(
        words, env=variables, stdout=pipe, text=True, encoding=encoding, errors="replace", **options
    )
    relay = threading.Thread(target=_print_all, args=(program.stdout,), daemon=True)
    relay.start()
    try:
        yield program
    finally:
        if program.poll() is not None:
            relay.join(RELAY_PATIENCE)


def _print_all(output: IO[str] | None) -> None:
    with output or contextlib.nullcontext(()) as lines:
        for line in lines:
            print(line, end="", flush=True)


def socket_folder() -> Path:
    """A folder for temporary files, with a path short enough for Ray's sockets.

    The path of a socket has at most 104 characters: Ray needs 65 of them, and the folder of a run
    14. On batch systems TMPDIR is often longer.
    """
    places = [tempfile.gettempdir(), "/tmp", os.environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm"]
    for place in places:
        is_short = 0 < len(place) <= MAX_SOCKET_FOLDER
        if is_short and os.access(place, os.W_OK | os.X_OK):
            return Path(place)
    return Path(places[0])


def free_ports(count: int) -> list[int]:
    """Different TCP ports that are currently free on the loopback interface."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind((LOOPBACK, 0))
        return [listener.getsockname()[1] for listener in sockets]


def is_open(host: str, port: int) -> bool:
    """Whether a program listens on the port."""
    try:
        with socket.create_connection((host, port), 1.0):
            return True
    except OSError:
        return False


def is_alive(process: psutil.Process) -> bool:
    """Whether a process runs and is not a zombie."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def stop(processes: Sequence[psutil.Process], patience: float) -> None:
    """Terminate processes, and kill those that still run after `patience` seconds."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, alive = psutil.wait_procs(processes, patience)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()


def wait_until(condition: Callable[[], bool], seconds: float, pause: float = 0.25) -> bool:
    """Wait for a condition, and return whether it comes true in time; it is tested once more after
    the deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


def kill(process: int) -> str:
    """End a child of this process by its number, and return how it has ended, such as SIGKILL."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    except ChildProcessError:  # this program does not keep the status of its children
        return "status unknown"
    if code < 0:
        return signal.Signals(-code).name
    return f"status {code}"
