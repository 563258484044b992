"""Many runs: each configuration is made once, streams go on, progress counts them."""

import contextlib
import io
import json
import socket
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from curvfed.deployments.resources import Resources
from curvfed.deployments.simulation import simulator
from curvfed.extensions.sweeps.commands.pages.study import Planned
from curvfed.extensions.sweeps.commands.sweep import plan_run
from curvfed.extensions.sweeps.commands.sweep.child import Task
from curvfed.extensions.sweeps.commands.sweep.pool import Pool
from curvfed.extensions.sweeps.commands.sweep.progress import Progress
from curvfed.extensions.sweeps.commands.sweep.runner import Batch, Runner, Stream
from curvfed.strategies.config.parse import parse
from curvfed.tasks import plugins

PLACE = Path("test")


class Slots:
    """An executor whose runs end in the order of a function of their seeds."""

    resources = Resources()

    def __init__(self, folder: Path, order: Callable[[int], int], slots: int = 2) -> None:
        self.slots = slots
        self.folder = folder
        self.order = order
        self.queue: deque[Task] = deque()
        self.begun: list[Task] = []

    @property
    def running(self) -> int:
        return min(self.slots, len(self.queue))

    def add(self, tasks: Sequence[Task]) -> None:
        self.queue += tasks
        self.begun += tasks

    def next(self) -> tuple[Task, str, float]:
        task = min(self.queue, key=lambda task: self.order(task.settings["seed"]))
        self.queue.remove(task)
        if task.settings["seed"] == 13:
            return task, "of no use", 1.0
        (self.folder / task.name).mkdir()
        (self.folder / task.name / "summary.json").write_text(json.dumps({"status": "completed"}))
        return task, "", 1.0

    def close(self) -> None:
        pass


def planned(seed: int, **keys: Any) -> Planned:
    return plan_run({"method": "fedavg", "dataset": "trees", "seed": seed, **keys}, PLACE)


def follow(
    runner: Runner, streams: dict[str, Stream[Any]], title: str = "all"
) -> tuple[dict[str, Any], list[str]]:
    """The results, and the printed lines without times."""
    console = Console(file=io.StringIO(), width=200)
    with Progress(console, title) as progress:
        results = runner.follow(streams, progress)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    return results, [line.split(" left")[0].rpartition(", ")[0] or line for line in lines]


def chain(*seeds: int, later: int = 0) -> Stream[list[int]]:
    """Asks for one run after the other, and returns their seeds."""
    made = []
    for place, seed in enumerate(seeds):
        runs = yield Batch([planned(seed)], f"step {place}", later and len(seeds) - place - 1)
        made += [run.seed for run in runs if run.is_completed]
    return made


def test_a_stream_does_not_wait_for_another(tmp_path):
    executor = Slots(tmp_path, lambda seed: -seed)
    streams = {"slow": chain(1, 2), "fast": chain(5, 6, 7)}
    results, _ = follow(Runner(tmp_path, {}, executor), streams)
    assert results == {"slow": [1, 2], "fast": [5, 6, 7]}
    assert [task.settings["seed"] for task in executor.begun] == [1, 5, 6, 7, 2]


def test_a_configuration_is_made_once_by_whichever_streams_and_commands(tmp_path):
    executor = Slots(tmp_path, lambda seed: seed)
    streams = {"one": chain(1, 2), "two": chain(2, 1, 3)}
    results, _ = follow(Runner(tmp_path, {}, executor), streams)
    assert results == {"one": [1, 2], "two": [2, 1, 3]}
    assert sorted(task.settings["seed"] for task in executor.begun) == [1, 2, 3]
    executor.begun.clear()
    results, lines = follow(Runner(tmp_path, {}, executor), {"again": chain(1, 3, 4)})
    assert results == {"again": [1, 3, 4]}
    assert [task.settings["seed"] for task in executor.begun] == [4]
    assert lines[-1].startswith("all: 3 of 3 done")


def test_failed_and_refused_runs_cost_the_others_nothing_and_are_named(tmp_path):
    executor = Slots(tmp_path, lambda seed: seed)
    runner = Runner(tmp_path, {}, executor)
    refused = planned(0, **{"learning-rate": -1.0})

    def sweep() -> Stream[list[str]]:
        runs = yield Batch([planned(13), refused, planned(1)])
        return [run.error for run in runs]

    results, lines = follow(runner, {"": sweep()})
    assert results[""] == ["of no use", refused.refused, ""]
    assert runner.failed == 2
    assert f"failed {planned(13).name}: of no use" in lines
    assert any(line.startswith(f"failed {refused.name}: ") for line in lines)
    follow(Runner(tmp_path, {}, executor), {"": sweep()})
    assert [task.settings["seed"] for task in executor.begun] == [13, 1, 13]


def test_each_line_is_printed_once_and_an_expected_number_is_about(tmp_path):
    executor = Slots(tmp_path, lambda seed: seed)
    _, lines = follow(Runner(tmp_path, {}, executor), {"fedavg": chain(1, 2, 3, later=1)}, "cora")
    assert len(lines) == len(set(lines)) == 4
    assert lines[0].startswith("cora: 0 of about 3 done")
    assert lines[1].startswith("cora: 1 of about 3 done, 1 running")
    assert lines[2].startswith("cora: 2 of 3 done, 1 running")
    assert lines[3] == "cora: 3 of 3 done   (fedavg, step 2, 1 s)".rpartition(", ")[0]


class Silent:
    """A process of a pool that makes no run, and the connection to it: its run ends by `finish`."""

    def __init__(self) -> None:
        self.connection = self
        self._socket, self._other = socket.socketpair()
        self.task: Task | None = None

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, task: Task) -> None:
        self.task = task

    def finish(self) -> None:
        self._other.send(b".")

    def recv(self) -> tuple[str, float]:
        self._socket.recv(1)
        self.task = None
        return "", 1.0

    def end(self) -> str:
        self._socket.close()
        self._other.close()
        return ""


class Recorded(Pool):
    """A pool of silent processes that records the workers of the runs that run at a time; `choose`
    says which of them ends next."""

    def __init__(self, slots: int, choose: Callable[[list[Silent]], Silent]) -> None:
        with mock.patch(f"{Pool.__module__}.usable_cores", return_value=slots):
            super().__init__(Resources())
        self.choose = choose
        self.workers: list[list[int]] = []
        self.begun: list[Task] = []

    def _connection(self, slot: int) -> Any:
        if slot not in self._workers:
            self._workers[slot] = Silent()  # type: ignore[assignment]
        return self._workers[slot].connection

    def next(self) -> tuple[Task, str, float]:
        processes = [process for process in self._workers.values() if process.task]
        tasks = [process.task for process in processes]
        assert self.running == len(tasks)
        self.begun += [task for task in tasks if task not in self.begun]
        self.workers.append([task.settings["workers"] for task in tasks])
        ended = self.choose(processes)
        folder = Path(ended.task.folder, ended.task.name)
        folder.mkdir()
        (folder / "summary.json").write_text(json.dumps({"status": "completed"}))
        ended.finish()
        return super().next()


def batches(first_seed: int, *sizes: int) -> Stream[None]:
    """Asks for batches of these sizes."""
    for size in sizes:
        yield Batch([planned(first_seed + number) for number in range(size)])
        first_seed += size


def record(
    slots: int, streams: Sequence[Sequence[int]], choose: Callable[[list[Silent]], Silent]
) -> Recorded:
    """The pool after streams of batches of these sizes."""
    named = {str(place): batches(1000 * place, *sizes) for place, sizes in enumerate(streams)}
    pool = Recorded(slots, choose)
    with contextlib.closing(pool), tempfile.TemporaryDirectory() as folder:
        follow(Runner(Path(folder), {}, pool), named)
    return pool


def first(processes: list[Silent]) -> Silent:
    return processes[0]


@pytest.fixture
def with_simulator(monkeypatch):
    """An extension adds a simulator, whichever are here."""
    monkeypatch.setattr(plugins, "additions", lambda kind: ["stand-in"])


@pytest.mark.parametrize(
    ("slots", "streams", "workers"),
    [
        (8, [[2]], [4, 4]),
        (8, [[16]], [1] * 8),
        (2, [[1]], [2]),
        (16, [[2]] * 6, [1] * 8 + [2] * 4),
        (7, [[1], [1]], [3, 4]),
    ],
)
def test_first_runs_of_all_streams_share_the_cores(with_simulator, slots, streams, workers):
    assert record(slots, streams, first).workers[0] == workers


def test_a_later_batch_shares_the_cores_that_are_free(with_simulator):
    pool = record(8, [[1], [1, 2]], lambda processes: processes[-1])
    assert pool.workers == [[4, 4], [4, 2, 2], [4, 2], [4]]


sizes = st.lists(st.integers(1, 4), min_size=1, max_size=2)


@pytest.mark.long
@settings(max_examples=20)  # each writes files
@given(st.integers(1, 20), st.lists(sizes, min_size=1, max_size=3), st.randoms())
def test_running_runs_never_have_more_workers_than_there_are_cores(slots, streams, random):
    with mock.patch.object(plugins, "additions", return_value=["stand-in"]):
        pool = record(slots, streams, random.choice)
    assert all(sum(workers) <= slots for workers in pool.workers)
    assert all(min(workers) >= 1 for workers in pool.workers)
    assert len(pool.workers) == sum(map(sum, streams))


def test_runs_without_an_extension_for_workers_are_not_refused(monkeypatch):
    monkeypatch.setattr(plugins, "additions", lambda kind: [])
    pool = record(8, [[2]], first)
    assert pool.workers[0] == [1, 1]
    for task in pool.begun:
        assert simulator(parse(task.settings)) is None
