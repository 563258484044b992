"""What a process of a sweep makes of a run: anew, cut off, failed, made by another process."""

import logging
import time
from typing import Any

import pytest
from app_runs import CLIENTS, SMALL, Run
from equal_runs import figures
from threadpoolctl import threadpool_info
from tiers import only

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
    stop(monkeypatch, loop, "within_bound", call_number, signal or KeyboardInterrupt())
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
    stop(monkeypatch, loop, "within_bound", 2, RuntimeError("of no use:\n" + "x" * 999))
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
