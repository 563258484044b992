"""What a process of a sweep makes of a run: anew, cut off, failed, made by another process."""

import gc
import json
import logging
import os
import random
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
import torch
from app_runs import CLIENTS, SMALL, Run
from equal_runs import figures
from threadpoolctl import threadpool_info
from tiers import only

from curvfed.client_app.client import Client
from curvfed.extensions.sweeps.commands.sweep import task
from curvfed.extensions.sweeps.commands.sweep.task import make
from curvfed.server_app import loop
from curvfed.server_app.callbacks.before_rounds import ModelOfSum, OneSum
from curvfed.server_app.directory.run_lock import RunLock


@pytest.fixture
def make_run(own_home, tmp_path, caplog):
    """Make a run as a process of a sweep does; what was told of it, and its directory."""
    folder = tmp_path / "runs"
    folder.mkdir()
    caplog.set_level(logging.INFO, "curvfed")

    def make_one(name: str = "run", **settings: Any) -> tuple[str, Run]:
        keys = {key.replace("_", "-"): value for key, value in settings.items()}
        error = make(SMALL | {"dataset": "trees", "threads": 1} | keys, CLIENTS, str(folder), name)
        return error, Run(folder / name)

    return make_one


def stop(monkeypatch, owner: object, function: str, call_number: int, error: BaseException) -> None:
    """Raise instead of the call of that number, once."""
    original = getattr(owner, function)
    calls = iter(range(10**6))

    def stopping(*args):
        if next(calls) == call_number:
            raise error
        return original(*args)

    monkeypatch.setattr(owner, function, stopping)


@pytest.mark.parametrize(
    ("method", "call_number"),
    only(
        [("flatland", 0), ("flatland", 2), ("scaffold", 0), ("scaffold", 2)],
        {("flatland", 0), ("scaffold", 2)}.__contains__,
    ),
)
@pytest.mark.parametrize(
    "signal",
    only([None, KeyboardInterrupt(), SystemExit(15)], lambda signal: signal is None),
    ids=["SIGKILL", "SIGINT", "SIGTERM"],
)
def test_a_run_that_was_cut_off_goes_on_from_its_last_whole_round(
    make_run, monkeypatch, caplog, method, call_number, signal
):
    undisturbed = make_run("whole", method=method, num_rounds=4)[1]
    stop(monkeypatch, loop, "_aggregate", call_number, signal or KeyboardInterrupt())
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        make_run(method=method, num_rounds=4)
    path = undisturbed.path.with_name("run")
    if signal is None:
        (path / "summary.json").unlink()
    error, run = make_run(method=method, num_rounds=4)
    assert error == ""
    assert figures(run.path) == figures(undisturbed.path)
    assert ("resuming after round 2" in caplog.text) == (call_number == 2)


@pytest.mark.parametrize("where", only(["_ask", "aggregate"], "aggregate".__eq__))
def test_a_hull_run_that_was_cut_off_asks_for_nothing_twice(make_run, monkeypatch, caplog, where):
    settings = {"method": "hull", "dataset": "uniform", "points.num": 300, "hull.epsilon": 0.1}
    undisturbed = make_run("whole", **settings)[1]
    owner = OneSum if where == "_ask" else ModelOfSum
    stop(monkeypatch, owner, where, 0, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        make_run(**settings)
    error, run = make_run(**settings)
    assert error == ""
    assert figures(run.path) == figures(undisturbed.path)
    assert ("resuming with the stored sum" in caplog.text) == (where == "aggregate")


def test_a_run_that_failed_is_made_anew(make_run, monkeypatch, caplog):
    undisturbed = make_run("whole", num_rounds=4)[1]
    stop(monkeypatch, loop, "_aggregate", 2, RuntimeError("of no use:\n" + "x" * 999))
    error, run = make_run(num_rounds=4)
    assert error == "RuntimeError: of no use:\n" + "x" * 999
    assert "RuntimeError: of no use" in caplog.text
    (run.path / "of-the-first").touch()
    error, run = make_run(num_rounds=4)
    assert error == ""
    assert figures(run.path) == figures(undisturbed.path)
    assert not (run.path / "of-the-first").exists()


def test_what_another_process_has_finished_is_left(make_run):
    run = make_run()[1]
    before = (run.path / "summary.json").stat().st_mtime_ns
    assert make_run()[0] == ""
    assert (run.path / "summary.json").stat().st_mtime_ns == before


def test_a_run_that_another_process_still_writes_is_waited_for(make_run, monkeypatch):
    run = make_run()[1]
    (run.path / "summary.json").unlink()
    lock = RunLock(run.path)
    lock.acquire()
    monkeypatch.setattr(task, "PATIENCE", 0.1)
    assert "another process is still writing this run" in make_run()[0]
    monkeypatch.setattr(time, "sleep", lambda seconds: lock.release())
    monkeypatch.setattr(task, "PATIENCE", 60)
    assert make_run()[0] == ""


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_has_the_threads_that_it_is_given(make_run, monkeypatch, threads):
    calls = []
    monkeypatch.setattr(
        task, "run_simulation", lambda config, nodes: calls.append((threadpool_info(), config))
    )
    before = {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}
    assert make_run(threads=threads)[0] == ""
    ((pools, settings),) = calls
    assert {pool["num_threads"] for pool in pools} == {threads}
    assert settings.threads == threads
    assert {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()} == before


ALONE = """
import json, sys
from curvfed.extensions.sweeps.commands.sweep.task import make

settings, clients, folder = json.loads(sys.argv[1])
assert make(settings, clients, folder, "alone") == ""
"""

OTHERS: list[dict[str, Any]] = [
    {"method": "flatland", "seed": 5, "dropout": 0.5, "optimizer": "sgd"},
    {"method": "hyperfed", "dataset": "digits", "min-client-size": 2, "threads": 2},
    {"method": "hull", "dataset": "uniform", "points.num": 100, "hull.epsilon": 0.1},
    {"method": "fedavg", "dataset": "absent.pt"},
    {"method": "fedavg", "secure-sum": True},
]
"""Runs before another one in the same process; that without data fails."""


VARIABLES = tuple(os.environ)
"""Libraries add others when they are imported."""


def state() -> list[Any]:
    """What a process has in common for all of its runs."""
    return [
        torch.get_rng_state().tolist(),
        str(np.random.get_state()),  # noqa: NPY002
        random.getstate(),
        torch.get_num_threads(),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        np.geterr(),
        [os.environ.get(name) for name in VARIABLES],
        os.getcwd(),
        gc.isenabled(),
        gc.get_threshold(),
        logging.getLogger("curvfed").level,
        [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
    ]


def clients_in_memory() -> list[Client]:
    """The clients that this process has, such as those of earlier tests."""
    gc.collect()
    # By type: `isinstance` also asks an object for its class, of which torch.distributed warns.
    return [item for item in gc.get_objects() if issubclass(type(item), Client)]


@pytest.mark.long
def test_a_run_does_not_depend_on_those_that_its_process_has_made(make_run, tmp_path):
    last = {"method": "flatland", "dataset": "trees", "dropout": 0.5, "threads": 1, "num-rounds": 3}
    before = state()
    earlier = clients_in_memory()
    for number, settings in enumerate(OTHERS):
        error, _ = make_run(f"other-{number}", **settings)
        assert bool(error) == (settings.get("dataset") == "absent.pt"), error
        assert state() == before, settings
    left = [
        client for client in clients_in_memory() if not any(client is known for known in earlier)
    ]
    assert not left  # with their data and models
    error, run = make_run(**last)
    assert error == ""
    words = json.dumps([SMALL | last, CLIENTS, str(tmp_path)])
    subprocess.run([sys.executable, "-c", ALONE, words], check=True, capture_output=True)
    assert figures(run.path) == figures(tmp_path / "alone")
