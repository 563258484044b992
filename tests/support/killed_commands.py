"""Commands of many runs that are killed and interrupted: their processes, the runs that they have
completed, and a package whose callbacks end or stop a run at a certain round.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from curvfed.deployments.processes import is_alive, wait_until

ROOT = Path(__file__).parents[2]
LONG = 900.0
"""Seconds that are waited for what takes a few on a machine that has nothing else to do."""

CALLBACKS = '''
import os, signal, time
from pathlib import Path
from curvfed.server_app.callbacks import Callback

ROUND = 3
FOLDER = Path(__file__).parent

class Death(Callback):
    """Kills the process of the run after a round, the first time."""
    def stored(self, completed):
        mark = FOLDER / f"died-{self.run.directory.path.name}"
        if completed.number == ROUND and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

class Pause(Callback):
    """Stops the run after a round, until there is a file `go`."""
    def stored(self, completed):
        if completed.number == ROUND:
            (FOLDER / f"paused-{self.run.directory.path.name}").touch()
            while not (FOLDER / "go").exists():
                time.sleep(.02)
'''


def install_callbacks(folder: Path) -> Path:
    """A folder for PYTHONPATH with a package whose callbacks are `death` and `pause`."""
    about = folder / "faults-1.dist-info"
    about.mkdir(parents=True)
    (folder / "faults.py").write_text(CALLBACKS)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: faults\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[curvfed.callbacks]\ndeath = faults:Death\npause = faults:Pause\n"
    )
    return folder


@contextmanager
def start(*words: str, cwd: Path, site: Path = ROOT) -> Iterator["subprocess.Popen[str]"]:
    """The command, in a session of its own as in a terminal, with the packages of a folder."""
    paths = [str(ROOT), str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.Popen(
        [sys.executable, "-m", "curvfed", *words],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "300"},
        start_new_session=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=LONG)


def call(*words: str, cwd: Path, site: Path = ROOT) -> tuple[int, str]:
    """The exit status and the output of the command."""
    with start(*words, cwd=cwd, site=site) as process:
        output = process.communicate(timeout=LONG)[0]
        return process.returncode, output


def await_(condition: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    """Wait for a condition that comes true while the process runs."""
    deadline = time.monotonic() + LONG
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def family(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    """The process and its descendants."""
    return [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]


def have_ended(processes: list[psutil.Process]) -> bool:
    """Whether all these processes end within a while."""
    return wait_until(lambda: not any(map(is_alive, processes)), LONG, 0.02)


def completed_runs(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Time and content of the summaries of the runs that have completed."""
    summaries = {}
    for path in folder.glob("*/summary.json"):
        content = path.read_bytes()
        if json.loads(content)["status"] == "completed":
            summaries[path.parent.name] = (path.stat().st_mtime_ns, content)
    return summaries


def kill_in(process: "subprocess.Popen[str]", step: str) -> bool:
    """Kill a comparison once a run of this step has ended; whether there was one."""
    if not await_line(process, f", {step}, ", ")"):
        return False
    processes = family(process)
    process.kill()
    process.wait(LONG)
    assert have_ended(processes)
    return True


def await_line(process: "subprocess.Popen[str]", words: str, ending: str = "") -> bool:
    """Read the output until a line with these words and this ending; whether there was one."""
    assert process.stdout is not None
    return any(words in line and line.rstrip().endswith(ending) for line in process.stdout)
