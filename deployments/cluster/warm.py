"""A process per message without its start-up: a parent that has imported everything, and is forked.

A SuperNode starts the program `flwr-clientapp` for every message, which imports Flower and torch anew: seconds of a core.
Here a program of that name stands first on the SuperNode's PATH and hands its arguments to a process that has them
imported; a fork of it then does what the program of Flower does, by Flower's own code. The app itself is not imported
beforehand: it comes with the run.

    python -P deployments/cluster/warm.py flower-supernode ARGUMENTS …

Where the parent is gone, the program runs as it would without.
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
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NoReturn

import psutil

PROGRAM, SERVE, FOLDER = "flwr-clientapp", "--serve", "curvfed-warm-"
HEAVY = (
    "torch",
    "scipy.sparse",
    "safetensors.numpy",
    "pydantic",
    "psutil",
    "cryptography.hazmat.primitives.asymmetric.x25519",
)
"""What every client imports of other makers."""

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""NumPy's linear algebra starts threads as it is imported otherwise, and a fork has none but the one that forked."""

ORPHANED = 30.0
"""Seconds that a client may live on when the SuperNode has gone on to the next message.

A client whose message the SuperNode gave up, because the SuperLink went away or the run was stopped, waits an hour for the
rest of it. If it is killed in that hour, an error takes the place of the reply to the next message, and the node is one
message behind from then on.
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
    """Start the parent as a child of this process, which then becomes the SuperNode."""
    _remove_left()
    # This user's alone, and short, as the path of a socket must be.
    folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-"))
    real = Path(sys.executable).parent / PROGRAM
    client = folder / "client.py"
    client.write_text(_CLIENT, encoding="utf-8")
    called = shlex.join([sys.executable, "-I", "-S", str(client), str(folder / "line"), str(real)])
    shim = folder / PROGRAM
    shim.write_text(f'#!/bin/sh\nexec {called} "$@"\n', encoding="utf-8")
    shim.chmod(0o700)
    # By its path: as a module it would have `curvfed` imported from here, where each run brings its own.
    serving = [sys.executable, "-P", __file__, SERVE, str(folder), str(os.getpid())]
    subprocess.Popen(serving, stdin=subprocess.DEVNULL, env=os.environ | ONE_THREAD)
    os.environ["PATH"] = os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)])
    os.execvp(words[0], list(words))


def _remove_left() -> None:
    """Remove the folders of SuperNodes that were killed: nobody could."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER}*-*"):
        pid = folder.name.removeprefix(FOLDER).partition("-")[0]
        with contextlib.suppress(OSError, ValueError):
            if folder.stat().st_uid == os.getuid() and not psutil.pid_exists(int(pid)):
                shutil.rmtree(folder, ignore_errors=True)


def serve(folder: Path, parent: int) -> None:
    """Import, then fork for every program that asks, until the SuperNode is gone."""
    try:
        for module in HEAVY:
            importlib.import_module(module)
        (program,) = entry_points(group="console_scripts", name=PROGRAM)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the SuperNode, and this ends with it
        with _Parent(str(folder / "line"), program.load()) as server:
            while os.getppid() == parent:
                server.handle_request()
                server.end_orphans()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Parent(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """Forks for a program, which runs by itself where it gets no answer: there may be no process to be had."""

    timeout = 1.0
    request_queue_size = 64
    max_children = 100_000  # it must never wait for the end of one

    def __init__(self, place: str, run: Callable[[], object]) -> None:
        super().__init__(place, _Client)
        self.run = run
        self._deadlines: dict[int, float] = {}

    def process_request(self, request: Any, client_address: Any) -> None:
        # A SuperNode does one message at a time: it no longer waits for those before this one.
        over = time.monotonic() + ORPHANED
        self._deadlines = {pid: self._deadlines.get(pid, over) for pid in self.active_children or ()}
        super().process_request(request, client_address)

    def end_orphans(self) -> None:
        """Ask those to end whose time is over; it is asked once."""
        self.collect_children()
        for pid, deadline in self._deadlines.items():
            if pid in (self.active_children or ()) and time.monotonic() > deadline:
                os.kill(pid, signal.SIGTERM)
                self._deadlines[pid] = math.inf


class _Client(socketserver.StreamRequestHandler):
    """What the fork does with the arguments of the program."""

    timeout = 5.0
    server: _Parent

    def handle(self) -> None:
        if line := self.rfile.readline():  # none of a program that went away
            self.wfile.write(b"1")
            self.finish()
            self.request.close()
            self.server.socket.close()
            _become(self.server.run, json.loads(line))


def _become(run: Callable[[], object], arguments: list[str]) -> NoReturn:
    """Be the program, and end as it ends."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = [PROGRAM, *arguments]
    status = 1
    try:
        run()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # what the parent does at its own end is not for the child


if __name__ == "__main__":
    if sys.argv[1] == SERVE:
        serve(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        become_supernode(sys.argv[1:])
