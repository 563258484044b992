"""A run directory has one writer."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from curvfed.server_app.directory.run_lock import RunLock, is_written
from curvfed.strategies.errors import ConfigError

HOLDER = """
import sys, time
from pathlib import Path
from types import SimpleNamespace
from curvfed.server_app.directory.run_lock import RunLock
lock = RunLock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
time.sleep(300)
"""


def test_a_run_directory_has_one_writer(tmp_path):
    assert not is_written(tmp_path)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
        text=True,
    )
    assert holder.stdout.readline() == "held\n"
    assert is_written(tmp_path)
    with pytest.raises(ConfigError, match="another process is still writing this run"):
        RunLock(tmp_path).acquire(patience=0.1)
    threading.Timer(0.5, lambda: os.kill(holder.pid, signal.SIGKILL)).start()
    lock = RunLock(tmp_path)
    lock.acquire(patience=600.0)  # nothing of a killed writer is left
    holder.wait()
    holder.stdout.close()
    assert is_written(tmp_path)
    lock.release()
    assert not is_written(tmp_path)
    assert not is_written(tmp_path / "nowhere")
