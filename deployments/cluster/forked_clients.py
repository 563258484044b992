"""A process per message without its start-up: a parent process with all imports is forked.

A SuperNode starts the program `flwr-clientapp` for each message, and the imports of Flower and
torch take seconds. Here a program of that name comes first on the SuperNode's PATH and sends its
arguments to a parent process that has imported both. A fork of the parent then runs Flower's own
code of the program. The app itself is not imported before, since it comes with the run.

    python -P deployments/cluster/forked_clients.py flower-supernode ARGUMENTS …

Without the parent, Flower's program runs as usual.
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
place, program, *arguments = sys.argv[1:]
try:
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(10)
        line.connect(place)
        line.sendall(json.dumps(arguments).encode() + b"\\n")
        ready = line.recv(1)
except OSError:
    ready = b""
if not ready:
    os.execv(program, [program, *arguments])
"""


def become_supernode(words: Sequence[str]) -> NoReturn:
    """Start the parent of the forks as a child of this process, and become the SuperNode."""
    _remove_abandoned()
    # Readable only by this user, and short, since it is the path of a socket.
    folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-"))
    real = Path(sys.executable).parent / PROGRAM
    client = folder / "client.py"
    client.write_text(_CLIENT, encoding="utf-8")
    command = shlex.join([sys.executable, "-I", "-S", str(client), str(folder / "line"), str(real)])
    shim = folder / PROGRAM
    shim.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    shim.chmod(0o700)
    # Started by its path: as a module it imports this `curvfed`, but each run has its own.
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
        (program,) = entry_points(group="console_scripts", name=PROGRAM)
        # Ctrl-C is for the SuperNode, with which this process ends.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with _Parent(str(folder / "line"), program.load()) as server:
            while os.getppid() == parent:
                server.handle_request()
                server.end_orphans()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
        sys.argv = [PROGRAM, *json.loads(line)]
        try:
            self.server.run()
        finally:
            sys.stdout.flush()  # the server ends the fork by os._exit, which does not


if __name__ == "__main__":
    if sys.argv[1] == SERVE:
        serve(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        become_supernode(sys.argv[1:])
