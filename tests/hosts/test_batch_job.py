"""A cluster for one job of a batch system: put back into the queue before its end, and gone on
with."""

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from curvfed.deployments.processes import wait_until

ROOT = Path(__file__).parents[2]
BATCH = ROOT / "deployments" / "slurm" / "curvfed.sbatch"


SRUN = """#!/bin/bash
# The tasks of a step, all on this machine; a signal is passed on to them.
while [[ $1 == --* ]]; do [[ $1 != --output=* ]] || output=${1#*=}; shift; done
tasks=()
trap 'for task in "${tasks[@]}"; do kill -TERM -- "-$task"; done' TERM
for ((n = 0; n < SLURM_NTASKS; n++)); do
    SLURM_PROCID=$n setsid "$@" >>"${output/\\%t/$n}" 2>&1 &
    tasks+=($!)
done
wait
wait
"""
SCONTROL = """#!/bin/bash
case $1 in
show) tr , '\\n' <<<"$3" ;;
requeue) echo "$2" >>"$HOME/requeued" ;;
esac
"""


def processes(folder: Path) -> list[psutil.Process]:
    """Those with the folder in their command line."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if (
                str(folder) in " ".join(process.cmdline())
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
    return found


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {"srun": SRUN, "scontrol": SCONTROL}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    yield tmp_path
    for process in processes(tmp_path):
        with contextlib.suppress(psutil.Error):
            process.kill()


def test_a_batch_job_is_put_back_into_the_queue_and_goes_on(home: Path):
    job = home / "curvfed" / "jobs" / "4242"
    run = home / "curvfed" / "results" / "slurm-4242"
    environment = os.environ | {
        "HOME": str(home),
        "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "SLURM_SUBMIT_DIR": str(ROOT),
        "SLURM_JOB_ID": "4242",
        "SLURM_JOB_NODELIST": "localhost,localhost",
        "SLURM_NTASKS": "2",
        "CURVFED_PYTHON": sys.executable,
        "CURVFED_NODE_CONFIG": f'state-path="{home}/state-{{n}}"',
    }
    words = ["bash", str(BATCH), "method=flatland", "dataset=trees", "min-replies=2"]

    def start(count: int, rounds: int) -> "subprocess.Popen[bytes]":
        with (home / "slurm.out").open("ab") as output:
            return subprocess.Popen(
                [*words, f"num-rounds={rounds}"],
                env=environment | {"SLURM_RESTART_COUNT": str(count)},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said() -> str:
        return (home / "slurm.out").read_text(errors="replace")

    first = start(0, 200)
    checkpoints = run / "checkpoint" / "server"
    assert wait_until(
        lambda: any(checkpoints.glob("*.safetensors")) or first.poll() is not None, 600
    ), said()
    assert first.poll() is None, said()
    first.send_signal(signal.SIGUSR1)  # to the script alone, as Slurm does it
    assert first.wait(300) != 0
    assert (home / "requeued").read_text() == "4242\n"
    assert [path.name for path in job.glob("start-*")] == []
    assert wait_until(lambda: not processes(home), 20), processes(home)
    done = json.loads((run / "summary.json").read_text())["rounds"]

    second = start(1, done + 2)
    assert second.wait(600) == 0, said()
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["status"], summary["num_clients"], summary["rounds"]) == (
        "completed",
        2,
        done + 2,
    )
    with (run / "rounds.csv").open() as file:
        rounds = [int(row["round"]) for row in csv.DictReader(file) if row["phase"] == "train"]
    assert rounds == list(range(1, done + 3))
    assert sorted(path.name for path in home.glob("state-*")) == ["state-0", "state-1"]
    assert sorted(path.name for path in job.iterdir()) == [
        "node-0.log",
        "node-1.log",
        "superlink.log",
    ]
    assert wait_until(lambda: not processes(home), 20), processes(home)
