"""The runs of a study: by the runner of sweeps, each configuration once."""

import json
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import pytest

from curvfed.deployments.resources import Resources
from curvfed.extensions.sweeps.commands.sweep.child import Task
from studies import curvature_response
from studies.accept import lab as module
from studies.accept.lab import Lab, RunFailed


@pytest.fixture
def begun(monkeypatch) -> list[int]:
    """The seeds of the runs as they begin; a run is a summary with its seed, 13 fails."""
    seeds: list[int] = []

    class Here:
        def __init__(self, resources: Resources) -> None:
            self.resources = resources
            self.queue: deque[Task] = deque()

        @property
        def running(self) -> int:
            return min(1, len(self.queue))

        def add(self, tasks: Sequence[Task]) -> None:
            self.queue += tasks
            seeds.extend(task.settings["seed"] for task in tasks)

        def next(self) -> tuple[Task, str, float]:
            task = self.queue.popleft()
            if task.settings["seed"] == 13:
                return task, "of no use", 1.0
            summary = {"status": "completed", "seed": task.settings["seed"]}
            folder = Path(task.folder, task.name)
            folder.mkdir()
            (folder / "summary.json").write_text(json.dumps(summary))
            return task, "", 1.0

        def close(self) -> None:
            pass

    monkeypatch.setattr(module, "Pool", Here)
    return seeds


def settings(seed: int) -> dict[str, object]:
    return {"method": "fedavg", "dataset": "trees", "num-supernodes": 2, "seed": seed}


def test_a_run_is_made_once_and_an_earlier_one_counts_only_if_asked_for(begun, tmp_path):
    for reuse, expected in ((False, [1, 2]), (True, [1, 2]), (False, [1, 2, 2])):
        with Lab(tmp_path, tmp_path / "runs", reuse) as lab:
            if not begun:
                lab.start(map(settings, (1, 2)))
            assert [lab.summary(settings(2))["seed"] for _ in range(2)] == [2, 2]
        assert begun == expected


def test_a_failed_run_is_named_each_time(begun, tmp_path):
    with Lab(tmp_path, tmp_path / "runs") as lab:
        lab.start(map(settings, (13, 1)))
        assert lab.summary(settings(1))["seed"] == 1
        for _ in range(2):
            with pytest.raises(RunFailed, match=r"'seed': 13.*of no use; see .*\.log"):
                lab.run(settings(13))


def test_the_runs_of_the_study_of_curvatures_can_be_planned(begun, tmp_path):
    curvatures = curvature_response.CURVATURES
    with Lab(tmp_path, tmp_path / "runs") as lab:
        for curvature in curvatures:
            lab.start(curvature_response.runs_at(curvature, curvature_response.chosen_settings()))
    assert len(begun) == len(curvatures) * len(curvature_response.SEEDS)
