"""Sweeps: one that nobody disturbs, ones that are interrupted and killed, and one in a Ray cluster."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from equal_runs import figures, is_figure
from killed_commands import (
    LONG,
    await_,
    call,
    completed_runs,
    family,
    have_ended,
    install_callbacks,
    start,
)

from curvfed.deployments.cores import usable_cores
from curvfed.deployments.inprocess import simulate
from curvfed.deployments.processes import free_ports, is_open, wait_until
from curvfed.extensions.sweeps.commands.pages.study import Planned
from curvfed.extensions.sweeps.commands.sweep import LOGS, read_plan
from curvfed.extensions.sweeps.commands.sweep.results import Results

INTERRUPTED = 130


class Sweep:
    """A sweep file and a folder for its runs."""

    def __init__(self, folder: Path, content: str) -> None:
        self.file = folder / "a sweep.toml"
        self.folder = folder / "the runs"
        self.words = ["sweep", str(self.file), "--results", str(self.folder)]
        self.file.write_text(content)

    @property
    def runs(self) -> tuple[Planned, ...]:
        return read_plan(self.file).runs

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


@pytest.fixture
def sweep_of(tmp_path, own_home) -> Callable[[str], Sweep]:
    return lambda content: Sweep(tmp_path, content)


def reference(sweep: Sweep, folder: Path) -> dict[str, Path]:
    """The sweep's completed runs made one after the other in this process, and their table."""
    made = {}
    for run in sweep.runs:
        if run.name in completed_runs(sweep.folder):
            settings = {
                key: value
                for key, value in {**run.settings, **run.paths}.items()
                if key not in ("num-supernodes", "callbacks")
            }
            own = {"results-dir": str(folder), "run-name": run.name, "device": "cpu"}
            own["report"] = False
            made[run.name] = simulate(settings | own, int(run.value("num-supernodes")))
            Results(folder).record(run)
    return made


def assert_as_alone(sweep: Sweep, folder: Path, names: set[str]) -> None:
    """The completed runs are these, and equal to those made alone; so are their rows, but for
    times; columns that only other runs have are null."""
    alone = reference(sweep, folder)
    assert set(alone) == names
    for name, path in alone.items():
        assert figures(sweep.folder / name) == figures(path)
    table = sweep.table()
    for row in Results(folder).rows():
        ours = {key: value for key, value in table[row["run"]].items() if value is not None}
        theirs = {key: value for key, value in row.items() if value is not None and is_figure(key)}
        assert ours | {"callbacks": ""} == theirs | {"callbacks": ""}


BROKEN = """
title = "Three are broken"
[settings]
num-supernodes = 2
embedding-dim = 8
num-rounds = 4
dataset = "trees"
[[runs]]
method = "fedavg"
callbacks = "death"
[[runs]]
method = "flatland"
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


def test_a_broken_run_costs_the_others_nothing(sweep_of, tmp_path):
    sweep = sweep_of(BROKEN)
    site = install_callbacks(tmp_path / "site")
    victim, lorentz, absent, refused, hull = sweep.runs
    code, output = call(*sweep.words, cwd=tmp_path, site=site)
    assert code == 1
    table = sweep.table()
    status = {name: row["status"] for name, row in table.items()}
    broken = {run.name: "failed" for run in (victim, absent, refused)}
    whole = {run.name: "completed" for run in (lorentz, hull)}
    assert status == broken | whole
    assert "the process of the run ended (SIGKILL)" in table[victim.name]["error"]
    assert f"no file {tmp_path / 'absent.pt'}" in table[absent.name]["error"]
    assert table[refused.name]["error"] == refused.refused
    assert f"failed {absent.name}: " in output
    assert "Three are broken: 2 of 5 done, 3 failed" in output
    assert "Warning" not in output
    assert "round 4/4" in sweep.log(lorentz)
    first = completed_runs(sweep.folder)
    assert set(first) == set(whole)

    # The same command goes on with what was killed, repeats what has failed, and leaves the others.
    code, output = call(*sweep.words, cwd=tmp_path, site=site)
    assert code == 1
    assert "Three are broken: 3 of 5 done, 2 failed" in output
    assert "resuming after round 3" in sweep.log(victim)
    second = completed_runs(sweep.folder)
    assert {name: second[name] for name in first} == first
    assert_as_alone(sweep, tmp_path / "alone", {*whole, victim.name})


PAUSED = """
[settings]
num-supernodes = 2
embedding-dim = 8
dataset = "trees"
num-rounds = 5
method = "fedavg"
callbacks = "pause"
"""


def end_by(signum: signal.Signals, is_for_all: bool, sweep: Sweep, site: Path) -> int:
    """Send a signal to a paused sweep; its exit status. No process of it is left, nor of the
    workers of a run that has the whole machine."""
    (run,) = sweep.runs
    with start(*sweep.words, cwd=site.parent, site=site) as process:
        await_((site / f"paused-{run.name}").exists, process)
        processes = family(process)
        assert len(processes) == (2 if usable_cores() == 1 else 4)
        (os.killpg if is_for_all else os.kill)(process.pid, signum)
        output = process.communicate(timeout=LONG)[0]
        assert have_ended(processes)
    is_announced = "Interrupted. Completed runs are saved; the same command continues." in output
    assert is_announced == (process.returncode == INTERRUPTED), output
    assert "Traceback" not in output
    assert not sweep.table()  # neither failed nor completed
    return process.returncode


def test_the_end_of_the_command_is_that_of_its_processes(sweep_of, tmp_path):
    site = install_callbacks(tmp_path / "site")
    assert end_by(signal.SIGTERM, False, sweep_of(PAUSED), site) == INTERRUPTED


@pytest.mark.long
@pytest.mark.parametrize(
    ("signum", "is_for_all", "status"),
    [
        (signal.SIGINT, True, INTERRUPTED),  # as a terminal sends it
        (signal.SIGTERM, False, INTERRUPTED),
        (signal.SIGTERM, True, INTERRUPTED),  # as a batch system may do
        (signal.SIGKILL, False, -9),
    ],
)
def test_a_sweep_that_was_ended_goes_on(sweep_of, tmp_path, signum, is_for_all, status):
    sweep = sweep_of(PAUSED)
    (run,) = sweep.runs
    site = install_callbacks(tmp_path / "site")
    assert end_by(signum, is_for_all, sweep, site) == status
    (site / "go").touch()
    code, output = call(*sweep.words, cwd=tmp_path, site=site)
    assert code == 0, output
    assert "resuming after round" in sweep.log(run)
    assert_as_alone(sweep, tmp_path / "alone", {run.name})


SHARED = """
title = "On several machines"
[settings]
num-supernodes = 2
embedding-dim = 8
dataset = "trees"
num-rounds = 4
[[runs]]
method = ["fedavg", "flatland"]
[[runs]]
method = "fedavg"
callbacks = "death"
"""


@pytest.mark.long
def test_in_a_ray_cluster(sweep_of, tmp_path):
    sweep = sweep_of(SHARED)
    site = install_callbacks(tmp_path / "site")
    victim = sweep.runs[-1]
    [port] = free_ports(1)
    address = f"127.0.0.1:{port}"
    ray = str(Path(sys.executable).parent / "ray")
    words = [ray, "start", "--block", "--head", f"--port={port}", "--num-cpus=2"]
    words += ["--include-dashboard=false", "--disable-usage-stats"]
    environment = os.environ | {"PYTHONPATH": str(site)}
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as head:
        try:
            assert wait_until(lambda: is_open("127.0.0.1", port), LONG)
            to_cluster = [*sweep.words, "--address", address]
            code, output = call(*to_cluster, cwd=tmp_path, site=site)
            assert code == 1, output
            assert "the process of the run ended" in sweep.table()[victim.name]["error"]
            assert "On several machines: 2 of 3 done, 1 failed" in output
            code, output = call(*to_cluster, "--cpus", "3", cwd=tmp_path, site=site)
            assert code == 2
            assert "a run needs 3 CPUs and 0 GPUs, but Ray has 2 and 0" in output
            code, output = call(*to_cluster, cwd=tmp_path, site=site)
            assert code == 0, output
            assert "resuming after round 3" in sweep.log(victim)
        finally:
            head.terminate()
    code, output = call(*to_cluster, cwd=tmp_path, site=site)
    assert code == 1
    assert f"no Ray cluster at {address}" in output
    assert_as_alone(sweep, tmp_path / "alone", {run.name for run in sweep.runs})
