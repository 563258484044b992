"""Sweeps in Ray: one that nobody disturbs, and one that is interrupted and killed."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from equal_runs import figures, is_figure

from curvfed.deployments.inprocess import simulate
from curvfed.deployments.processes import is_alive, wait_until
from curvfed.deployments.sweep import read_plan
from curvfed.deployments.sweep.results import LOGS, Results
from curvfed.server_app.report.study import Planned

ROOT = Path(__file__).parents[2]
LONG = 900.0
"""Seconds that are waited for what takes a few on a machine that has nothing else to do."""


class Sweep:
    """A sweep file and a folder for its runs; calls of the command in a session of their own, as in
    a terminal."""

    def __init__(self, folder: Path, content: str) -> None:
        self.file, self.folder = folder / "a sweep.toml", folder / "the runs"
        self.file.write_text(content)
        self.called: list[subprocess.Popen[str]] = []

    @property
    def runs(self) -> tuple[Planned, ...]:
        return read_plan(self.file).runs

    def begin(self) -> "subprocess.Popen[str]":
        command = [
            sys.executable,
            "-m",
            "curvfed",
            "sweep",
            str(self.file),
            "--results",
            str(self.folder),
        ]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            start_new_session=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.called.append(process)
        return process

    def call(self) -> tuple[int, str]:
        process = self.begin()
        output = process.communicate(timeout=LONG)[0]
        return process.returncode, output

    def table(self) -> dict[str, dict[str, Any]]:
        """The rows by run, without times and without the folder."""
        rows = Results(self.folder).rows(self.runs)
        return {
            row["run"]: {key: value for key, value in row.items() if is_figure(key)} for row in rows
        }

    def log(self, run: Planned) -> str:
        return (self.folder / LOGS / f"{run.name}.log").read_text()

    def rounds(self, run: Planned) -> int:
        """Rows of a run's rounds.csv."""
        path = self.folder / run.name / "rounds.csv"
        return path.read_text().count("\n") if path.exists() else 0

    def summaries(self) -> dict[str, tuple[int, bytes]]:
        """Time and content of the summaries of the runs that have completed."""
        paths = [self.folder / run.name / "summary.json" for run in self.runs]
        found = [
            path
            for path in paths
            if path.exists() and json.loads(path.read_text())["status"] == "completed"
        ]
        return {path.parent.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


@pytest.fixture
def sweep_of(tmp_path, monkeypatch) -> Iterator[Callable[[str], Sweep]]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    sweeps: list[Sweep] = []

    def make_sweep(content: str) -> Sweep:
        sweeps.append(Sweep(tmp_path, content))
        return sweeps[-1]

    yield make_sweep
    for process in (process for sweep in sweeps for process in sweep.called):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=LONG)


def await_(condition: Callable[[], bool], process: "subprocess.Popen[str] | None" = None) -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        assert process is None or process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def workers(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    found = psutil.Process(process.pid).children(recursive=True)
    return [child for child in found if child.name().startswith("ray::make")]


def reference(sweep: Sweep, folder: Path) -> dict[str, Path]:
    """The sweep's completed runs made one after the other in this process, without Ray, and their
    table."""
    made = {}
    for run in sweep.runs:
        if run.name in sweep.summaries():
            settings = {
                key: value
                for key, value in {**run.settings, **run.paths}.items()
                if key != "num-supernodes"
            }
            own = {"results-dir": str(folder), "run-name": run.name, "device": "cpu"}
            own["report"] = False
            made[run.name] = simulate(settings | own, int(run.value("num-supernodes")))
            Results(folder).record(run)
    return made


def assert_same_table(sweep: Sweep, folder: Path) -> None:
    """Equal rows but for times; columns that only other runs have are null."""
    table = sweep.table()
    for row in Results(folder).rows():
        ours = {key: value for key, value in table[row["run"]].items() if value is not None}
        assert ours == {
            key: value for key, value in row.items() if value is not None and is_figure(key)
        }


def write_ring(path: Path) -> None:
    """A user's own graph: a ring of nodes of two classes."""
    nodes = torch.arange(40)
    torch.save(
        {"x": torch.eye(40), "edge_index": torch.stack([nodes, (nodes + 1) % 40]), "y": nodes % 2},
        path,
    )


BROKEN = """
title = "One is broken"
[settings]
num-supernodes = 2
embedding-dim = 8
num-rounds = 2
dataset = "trees"
[[runs]]
method = ["fedavg", "flatland"]
[[runs]]
dataset = "absent.pt"
method = "fedavg"
[[runs]]
method = "spherefed"
[[runs]]
method = "hull"
dataset = "uniform"
points.num = 200
hull.epsilon = 0.1
"""


def test_a_broken_run_costs_the_others_nothing(own_home, sweep_of, tmp_path):
    sweep = sweep_of(BROKEN)
    flat, lorentz, absent, refused, hull = sweep.runs
    code, output = sweep.call()
    assert code == 1
    table = sweep.table()
    status = [table[run.name]["status"] for run in sweep.runs]
    assert status == ["completed", "completed", "failed", "failed", "completed"]
    assert f"no file {tmp_path / 'absent.pt'}" in table[absent.name]["error"]
    assert table[refused.name]["error"] == refused.refused
    assert f"failed {absent.name}: " in output
    assert "One is broken: 3 of 5 done, 2 failed" in output
    assert "Warning" not in output
    # What was made side by side, in processes that make several, is what is made alone.
    alone = reference(sweep, tmp_path / "alone")
    assert set(alone) == {flat.name, lorentz.name, hull.name}
    for name, path in alone.items():
        assert figures(sweep.folder / name) == figures(path)
    assert_same_table(sweep, tmp_path / "alone")
    assert "round 2/2" in sweep.log(flat)


CUT = """
[settings]
num-supernodes = 2
embedding-dim = 8
dataset = "trees"
num-rounds = 2
[[runs]]
method = "fedavg"
[[runs]]
method = "fedavg"
dataset = "absent.pt"
[[runs]]
method = ["flatland", "fedavg"]
num-rounds = 300
"""


@pytest.mark.long
def test_what_is_cut_off_goes_on_and_nothing_is_made_twice(own_home, sweep_of, tmp_path):
    sweep = sweep_of(CUT)
    (quick, absent), long = sweep.runs[:2], sweep.runs[2:]

    process = sweep.begin()
    await_(lambda: len(sweep.table()) == 2 and any(sweep.rounds(run) > 5 for run in long), process)
    tasks = workers(process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to Ray's processes, too
    output = process.communicate(timeout=LONG)[0]
    assert process.returncode == 130, output
    assert "Interrupted. Completed runs are saved; the same command continues." in output
    assert "Traceback" not in output
    assert tasks
    await_(
        lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in tasks)
    )
    first = sweep.summaries()
    assert quick.name in first
    assert len(first) < 3  # a quick machine may have ended one of the two long ones
    assert {name: row["status"] for name, row in sweep.table().items()} == {
        **dict.fromkeys(first, "completed"),
        absent.name: "failed",
    }

    done = [sweep.rounds(run) for run in long]
    process = sweep.begin()
    await_(
        lambda: any(sweep.rounds(run) > before + 5 for run, before in zip(long, done, strict=True)),
        process,
    )
    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()  # and Ray finds out by itself
    process.communicate(timeout=LONG)
    assert family
    assert wait_until(
        lambda: (
            not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family)
        ),
        120,
    )
    second = sweep.summaries()
    assert len(second) < 3

    write_ring(sweep.file.parent / "absent.pt")
    code, output = sweep.call()
    assert code == 0, output
    summaries = sweep.summaries()
    assert {name: summaries[name] for name in first | second} == first | second
    for name, path in reference(sweep, tmp_path / "alone").items():
        assert figures(sweep.folder / name) == figures(path)
    assert_same_table(sweep, tmp_path / "alone")
    assert any("resuming after round" in sweep.log(run) for run in long)


KILLED = """
[settings]
num-supernodes = 2
embedding-dim = 8
dataset = "trees"
num-rounds = 400
method = ["flatland", "fedavg", "fedper"]
"""


@pytest.mark.long
def test_killed_five_times(own_home, sweep_of, tmp_path):
    """In turn the command alone and all its processes, at random moments."""
    sweep, draw = sweep_of(KILLED), random.Random(0)
    for number in range(5):
        done = sum(map(sweep.rounds, sweep.runs))
        process = sweep.begin()
        await_(lambda done=done: sum(map(sweep.rounds, sweep.runs)) > done + 5, process)
        time.sleep(draw.uniform(0, 2))
        family = psutil.Process(process.pid).children(recursive=True)
        assert process.poll() is None
        for each in (process, *family) if number % 2 else [process]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.communicate(timeout=LONG)
        assert wait_until(lambda family=family: not any(map(is_alive, family)), 120)
    assert len(sweep.summaries()) < 3
    code, output = sweep.call()
    assert code == 0, output
    for name, path in reference(sweep, tmp_path / "alone").items():
        assert figures(sweep.folder / name) == figures(path)
    assert_same_table(sweep, tmp_path / "alone")
