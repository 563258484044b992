"""The processes of a sweep: their number, their GPUs, that they last, and what their end costs."""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing

import psutil
import pytest
import stub_child
from tiers import only

from curvfed.deployments.commands.command import main
from curvfed.deployments.processes import is_alive, wait_until
from curvfed.deployments.resources import Resources
from curvfed.extensions.sweeps.commands.sweep import pool
from curvfed.extensions.sweeps.commands.sweep.child import Task
from curvfed.extensions.sweeps.commands.sweep.pool import Pool, num_slots
from curvfed.extensions.sweeps.commands.sweep.results import FILE

PATIENCE = 300.0


@pytest.fixture
def pool_of(request, monkeypatch) -> Iterator:
    """A pool on a machine with so many cores and GPUs, whose processes make no runs."""
    monkeypatch.setattr(pool, "child", stub_child)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    # Other tests leave threads.
    threads = 2 if getattr(request, "param", "") == "spawned" else 1
    monkeypatch.setattr(pool.threading, "active_count", lambda: threads)
    with ExitStack() as stack:

        def make_pool(cores: int, devices: int = 0, share: float = 0.0) -> Pool:
            monkeypatch.setattr(pool, "usable_cores", lambda: cores)
            monkeypatch.setattr("torch.cuda.device_count", lambda: devices)
            return stack.enter_context(closing(Pool(Resources(gpus=share))))

        yield make_pool


STARTS = pytest.mark.parametrize("pool_of", ["forked", "spawned"], indirect=True)


def tasks(*ends: str) -> list[Task]:
    return [Task({"end": end}, 1, "", str(number)) for number, end in enumerate(ends)]


def answers_of(pool: Pool, *ends: str) -> dict[str, str]:
    """What each task was answered."""
    pool.add(tasks(*ends))
    answers = {}
    for _ in ends:
        task, answer, _ = pool.next()
        answers[task.name] = answer
    assert len(answers) == len(ends)
    return answers


def processes(answers: Iterable[str]) -> set[int]:
    return {int(answer.split()[0]) for answer in answers}


@pytest.mark.parametrize(
    ("cores", "devices", "share", "slots"),
    [(4, 2, 0.0, 4), (8, 2, 1.0, 2), (6, 2, 0.25, 6), (99, 2, 0.4, 4), (99, 5, 2.0, 2)],
)
def test_as_many_runs_at_a_time_as_cores_and_gpus_allow(pool_of, cores, devices, share, slots):
    assert pool_of(cores, devices, share).slots == slots


def test_several_cores_for_each_run(monkeypatch):
    monkeypatch.setattr("curvfed.deployments.resources.usable_cores", lambda: 7)
    assert num_slots(Resources(cpus=2), 7, 0) == 3


@STARTS
def test_processes_make_the_runs_of_all_sweeps_and_end_with_the_pool(pool_of):
    siblings = psutil.Process().children()  # of other tests
    two = pool_of(2)
    first = processes(answers_of(two, *6 * [""]).values())
    assert len(first) == 2
    assert processes(answers_of(two, *6 * [""]).values()) == first
    two.add(tasks("", "", ""))
    two.next()
    children = set(psutil.Process().children()).difference(siblings)
    assert {child.pid for child in children} == first
    two.close()
    assert not any(child.is_running() for child in children)


@STARTS
@pytest.mark.parametrize(
    ("one", "another", "cause"),
    only(
        [("killed", "cut", "SIGKILL"), ("crashed", "crashed", "status 3")],
        lambda case: case[0] == "killed",
    ),
)
def test_the_end_of_a_process_fails_its_run_alone(pool_of, one, another, cause):
    answers = answers_of(pool_of(2), "", one, another, "", "")
    errors = [answers[name] for name in ("1", "2")]
    assert all(f"the process of the run ended ({cause})" in error for error in errors)
    assert processes([answers[name] for name in ("0", "3", "4")])


def test_only_as_many_start_as_there_are_runs_and_one_that_ended_is_replaced(pool_of):
    eight = pool_of(8)
    (first,) = processes(answers_of(eight, "").values())
    (second,) = processes(answers_of(eight, "").values())
    assert first == second
    os.kill(first, signal.SIGKILL)
    assert wait_until(lambda: not is_alive(psutil.Process(first)), PATIENCE)
    (third,) = processes(answers_of(eight, "").values())
    assert third != first


@pytest.mark.parametrize(
    ("visible", "devices", "share", "expected"),
    only(
        [
            ("", 2, 0.5, {"0", "1"}),
            ("5,7", 2, 0.5, {"5", "7"}),
            ("GPU-a,GPU-b,GPU-c,GPU-d", 4, 2.0, {"GPU-a,GPU-b", "GPU-c,GPU-d"}),
        ],
        lambda case: case[0].startswith("GPU"),
    ),
)
def test_each_process_sees_its_gpus_alone(pool_of, monkeypatch, visible, devices, share, expected):
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    of_slots = pool_of(4, devices, share)
    connections = [of_slots._connection(slot) for slot in range(of_slots.slots)]
    for connection in connections:
        connection.send(tasks("")[0])
    answers = [connection.recv()[0].partition(" ")[2] for connection in connections]
    assert set(answers) == expected
    assert all(answers.count(name) == len(answers) / len(expected) for name in expected)


SWEEP = '[settings]\nmethod = "fedavg"\ndataset = "trees"\n'


def failing_sweep(tmp_path, capsys) -> str:
    """The words of a sweep that ends with 1."""
    (tmp_path / "sweep.toml").write_text(SWEEP)
    assert main(["sweep", str(tmp_path / "sweep.toml"), "--results", str(tmp_path)]) == 1
    return " ".join(capsys.readouterr().err.split())


def test_a_machine_without_room_for_a_process(tmp_path, capsys, monkeypatch):
    def refuse(*_: object, **__: object) -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "posix_spawn", refuse)
    output = failing_sweep(tmp_path, capsys)
    assert "Resource temporarily unavailable. Completed runs are saved; the same command" in output


def test_a_table_that_cannot_be_opened(tmp_path, capsys):
    (tmp_path / FILE).mkdir()
    assert f"{FILE}: unable to open database file" in failing_sweep(tmp_path, capsys)
