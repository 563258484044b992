"""Jobs of a batch system, put back into the queue before their end and gone on with: a cluster for
one run, and Ray for the runs of a sweep."""

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
JOBS = ROOT / "deployments" / "slurm"


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
    result = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if (
                str(folder) in " ".join(process.cmdline())
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                result.append(process)
    return result


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


def environment(home: Path) -> dict[str, str]:
    """The variables of a job on two nodes, which are both this machine."""
    return os.environ | {
        "HOME": str(home),
        "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "SLURM_SUBMIT_DIR": str(ROOT),
        "SLURM_JOB_ID": "4242",
        "SLURM_JOB_NODELIST": "localhost,localhost",
        "SLURM_NTASKS": "2",
        "CURVFED_PYTHON": sys.executable,
    }


def start_job(
    home: Path, script: str, words: list[str], restarts: int
) -> "subprocess.Popen[bytes]":
    with (home / "slurm.out").open("ab") as output:
        return subprocess.Popen(
            ["bash", str(JOBS / script), *words],
            env=environment(home)
            | {
                "SLURM_RESTART_COUNT": str(restarts),
                "CURVFED_NODE_CONFIG": f'state-path="{home}/state-{{n}}"',
            },
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def output(home: Path) -> str:
    return (home / "slurm.out").read_text(errors="replace")


def test_a_batch_job_is_put_back_into_the_queue_and_goes_on(home):
    job = home / "curvfed" / "jobs" / "4242"
    run = home / "curvfed" / "results" / "slurm-4242"
    words = ["method=flatland", "dataset=trees", "min-replies=2"]

    first = start_job(home, "curvfed.sbatch", [*words, "num-rounds=200"], 0)
    checkpoints = run / "checkpoint" / "server"
    assert wait_until(
        lambda: any(checkpoints.glob("*.safetensors")) or first.poll() is not None, 600
    ), output(home)
    assert first.poll() is None, output(home)
    first.send_signal(signal.SIGUSR1)  # to the script alone, as Slurm does it
    assert first.wait(300) != 0
    assert (home / "requeued").read_text() == "4242\n"
    assert [path.name for path in job.glob("start-*")] == []
    assert wait_until(lambda: not processes(home), 20), processes(home)
    done = json.loads((run / "summary.json").read_text())["rounds"]

    second = start_job(home, "curvfed.sbatch", [*words, f"num-rounds={done + 2}"], 1)
    assert second.wait(600) == 0, output(home)
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


SWEEP = """
[settings]
method = ["fedavg", "local"]
dataset = "trees"
num-supernodes = 3
num-rounds = 40
seed = [0, 1, 2]
"""


def test_a_sweep_on_the_nodes_of_a_batch_job_goes_on_after_its_time_limit(home):
    (home / "trees.toml").write_text(SWEEP)
    words = ["sweep", str(home / "trees.toml"), "--results", str(home / "runs")]

    def completed() -> int:
        summaries = (home / "runs").glob("*/summary.json")
        return sum(json.loads(path.read_text())["status"] == "completed" for path in summaries)

    first = start_job(home, "sweep.sbatch", words, 0)
    assert wait_until(lambda: completed() > 0 or first.poll() is not None, 600), output(home)
    assert first.poll() is None, output(home)
    first.send_signal(signal.SIGUSR1)  # to the script alone, as Slurm does it
    assert first.wait(300) != 0
    assert (home / "requeued").read_text() == "4242\n"
    assert wait_until(lambda: not processes(home), 60), processes(home)
    before = completed()

    second = start_job(home, "sweep.sbatch", words, 1)
    assert second.wait(600) == 0, output(home)
    assert before < completed() == 6
    job = home / "curvfed" / "jobs" / "4242"
    assert sorted(path.name for path in job.iterdir()) == ["ray-0.log", "ray-1.log"]
    assert wait_until(lambda: not processes(home), 60), processes(home)
