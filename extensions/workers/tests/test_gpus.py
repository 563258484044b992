"""Workers take the GPUs of a machine in turn, here of one without any: it is said to have some."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from app_runs import CLIENTS, SMALL, run
from equal_runs import figures as figures_of
from stand_in_gpu import standing_in

from curvfed.client_app.client import Client
from curvfed.deployments.commands.command import main
from curvfed.deployments.cores import Cores
from curvfed.deployments.gpus import visible_gpus
from curvfed.deployments.inprocess import simulated_nodes
from curvfed.extensions.workers.commands import gpus as module
from curvfed.extensions.workers.commands import plan as worker_plan
from curvfed.extensions.workers.commands.gpus import gpus_in_turn
from curvfed.extensions.workers.commands.grid import run_simulation
from curvfed.extensions.workers.commands.plan import WorkerPlan, plan_workers
from curvfed.strategies.config import device as device_module
from curvfed.strategies.config.device import forked_answer, has_gpu, pick_device
from curvfed.strategies.config.parse import parse


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Let this machine have so many GPUs, and names of its own, which other tests do not use."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(worker_plan.threading, "enumerate", list)
    monkeypatch.setattr(worker_plan.threading, "active_count", lambda: 1)
    monkeypatch.setattr(worker_plan, "read_cores", lambda: Cores(8, 8))
    device_module._cuda_works.cache_clear()

    def gpus(number: int, *names: str) -> None:
        if names:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(names))
        monkeypatch.setattr(torch.cuda, "device_count", lambda: number)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: number > 0)

    yield gpus
    device_module._cuda_works.cache_clear()


def names_of(tmp_path: Path, number: int) -> list[str]:
    return [f"GPU-{tmp_path.name}-{index}" for index in range(number)]


@pytest.mark.parametrize(
    ("number", "names", "expected"),
    [(0, [], []), (2, [], ["0", "1"]), (2, ["5", " 7"], ["5", "7"]), (1, ["3", "9"], ["3"])],
)
def test_only_visible_gpus_count(gpus, number, names, expected):
    gpus(number, *names)
    assert (visible_gpus() if number else []) == expected


@pytest.mark.parametrize(
    ("number", "keys", "workers", "names"),
    [
        (2, {}, 2, ("0", "1")),
        (1, {}, 1, ("0",)),
        (9, {}, CLIENTS, tuple("012345678")),
        (2, {"workers": 3}, 3, ("0", "1")),
        (2, {"device": "cuda:1", "workers": 2}, 2, ("1",)),
        (2, {"device": "cpu", "workers": 2}, 2, ()),
        (2, {"fraction-train": 0.25}, 1, ("0", "1")),
    ],
)
def test_one_worker_per_gpu_unless_more_are_asked_for(gpus, number, keys, workers, names):
    gpus(number)
    plan = plan_workers(parse({"device": "cuda"} | keys), CLIENTS)
    assert (plan.number, plan.gpus) == (workers, names)


def test_a_program_that_has_started_cuda_forks_no_workers(gpus, monkeypatch):
    gpus(2)
    keys = {"device": "cuda", "workers": 2}
    expected = WorkerPlan(1, "this program already uses the GPU", ("0", "1"), is_short=True)
    parent = os.getpid()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: os.getpid() == parent)
    assert plan_workers(parse(keys), CLIENTS) == expected
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert plan_workers(parse(keys), CLIENTS) == expected


def test_workers_take_gpus_in_turn_and_runs_avoid_each_other(tmp_path):
    first, second, third = names_of(tmp_path, 3)
    with gpus_in_turn([first, second], 3) as one:
        assert one == [first, second, first]
        with gpus_in_turn([first, second], 1) as two:
            assert two == [second]
            # Two are on each of them, and none on the third.
            with gpus_in_turn([first, second, third], 3) as three:
                assert three == [third, third, first]
        with gpus_in_turn([first, second], 2) as two:
            assert two == [second, first]
    with gpus_in_turn([first, second], 2) as again:
        assert again == [first, second]
    with gpus_in_turn([], 2) as none:
        assert none == []


def test_a_machine_on_which_runs_cannot_see_each_other(tmp_path, monkeypatch):
    class Refusing(module.socket.socket):
        def bind(self, address: object) -> None:
            raise PermissionError(1, "Operation not permitted")

    names = names_of(tmp_path, 2)
    monkeypatch.setattr(module.socket, "socket", Refusing)
    with gpus_in_turn(names, 3) as gpus:
        assert gpus == [*names, names[0]]


def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients and server that have the GPU compute on the CPU."""
    cpu = torch.device("cpu")
    monkeypatch.setattr("curvfed.client_app.client_data.device_of", lambda *_: cpu)
    monkeypatch.setattr("curvfed.server_app.global_model.pick_device", lambda _: cpu)


def test_each_worker_sees_its_gpu_alone_and_the_bits_are_those_of_one(gpus, tmp_path, monkeypatch):
    names = names_of(tmp_path, 2)
    gpus(2, *names)
    on_the_cpu(monkeypatch)
    seen = tmp_path / "seen"
    seen.mkdir()
    commit = Client.commit

    def commit_and_note(client: Client, *arguments: Any, **keys: Any) -> None:
        (seen / str(os.getpid())).write_text(os.environ["CUDA_VISIBLE_DEVICES"])
        commit(client, *arguments, **keys)

    def run(name: str, **keys: Any) -> dict[str, Any]:
        settings = SMALL | {"device": "cuda", "results-dir": str(tmp_path), "run-name": name}
        return figures_of(run_simulation(parse(settings | keys), simulated_nodes(CLIENTS)))

    expected = run("one", workers=1)
    monkeypatch.setattr(Client, "commit", commit_and_note)
    assert run("three", workers=3) == expected
    assert sorted(path.read_text() for path in seen.iterdir()) == [names[0], names[0], names[1]]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ",".join(names)


def test_a_run_beside_another_has_the_other_gpu(gpus, tmp_path, monkeypatch):
    names = names_of(tmp_path, 2)
    gpus(2, *names)
    on_the_cpu(monkeypatch)
    entered = []

    class Device:
        def __init__(self, index: int) -> None:
            self.index = index

        def __enter__(self) -> None:
            entered.append(self.index)

        def __exit__(self, *_: object) -> None:
            entered.append(None)

    monkeypatch.setattr(torch.cuda, "device", Device)
    settings = SMALL | {"device": "cuda", "results-dir": str(tmp_path), "workers": 1}
    for name, others in (("first", 0), ("second", 1)):
        with gpus_in_turn(names, others):
            run_simulation(parse(settings | {"run-name": name}), simulated_nodes(2))
    assert entered == [1, None]


def test_check_says_who_gets_what(gpus, tmp_path, monkeypatch, capsys):
    gpus(2, *names_of(tmp_path, 2))
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["check", "dataset=trees", "device=cuda", "workers=3"]) == 0
    first, second = names_of(tmp_path, 2)
    assert f"GPU {first}: workers 1, 3; GPU {second}: worker 2" in capsys.readouterr().out


def test_the_question_for_a_gpu_does_not_start_cuda_here(gpus, monkeypatch):
    """Or no fork could use it."""
    gpus(1)
    asked = []
    parent = os.getpid()

    def is_available() -> bool:
        asked.append(os.getpid())
        return True

    monkeypatch.setattr(torch.cuda, "is_available", is_available)
    assert pick_device("auto") == torch.device("cuda")
    assert parent not in asked


@pytest.mark.parametrize("answer", [True, False])
def test_a_gpu_of_which_a_fork_knows_nothing(gpus, monkeypatch, answer):
    """As on systems without NVIDIA's library for management, where counting starts CUDA."""
    gpus(1)
    parent = os.getpid()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: answer and os.getpid() == parent)
    assert has_gpu() is answer


def test_a_fork_that_fails_answers_no():
    def fail() -> bool:
        raise RuntimeError("a driver that is too old")

    assert forked_answer(lambda: True)
    assert not forked_answer(lambda: False)
    assert not forked_answer(fail)


@pytest.mark.long
def test_workers_on_two_gpus_have_the_bits_of_one_process(tmp_path):
    with standing_in():
        paths = [
            run(tmp_path / "one", method="flatland").path,
            run(tmp_path / "two", method="flatland", workers=2, gpus=("5", "7")).path,
        ]
    assert figures_of(paths[1]) == figures_of(paths[0])
