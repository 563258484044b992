"""A process per message from a parent that has everything imported, and what becomes of it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import psutil
import pytest

import curvfed.extensions.cluster.commands.forked_clients
from curvfed.deployments.processes import wait_until
from curvfed.extensions.cluster.commands import node_code
from curvfed.extensions.cluster.commands.forked_clients import HEAVY, PROGRAM

PATIENCE = 240
"""Seconds for imports on a busy machine."""

STAND_IN = """
import json, os, sys, time

def main():
    if "--wait" in sys.argv:
        time.sleep(3600)
    if "--fail" in sys.argv:
        raise ZeroDivisionError("as asked")
    torch = sys.modules["torch"]
    seen = {
        "arguments": sys.argv,
        "parent": os.getppid(),
        "cuda": torch.cuda.is_initialized() or torch.cuda._is_in_bad_fork(),
        "of the app": sorted(name for name in sys.modules if name.partition(".")[0] == "curvfed"),
        "path": sys.path,
    }
    with open(sys.argv[1] + ".part", "w") as file:
        json.dump(seen, file)
    os.rename(sys.argv[1] + ".part", sys.argv[1])
"""
"""In place of Flower's program: writes what it sees to the file that its first argument names."""


@dataclass(frozen=True)
class Forking:
    """A stand-in SuperNode, the parent beside it, and the program that the SuperNode would find."""

    supernode: "subprocess.Popen[bytes]"
    parent: psutil.Process
    program: Path

    def call(self, *arguments: str, **settings) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [self.program, *arguments], capture_output=True, text=True, timeout=PATIENCE, **settings
        )


def stand_in(folder: Path) -> dict[str, str]:
    """An environment in which a program of Flower's distribution is found before the installed."""
    information = folder / "flwr-0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: flwr\nVersion: 0\n")
    (information / "entry_points.txt").write_text(f"[console_scripts]\n{PROGRAM} = stand_in:main\n")
    (folder / "stand_in.py").write_text(STAND_IN)
    # Settings of threads that these tests run under would hide what the imports do by themselves.
    environment = {
        name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")
    }
    return environment | {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    }


def nothing_heavy(folder: Path) -> dict[str, str]:
    """The same; all that is to be imported is there and empty, but what the parent uses."""
    environment = stand_in(folder)
    for module in {*HEAVY, node_code.PROGRAM.rpartition(".")[0]} - {"psutil"}:
        package = folder
        for name in module.split("."):
            package /= name
            package.mkdir(exist_ok=True)
            (package / "__init__.py").touch()
    flower = folder.joinpath(*node_code.PROGRAM.split(".")).with_suffix(".py")
    flower.write_text(" = ".join([*node_code.REPLACED, "None"]))
    return environment


@contextmanager
def started(environment: dict[str, str], stderr: TextIO | None = None) -> Iterator[Forking]:
    """A parent with a sleep for a SuperNode, ready to fork."""
    words = [
        sys.executable,
        "-P",
        curvfed.extensions.cluster.commands.forked_clients.__file__,
        "sleep",
        "3600",
    ]
    supernode = subprocess.Popen(words, env=environment, stderr=stderr)
    process = psutil.Process(supernode.pid)

    def program() -> Path:
        return Path(process.environ()["PATH"].split(os.pathsep)[0]) / PROGRAM

    try:
        assert wait_until(lambda: process.name() == "sleep", PATIENCE)
        forking = Forking(supernode, *process.children(), program())
        assert wait_until((forking.program.parent / "line").exists, PATIENCE)
        yield forking
    finally:
        supernode.kill()
        supernode.wait()
    psutil.wait_procs([forking.parent], 30)
    # what a parent leaves that was killed
    shutil.rmtree(forking.program.parent, ignore_errors=True)


@pytest.fixture(scope="module")
def forking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forking]:
    with started(stand_in(tmp_path_factory.mktemp("stand-in"))) as fork:
        yield fork


def child_report(forking: Forking, folder: Path, *arguments: str) -> dict:
    """What the forked program wrote."""
    path = folder / "told"
    assert forking.call(str(path), *arguments).returncode == 0
    assert wait_until(path.exists, PATIENCE)
    return json.loads(path.read_text())


def test_a_program_is_a_fork_of_a_parent_that_is_safe_to_fork(forking, tmp_path):
    """A fork has the one thread that forked, and a context of CUDA does not live on in it. A policy
    may allow the app of the run, and this folder's must not stand in its way."""
    assert forking.program.parent.stat().st_mode & 0o777 == 0o700
    assert len(os.listdir(f"/proc/{forking.parent.pid}/task")) == 1
    arguments = ["--token", "a b", "", 'it\'s "quoted"', "$HOME", "*", "ü\n2"]
    report = child_report(forking, tmp_path, *arguments)
    assert report["parent"] == forking.parent.pid
    assert not report["cuda"]
    assert report["arguments"] == [PROGRAM, str(tmp_path / "told"), *arguments]
    assert "curvfed.extensions.cluster.commands.node_code" in report["of the app"]
    assert not any("client_app" in name for name in report["of the app"])
    # neither the working folder nor that of the program
    assert Path(report["path"][0]).name.startswith("stand-in")


@pytest.mark.long
def test_many_at_once(forking, tmp_path):
    calls = [
        subprocess.Popen([forking.program, str(tmp_path / str(number))]) for number in range(12)
    ]
    assert [call.wait(PATIENCE) for call in calls] == [0] * 12
    assert wait_until(
        lambda: all((tmp_path / str(number)).exists() for number in range(12)), PATIENCE
    )
    assert wait_until(lambda: not forking.parent.children(), PATIENCE), "no zombies"


def test_what_a_program_raises_is_printed_where_the_supernode_prints(tmp_path):
    path = tmp_path / "printed"
    with (
        path.open("w") as printed,
        started(nothing_heavy(tmp_path / "stand-in"), stderr=printed) as forking,
    ):
        assert forking.call("--fail").returncode == 0
        assert wait_until(lambda: "ZeroDivisionError: as asked" in path.read_text(), PATIENCE)
        assert wait_until(lambda: not forking.parent.children(), PATIENCE), "the fork has ended"


@pytest.mark.long  # Flower is imported twice
def test_without_the_parent_the_guarded_program_runs(tmp_path):
    with started(nothing_heavy(tmp_path / "stand-in")) as forking:
        forking.parent.kill()
        psutil.wait_procs([forking.parent], 30)
        answer = forking.call("--token", "a b", "--no-such-option")
        assert answer.returncode == 2
        assert "unrecognized arguments: --no-such-option" in answer.stderr


def test_the_parent_ends_with_the_supernode(tmp_path):
    with started(nothing_heavy(tmp_path / "stand-in")) as forking:
        assert forking.parent.is_running()
        forking.supernode.kill()
        forking.supernode.wait()
        _, alive = psutil.wait_procs([forking.parent], 30)
        assert not alive
        assert not forking.program.parent.exists()


@pytest.mark.long
def test_a_client_that_waits_ends_with_the_supernode(tmp_path):
    """As one that waits for the rest of a message of a SuperLink that has gone."""
    with started(nothing_heavy(tmp_path / "stand-in")) as forking:
        assert forking.call("--wait").returncode == 0
        assert wait_until(lambda: len(forking.parent.children()) == 1, PATIENCE)
        left = [*forking.parent.children(), forking.parent]
        forking.supernode.kill()
        forking.supernode.wait()
        _, alive = psutil.wait_procs(left, 30)
        for process in alive:
            process.kill()
        assert not alive
