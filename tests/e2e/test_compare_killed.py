"""Comparisons in Ray on a user's own data, killed and interrupted in the middle."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from graph_fixtures import write_user_graph
from image_fixtures import write_classes

ROOT = Path(__file__).parents[2]
LONG = 900.0
"""Seconds that are waited for what takes a few on a machine that has nothing else to do."""

COMMON = [
    "learning-rate=0.05",
    "budget=3",
    "tuning-seeds=1",
    "seeds=2",
    "num-supernodes=2",
    "embedding-dim=8",
]
OWN = {
    "graph": (
        lambda path: write_user_graph(path),
        "mine.pt",
        ["methods=local,fedavg,flatland", "num-rounds=60"],
    ),
    "images": (
        lambda path: write_classes(path, {"cat": 60, "dog": 60}, shape=(16, 16)),
        "pictures/",
        ["methods=fedavg,spherefed", "num-rounds=15", "local-epochs=2"],
    ),
}


def summaries(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Time and content of the summaries of the runs that have completed."""
    found = [
        path
        for path in folder.glob("*/summary.json")
        if json.loads(path.read_text())["status"] == "completed"
    ]
    return {path.parent.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def await_(condition: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.long
@pytest.mark.parametrize("kind", OWN)
def test_a_comparison_that_is_killed_and_interrupted_goes_on_and_ends_with_an_answer(
    own_home, tmp_path, kind
):
    write, name, words = OWN[kind]
    write(tmp_path / name)
    folder, called = tmp_path / "runs", []
    command = [
        sys.executable,
        "-m",
        "curvfed",
        "compare",
        f"dataset={name}",
        *words,
        *COMMON,
        "--results",
        str(folder),
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "300"}

    def begin() -> "subprocess.Popen[str]":
        called.append(
            subprocess.Popen(
                command,
                cwd=tmp_path,
                env=environment,
                start_new_session=True,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )
        return called[-1]

    try:
        process = begin()
        await_(lambda: len(summaries(folder)) >= 2, process)
        process.kill()  # in the first step, and Ray finds out by itself
        process.communicate(timeout=LONG)
        first = summaries(folder)
        plan = json.loads((folder / "plan.json").read_text())
        tried = sum(len(entrant["configurations"]) for entrant in plan["tried"].values())
        assert len(first) < tried

        process = begin()
        await_(lambda: len(summaries(folder)) > tried, process)
        os.killpg(process.pid, signal.SIGINT)  # in the second step, as a terminal does
        output = process.communicate(timeout=LONG)[0]
        assert process.returncode in (0, 130), output  # a quick machine may have come to the end
        second = summaries(folder)
        assert {name: second[name] for name in first} == first

        process = begin()
        output = process.communicate(timeout=LONG)[0]
        assert process.returncode == 0, output
        last = summaries(folder)
        assert {name: last[name] for name in second} == second
        found = json.loads((folder / "comparison.json").read_text())
        assert output.splitlines()[-1] == found["answer"]
        assert {len(row["scores"]) for row in found["methods"]} == {2}
        assert len(last) == tried + 2 * len(found["methods"])
    finally:
        for process in called:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=LONG)
