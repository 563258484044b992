"""Runs killed at random moments, again and again, end as the run that nobody killed."""

import contextlib
import json
import os
import random
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import psutil
import pytest
from app_runs import CLIENTS, EVERY, QUICK, SMALL, dotted_keys
from equal_runs import figures

from curvfed.deployments.processes import is_alive, wait_until
from curvfed.strategies.wire.messages import AGREE, KEYS

SIMULATED, KILLED, OF_EACH, BY_FLOWER = 33, 30, 2, 10
"""Runs of two methods in one process, how many of them must not have ended before they are killed,
runs of each method, and kills of the whole tree of processes of a run by Flower."""

FORKED = """
import json, os, random, signal, sys, time
from importlib import import_module
for heavy in ("client_app.app", "deployments.inprocess", "server_app.app", "server_app.report.run_page"):
    import_module(f"curvfed.{heavy}")  # once, and not in every child
from curvfed.deployments.commands.command import main

def simulate(folder, seconds=None):
    "Begin or go on with a run in processes of its own, and kill the first after so many seconds; its exit status."
    number = draw.randint(1, 3)
    begun = os.path.exists(os.path.join(folder, "run", "config.toml"))
    child = os.fork()
    if not child:
        os.dup2(os.open(f"{folder}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
        os.dup2(1, 2)
        os._exit(main(["simulate", *sys.argv[3:], f"workers={number}", f"results-dir={folder}", "run-name=run", f"resume={str(begun).lower()}"]))
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

folder, runs, draw = sys.argv[1], int(sys.argv[2]), random.Random(0)
simulate(f"{folder}/warm")
began = time.monotonic()
told = [(0, simulate(f"{folder}/whole"))]
whole = time.monotonic() - began
for each in range(runs):
    moment = draw.uniform(0, whole)
    first = simulate(f"{folder}/{each}", moment)
    if first != -9:  # it had ended: the machine is quicker than it was before
        whole = moment
    told.append((first, simulate(f"{folder}/{each}")))
json.dump(told, sys.stdout)
"""


@pytest.mark.parametrize(
    "pairs", ["method=flatland", "method=fedavg aggregation=flower:FedAdam secure-sum=true"]
)
def test_simulated(pairs: str, tmp_path: Path) -> None:
    words = [*pairs.split(), "num-supernodes=3", "num-rounds=40", "embedding-dim=8"]
    killed = killed_runs(words, SIMULATED, tmp_path)
    assert killed >= KILLED
    present = files_of(tmp_path / "whole" / "run")
    for each in range(SIMULATED):
        assert files_of(tmp_path / str(each) / "run") == present, each
    print(f"{killed} of {SIMULATED} killed, all equal")


@pytest.mark.parametrize(("method", "task"), EVERY)
def test_every_method(method: str, task: str, tmp_path: Path) -> None:
    settings = SMALL | QUICK[task] | {"method": method, "num-rounds": 6}
    keys = dotted_keys(settings)
    words = [f"{key}={str(value).lower()}" for key, value in keys.items()]
    words.append(f"num-supernodes={CLIENTS}")
    killed_runs(words, OF_EACH, tmp_path)


def killed_runs(words: list[str], number: int, folder: Path) -> int:
    """Make a run, and others that are killed and resumed with other numbers of workers, and check
    that all are equal; the number of those that had not ended before."""
    environment = os.environ | {"HOME": str(folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", FORKED, str(folder), str(number), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    statuses = json.loads(done.stdout)
    assert len(statuses) == 1 + number
    assert {last for _, last in statuses} == {0}
    expected = without_key_exchanges(folder / "whole" / "run")
    for each in range(number):
        assert without_key_exchanges(folder / str(each) / "run") == expected, each
    return sum(first == -9 for first, _ in statuses)


def without_key_exchanges(folder: Path) -> dict[str, Any]:
    """The figures of a run but those of its exchanges of keys, which a resumed run makes again."""
    run = figures(folder)
    if KEYS not in {row["phase"] for row in run["rounds"]}:
        return run
    for table in ("rounds", "clients"):
        run[table] = [row for row in run[table] if row["phase"] not in (KEYS, AGREE)]
    for mean_over_phases in ("bytes_up", "bytes_down"):
        del run["summary"][mean_over_phases]
    return run


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_the_whole_tree_of_a_run_by_flower(tmp_path: Path) -> None:
    mark, draw = uuid.uuid4().hex, random.Random(0)
    environment = os.environ | {"HOME": str(tmp_path), "CURVFED_TEST": mark}

    def run(name: str) -> Path:
        return tmp_path / name / "run"

    def said(name: str) -> str:
        return (tmp_path / f"{name}.log").read_text()

    def begin(name: str) -> "subprocess.Popen[bytes]":
        begun = (run(name) / "config.toml").exists()
        words = [
            "method=flatland",
            "dataset=trees",
            "num-supernodes=2",
            "num-rounds=150",
            "embedding-dim=8",
        ]
        words += [f"results-dir={tmp_path / name}", "run-name=run", f"resume={str(begun).lower()}"]
        with (tmp_path / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", "curvfed", "run", *words]
            return subprocess.Popen(
                command, env=environment, cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT
            )

    assert begin("whole").wait(600) == 0, said("whole")
    times = [(run("whole") / name).stat().st_mtime for name in ("config.toml", "summary.json")]
    expected, killed, name = figures(run("whole")), 0, "killed-0"
    while killed < BY_FLOWER:
        since, process = time.time(), begin(name)
        if killed % 5:  # else anywhere, the start of Flower's programs included
            wait_until(
                lambda since=since, name=name, process=process: (
                    process.poll() is not None or is_on(run(name), since)
                ),
                300,
                0.01,
            )
        time.sleep(draw.uniform(0, max(2.0, (times[1] - times[0]) / 2)))
        if process.poll() is None:
            for each in (
                psutil.Process(process.pid),
                *psutil.Process(process.pid).children(recursive=True),
            ):
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
            killed += 1
            rows = run(name) / "rounds.csv"
            print(
                "killed after"
                f" {max(0, rows.read_text().count(chr(10)) - 1) if rows.exists() else 'no'} rounds"
            )
        else:
            assert process.returncode == 0, said(name)
            assert figures(run(name)) == expected
            name = f"killed-{killed}"
        process.wait()
        assert wait_until(lambda: not marked(mark), 10), [one.cmdline() for one in marked(mark)]
    assert begin(name).wait(600) == 0, said(name)
    assert figures(run(name)) == expected


def is_on(run: Path, since: float) -> bool:
    """Whether a process that was started then has begun the run, or goes on with it."""
    files = (run / "config.toml", run / "rounds.csv")
    return any(path.exists() and path.stat().st_mtime > since for path in files)


def marked(mark: str) -> list[psutil.Process]:
    """Processes that inherited this value and run."""
    result = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get("CURVFED_TEST") == mark and is_alive(process):
                result.append(process)
    return result
