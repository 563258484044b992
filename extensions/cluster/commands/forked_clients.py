"""The process of each message: it runs the code that the node chose, and starts without imports.

A SuperNode starts the program `flwr-clientapp` for each message. Here a program of that name comes
first on the SuperNode's PATH. It runs Flower's own, guarded by `node_code`: code from the server is
not imported unless the node's policy allows it.

The imports of Flower and torch take seconds. So the program sends its arguments to a parent process
that has imported both, and a fork of the parent does the work. The app is not imported before,
since the policy may allow that of the run.

    python -P extensions/cluster/commands/forked_clients.py flower-supernode ARGUMENTS …

Without the parent, or with `--cold` before `flower-supernode`, each program does its own imports.
"""

import contextlib
import importlib
import json
import math
import os
import shlex
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NoReturn

import psutil

PROGRAM = "flwr-clientapp"
SERVE = "--serve"
COLD = "--cold"
CLIENT = "--client"
FOLDER = "curvfed-warm-"
HEAVY = (
    "torch",
    "scipy.sparse",
    "safetensors.numpy",
    "pydantic",
    "psutil",
    "cryptography.hazmat.primitives.asymmetric.x25519",
)
"""Modules of other packages that each client imports."""

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""Otherwise the import of NumPy's linear algebra starts threads; a fork has only the thread that
forked."""

ORPHANED = 30.0
"""Seconds that a client may run after the SuperNode has begun the next message.

When the SuperNode gives up a message, because the SuperLink has gone or the run was stopped, its
client waits an hour for the rest of the message. If the client is killed within that hour, an error
replaces the reply to the next message, and from then on the node is one message behind.
"""

_CLIENT = """
import json, os, socket, sys
place, interpreter, module, *arguments = sys.argv[1:]
try:
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(10)
        line.connect(place)
        line.sendall(json.dumps(arguments).encode() + b"\\n")
        ready = line.recv(1)
except OSError:
    ready = b""
if not ready:
    os.execv(interpreter, [interpreter, "-P", module, "--client", *arguments])
"""


def become_supernode(words: Sequence[str], is_cold: bool = False) -> NoReturn:
    """Put the guarded program on PATH, start the parent of its forks unless `is_cold`, and become
    the SuperNode."""
    _remove_abandoned()
    # Readable only by this user, and short, since it is the path of a socket.
    folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-"))
    client = folder / "client.py"
    client.write_text(_CLIENT, encoding="utf-8")
    line = str(folder / "line")
    command = shlex.join(
        [sys.executable, "-I", "-S", str(client), line, sys.executable, str(Path(__file__))]
    )
    shim = folder / PROGRAM
    shim.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    shim.chmod(0o700)
    if not is_cold:
        # Started by its path: as a module it imports this `curvfed`, but the policy may allow that
        # of the run.
        serving = [sys.executable, "-P", __file__, SERVE, str(folder), str(os.getpid())]
        subprocess.Popen(serving, stdin=subprocess.DEVNULL, env=os.environ | ONE_THREAD)
    os.environ["PATH"] = os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)])
    os.execvp(words[0], list(words))


def _remove_abandoned() -> None:
    """Remove the folders of SuperNodes that were killed together with their parents."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER}*-*"):
        pid = folder.name.removeprefix(FOLDER).partition("-")[0]
        with contextlib.suppress(OSError, ValueError):
            if folder.stat().st_uid == os.getuid() and not psutil.pid_exists(int(pid)):
                shutil.rmtree(folder, ignore_errors=True)


def serve(folder: Path, parent: int) -> None:
    """Import all modules, then fork for each program that connects, until the SuperNode has
    ended."""
    try:
        for module in HEAVY:
            importlib.import_module(module)
        program = _flower_program()
        # Ctrl-C is for the SuperNode, with which this process ends.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with _Parent(str(folder / "line"), program) as server:
            while os.getppid() == parent:
                server.handle_request()
                server.end_orphans()
            # Nobody takes their replies, for which this process would wait.
            server.end_clients()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _flower_program() -> Callable[[], object]:
    """Flower's own program."""
    (program,) = entry_points(group="console_scripts", name=PROGRAM)
    return program.load()


def run_guarded(run: Callable[[], object], arguments: Sequence[str]) -> None:
    """Do the work of Flower's program `run`, with code that the node chose."""
    from curvfed.extensions.cluster.commands.node_code import guard_program

    guard_program()
    sys.argv = [PROGRAM, *arguments]
    run()


class _Parent(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """Forks for each program that connects. A program without an answer runs by itself."""

    timeout = 1.0
    request_queue_size = 64
    max_children = 100_000  # never wait for the end of a child

    def __init__(self, place: str, run: Callable[[], object]) -> None:
        super().__init__(place, _Client)
        self.run = run
        self._deadlines: dict[int, float] = {}

    def process_request(self, request: Any, client_address: Any) -> None:
        # A SuperNode handles one message at a time: it does not wait for clients of earlier ones.
        deadline = time.monotonic() + ORPHANED
        self._deadlines = {
            pid: self._deadlines.get(pid, deadline) for pid in self.active_children or ()
        }
        super().process_request(request, client_address)

    def end_clients(self) -> None:
        """Terminate all clients."""
        self.collect_children()
        for pid in self.active_children or ():
            os.kill(pid, signal.SIGTERM)

    def end_orphans(self) -> None:
        """Terminate the clients after their deadlines, once each."""
        self.collect_children()
        for pid, deadline in self._deadlines.items():
            if pid in (self.active_children or ()) and time.monotonic() > deadline:
                os.kill(pid, signal.SIGTERM)
                self._deadlines[pid] = math.inf


class _Client(socketserver.StreamRequestHandler):
    """The fork: it confirms to the program that it has begun, and then does the program's work."""

    timeout = 5.0
    server: _Parent

    def handle(self) -> None:
        line = self.rfile.readline()
        if not line:  # the program has ended
            return
        self.wfile.write(b"1")
        self.finish()
        self.request.close()
        self.server.socket.close()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            run_guarded(self.server.run, json.loads(line))
        finally:
            sys.stdout.flush()  # the server ends the fork by os._exit, which does not


if __name__ == "__main__":
    if sys.argv[1] == SERVE:
        serve(Path(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1] == CLIENT:
        run_guarded(_flower_program(), sys.argv[2:])
    elif sys.argv[1] == COLD:
        become_supernode(sys.argv[2:], is_cold=True)
    else:
        become_supernode(sys.argv[1:])
