"""Worker processes of a simulation: every kind of method, and whatever ends the command."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from app_runs import run
from command_runs import command_run
from equal_runs import figures

from curvfed.deployments.processes import is_alive, wait_until

METHODS = {
    "fedavg": {},
    "flatland": {},
    "scaffold": {},
    "apple": {},
    "hyperfed": {"dataset": "digits", "images__train_subset": 150},
    "spherefed": {"dataset": "digits", "images__train_subset": 150},
    "hull": {"dataset": "uniform", "points__num": 300},
    "fedper": {"secure_sum": True},
}


@pytest.mark.parametrize("method", METHODS)
def test_the_number_of_workers_changes_no_bit(method: str, tmp_path: Path) -> None:
    settings = {"method": method} | METHODS[method]
    expected = figures(run(tmp_path / "1", **settings).path)
    for number in (2, 3):
        path = run(tmp_path / str(number), workers=number, **settings).path
        assert figures(path) == expected


def interrupt(process: "subprocess.Popen[bytes]") -> None:
    """Ctrl-C: the signal reaches all processes of the terminal."""
    for each in [*psutil.Process(process.pid).children(recursive=True), process]:
        each.send_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (interrupt, 130),
        (subprocess.Popen.terminate, 130),
        (subprocess.Popen.kill, -signal.SIGKILL),
    ],
)
def test_workers_end_with_the_command(
    end: Callable[["subprocess.Popen[bytes]"], None], status: int
) -> None:
    settings = {"dataset": "trees", "num-rounds": 100_000, "workers": 3}
    with command_run("simulate", settings, 4) as (process, run):
        assert wait_until((run / "rounds.csv").exists, 120)
        workers = psutil.Process(process.pid).children(recursive=True)
        assert len(workers) == 3
        end(process)
        assert process.wait(60) == status
        assert wait_until(lambda: not any(is_alive(worker) for worker in workers), 5)
