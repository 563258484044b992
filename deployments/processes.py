"""Signals, processes, ports and waiting, for every command that starts programs."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any

import psutil

LOOPBACK = "127.0.0.1"

RELAY_PATIENCE = 5.0
"""Seconds for the last lines of a program that has ended."""

SOCKET_ROOM = 20
"""Most characters of the path of a folder in which Ray's sockets can lie."""

QUIET = {
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_TELEMETRY_ENABLED": "0",  # Flower reports every start to its makers otherwise
}
"""Environment variables of every Flower program."""

NO_PROXIES = ("NO_PROXY", "no_proxy", "no_grpc_proxy")
"""Environment variables with the hosts that a program asks without a proxy."""


class Interrupted(BaseException):
    """A signal asked the run to end; a BaseException, so that no error handler swallows it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum

    def __str__(self) -> str:
        return f"Stopped by {signal.Signals(self.signum).name}."


@contextlib.contextmanager
def signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> Iterator[None]:
    """Let `handler` take the signals that ask a process to end, except those that are ignored, as
    under `nohup`."""
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


def flower_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """This process's environment and further variables, as Flower's programs need them."""
    # These programs look for one another on PATH, and this Python environment need not be the
    # activated one.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    # Behind a proxy they would ask the proxy for the SuperLink on this machine. gRPC does not read
    # the first of these.
    hosts = [os.environ.get(name) for name in NO_PROXIES]
    direct = ",".join(filter(None, [*dict.fromkeys(hosts), f"{LOOPBACK},localhost"]))
    return os.environ | {"PATH": path} | dict.fromkeys(NO_PROXIES, direct) | dict(variables)


@contextlib.contextmanager
def printing(
    words: Sequence[str], environment: Mapping[str, str], **options: Any
) -> Iterator["subprocess.Popen[str]"]:
    """A program whose output this process prints, unless both have the same terminal.

    The program then never sees that the output is closed or full, by which it would end.
    """
    encoding = sys.stdout.encoding or "utf-8"
    said = dict(environment) | {"PYTHONIOENCODING": f"{encoding}:replace"}
    pipe = None if sys.stdout.isatty() else subprocess.PIPE
    program = subprocess.Popen(
        words, env=said, stdout=pipe, text=True, encoding=encoding, errors="replace", **options
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
    """A folder for temporary files whose path leaves room for the names of Ray's sockets.

    The path of a socket has at most 104 characters, of which Ray needs 65, and a folder of a run's
    own 14. On batch systems TMPDIR is often longer.
    """
    places = [tempfile.gettempdir(), "/tmp", os.environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm"]
    able = (
        place
        for place in places
        if 0 < len(place) <= SOCKET_ROOM and os.access(place, os.W_OK | os.X_OK)
    )
    return Path(next(able, places[0]))


def free_ports(count: int) -> list[int]:
    """Different TCP ports that are free on the loopback interface at the moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [each.getsockname()[1] for each in sockets]


def is_alive(process: psutil.Process) -> bool:
    """Whether a process still runs; a zombie, which has ended and for which nobody has waited, does
    not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def stop(processes: Sequence[psutil.Process], patience: float) -> None:
    """Ask processes to end, and kill those that have not ended after `patience` seconds."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, alive = psutil.wait_procs(processes, patience)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()


def wait_until(condition: Callable[[], bool], seconds: float, pause: float = 0.25) -> bool:
    """Whether a condition comes true in time; it is tested at least once, and once after the
    deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True
