"""Many runs: each configuration is made once, streams go on by themselves, and progress says how
many of how many."""

import io
import json
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from curvfed.deployments.resources import Resources
from curvfed.extensions.sweeps.commands.pages.study import Planned
from curvfed.extensions.sweeps.commands.sweep import plan_run
from curvfed.extensions.sweeps.commands.sweep.child import Task
from curvfed.extensions.sweeps.commands.sweep.progress import Progress
from curvfed.extensions.sweeps.commands.sweep.runner import Batch, Runner, Stream

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

    def add(self, task: Task) -> None:
        self.queue.append(task)
        self.begun.append(task)

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


@pytest.mark.parametrize(("slots", "runs", "workers"), [(8, 2, 4), (8, 16, 1), (2, 1, 2)])
def test_free_cores_are_worker_processes(tmp_path, slots, runs, workers):
    executor = Slots(tmp_path, lambda seed: seed, slots)
    Runner(tmp_path, {}, executor).add(planned(seed) for seed in range(runs))
    assert {task.settings["workers"] for task in executor.begun} == {workers}
