"""Simulated clients in worker processes: equal to the bit, whatever ends a worker."""

import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from app_runs import run
from command_runs import command_run
from equal_runs import figures as figures_of
from tiers import only

from curvfed.deployments.cores import Cores
from curvfed.deployments.processes import is_alive, wait_until
from curvfed.extensions.workers.commands import grid as workers
from curvfed.extensions.workers.commands import plan as worker_plan
from curvfed.extensions.workers.commands.grid import WorkerGrid
from curvfed.extensions.workers.commands.line import Parcel
from curvfed.extensions.workers.commands.plan import plan_workers
from curvfed.strategies.config.parse import parse
from curvfed.strategies.wire.exchange import FederationError

TRIES: dict[str, dict[str, Any]] = {
    "flatland": {},
    "masked": {"method": "fedavg", "secure_sum": True},
}


@pytest.fixture(autouse=True)
def no_children() -> Iterator[None]:
    before = psutil.Process().children()
    yield
    assert psutil.Process().children() == before


def kill_in_phase(monkeypatch: pytest.MonkeyPatch, phase: int, number: int) -> None:
    """Kill some of the workers after they have been handed the first messages of a phase."""
    phases = iter(range(100))
    push, hand_out = WorkerGrid.push_messages, WorkerGrid._hand_out
    victims: list[int] = []

    def push_messages(grid: WorkerGrid, messages: Any) -> Any:
        if next(phases) == phase:
            victims.extend(worker.process for worker in grid._workers[:number])
        return push(grid, messages)

    def handed_out(grid: WorkerGrid, message_id: str) -> None:
        hand_out(grid, message_id)
        while victims:
            os.kill(victims.pop(), signal.SIGKILL)

    monkeypatch.setattr(WorkerGrid, "push_messages", push_messages)
    monkeypatch.setattr(WorkerGrid, "_hand_out", handed_out)


@pytest.mark.parametrize("name", only(TRIES, "flatland".__eq__))
def test_a_killed_worker_is_named_once_and_changes_nothing(name, tmp_path, monkeypatch, capsys):
    expected = run(tmp_path / "one", **TRIES[name]).figures
    kill_in_phase(monkeypatch, phase=3, number=1)
    capsys.readouterr()
    assert run(tmp_path / "some", workers=2, **TRIES[name]).figures == expected
    output = capsys.readouterr().out
    assert output.count("has ended (SIGKILL)") == 1
    assert output.count("set up anew in the other workers") == 1


@pytest.mark.long
def test_without_workers_the_run_ends_and_another_number_resumes_it(tmp_path, monkeypatch):
    expected = run(tmp_path / "one").figures
    kill_in_phase(monkeypatch, phase=3, number=2)
    with pytest.raises(FederationError, match="run-name=run resume=true") as caught:
        run(tmp_path / "some", workers=2)
    assert caught.value.key == "federation.worker-died"
    monkeypatch.undo()
    assert run(tmp_path / "some", workers=3, resume=True).figures == expected


def test_a_full_disk_of_a_worker_ends_the_run(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("curvfed.client_app.personal.ClientFiles.save", refuse)
    with pytest.raises(OSError, match="No space"):
        run(tmp_path, workers=2)


@pytest.mark.long
def test_what_cannot_be_forked_or_written_ends_the_run_and_all_workers(tmp_path, monkeypatch):
    fork = workers.os.fork
    forks = iter([fork])

    def fork_once() -> int:
        return next(forks, refuse)()

    def refuse(*_: object) -> Any:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(workers.os, "fork", fork_once)
    with pytest.raises(BlockingIOError):
        run(tmp_path / "fork", workers=2)
    monkeypatch.undo()
    monkeypatch.setattr(Parcel, "add", refuse)
    with pytest.raises(BlockingIOError):
        run(tmp_path / "write", workers=2)


@pytest.mark.parametrize(
    ("keys", "load", "expected", "reason"),
    [
        ({}, 0.0, 4, "4 clients a round"),
        ({}, 8.0, 1, "0 of 8 cores are free (load 8.0)"),
        ({"fraction-train": 0.25}, 0.0, 1, ""),
        ({"workers": 2}, 8.0, 2, "workers = 2"),
        ({"workers": 9}, 8.0, 4, "4 clients a round"),
        ({"threads": 2}, 0.0, 1, "threads = 2 gives a client several cores"),
    ],
)
def test_as_many_as_free_cores_and_clients(keys, load, expected, reason, monkeypatch):
    monkeypatch.setattr(worker_plan, "read_cores", lambda: Cores(8, 8, load=load))
    monkeypatch.setattr(worker_plan.threading, "enumerate", list)
    plan = plan_workers(parse({"device": "cpu"} | keys), 4)
    assert (plan.number, plan.reason) == (expected, reason)
    monkeypatch.undo()
    assert plan_workers(parse({"device": "cpu"} | keys), 4).number == 1  # pytest has threads


MANY = {
    "fedavg": {},
    "flatland": {},
    "scaffold": {},
    "apple": {},
    "hyperfed": {"dataset": "digits", "images__train_subset": 150},
    "spherefed": {"dataset": "digits", "images__train_subset": 150},
    "hull": {"dataset": "uniform", "points__num": 300},
    "fedper": {"secure_sum": True},
}


@pytest.mark.long
@pytest.mark.parametrize("method", MANY)
def test_the_number_of_workers_changes_no_bit(method, tmp_path):
    settings = {"method": method} | MANY[method]
    expected = figures_of(run(tmp_path / "1", **settings).path)
    for number in (2, 3):
        path = run(tmp_path / str(number), workers=number, **settings).path
        assert figures_of(path) == expected


def interrupt(process: "subprocess.Popen[bytes]") -> None:
    """Ctrl-C: the signal reaches all processes of the terminal."""
    for each in [*psutil.Process(process.pid).children(recursive=True), process]:
        each.send_signal(signal.SIGINT)


@pytest.mark.long
@pytest.mark.parametrize(
    ("end", "status"),
    [(interrupt, 130), (subprocess.Popen.terminate, 130), (subprocess.Popen.kill, -signal.SIGKILL)],
)
def test_workers_end_with_the_command(end, status):
    settings = {"dataset": "trees", "num-rounds": 100_000, "workers": 3}
    with command_run("simulate", settings, 4) as (process, run):
        assert wait_until((run / "rounds.csv").exists, 120)
        workers = psutil.Process(process.pid).children(recursive=True)
        assert len(workers) == 3
        end(process)
        assert process.wait(60) == status
        assert wait_until(lambda: not any(is_alive(worker) for worker in workers), 5)
