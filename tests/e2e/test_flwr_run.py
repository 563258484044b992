"""The app by the real `flwr run`: on graphs, images and hulls, and one that cannot."""

import contextlib
import csv
import json
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pytest
from safetensors.numpy import load_file

from curvfed.deployments.inprocess import simulate
from curvfed.deployments.processes import free_ports, is_open, wait_until

pytestmark = pytest.mark.long  # other end-to-end tests have a run by Flower each

CLIENTS, ROUNDS = 4, 2
HULLS = {"method": "hull", "dataset": "uniform", "points.num": 400}
IMAGES = {
    "method": "hyperfed",
    "dataset": "digits",
    "images.train-subset": 200,
    "images.test-subset": 100,
}


@dataclass
class Run:
    code: int
    output: str
    folder: Path

    @property
    def summary(self) -> dict:
        return json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def mark():
    """A value that every process started here inherits in its environment."""
    return uuid.uuid4().hex


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def start(home, mark):
    """Start a run, from a folder that is not the app's."""

    def start(name, *pairs):
        command = [
            sys.executable,
            "-m",
            "curvfed",
            "run",
            "dataset=trees",
            f"num-rounds={ROUNDS}",
            *pairs,
        ]
        command += [f"results-dir={home / 'results of runs'}", f"run-name={name}"]
        command += ["--num-supernodes", str(CLIENTS), "--timeout", "400"]
        env = os.environ | {"HOME": str(home), "CURVFED_TEST": mark}
        return subprocess.Popen(
            command,
            cwd=home,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )

    return start


@pytest.fixture(scope="module")
def runs_of(start, home):
    """Make runs at the same time, and wait for them."""

    def runs_of(**settings):
        processes = {
            name: start(name, *(f"{key}={value}" for key, value in pairs.items()))
            for name, pairs in settings.items()
        }
        outputs = {name: process.communicate()[0] for name, process in processes.items()}
        return {
            name: Run(process.returncode, outputs[name], home / "results of runs" / name)
            for name, process in processes.items()
        }

    return runs_of


@pytest.fixture(scope="module")
def runs(runs_of):
    """`good`, and `bad`, which diverges."""
    flatland = {"method": "flatland"}
    return runs_of(good=flatland, bad=flatland | {"optimizer": "sgd", "learning-rate": 1e30})


@pytest.fixture(scope="module")
def others(runs_of):
    return runs_of(images=IMAGES, hull=HULLS)


def test_a_run_completes(runs):
    good = runs["good"]
    assert good.code == 0, good.output
    summary = good.summary
    expected = {
        "status": "completed",
        "method": "flatland",
        "dataset": "trees",
        "num_clients": CLIENTS,
        "rounds": ROUNDS,
    }
    assert {name: summary[name] for name in expected} == expected
    with (good.folder / "rounds.csv").open(encoding="utf-8") as file:
        rounds = {int(row["round"]) for row in csv.DictReader(file)}
    assert set(range(1, ROUNDS + 1)) <= rounds
    assert f"report: {good.folder / 'report.html'}" in good.output


def test_images_go_as_in_one_process(others, tmp_path):
    """A fixed head that came to other processes, personal models on disk, the same bits."""
    there = others["images"]
    assert there.code == 0, there.output
    here = simulate(IMAGES | {"num-rounds": ROUNDS, "results-dir": str(tmp_path)}, CLIENTS)
    one, other = (load_file(folder / "model.safetensors") for folder in (there.folder, here))
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)
    figures = [json.loads((folder / "summary.json").read_text()) for folder in (there.folder, here)]
    for name in ("global_accuracy", "personal_accuracy_mean", "bytes_up", "bytes_down"):
        assert figures[0][name] == figures[1][name]
    assert len(list(there.folder.glob("checkpoint/clients/*/tuned/*.safetensors"))) == CLIENTS


def test_hulls_go_as_in_one_process(others, tmp_path):
    """The secrets of a sum last from message to message, whichever process gets the next one."""
    there = others["hull"]
    assert there.code == 0, there.output
    here = simulate(HULLS | {"results-dir": str(tmp_path)}, CLIENTS)
    one, other = (dict(np.load(folder / "hulls.npz")) for folder in (there.folder, here))
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)
    assert there.summary["metrics"]["hulls_exact"] is True
    assert there.summary["metrics"]["clients_summed"] == CLIENTS


def test_a_run_that_fails_says_so(runs):
    bad = runs["bad"]
    assert bad.code == 1, bad.output
    assert bad.summary["status"] == "failed"
    assert f"0 good replies of {CLIENTS}, needed are 1 (min-replies)" in bad.summary["error"]


def test_nothing_is_left(runs, home, mark):
    def marked(process):
        try:
            return (
                process.environ().get("CURVFED_TEST") == mark
                and process.status() != psutil.STATUS_ZOMBIE
            )
        except (psutil.Error, OSError):
            return False

    assert [process.cmdline() for process in psutil.process_iter() if marked(process)] == []
    assert not (home / ".flwr").exists()


def test_a_killed_worker_ends_the_run_with_its_cause(start, home, mark):
    process = start("killed", "num-rounds=100000", "min-replies=1")
    folder = home / "results of runs" / "killed"
    assert wait_until(lambda: (folder / "rounds.csv").exists() or process.poll() is not None, 300)
    actors = [
        each
        for each in psutil.Process(process.pid).children(recursive=True) + processes_of(mark)
        if "ClientAppActor" in " ".join(each.cmdline())
    ]
    actors[0].kill()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    error = json.loads((folder / "summary.json").read_text())["error"]
    assert "a Ray worker has died" in error
    assert "run-name=killed resume=true" in error
    assert output.count("dropped the reply") <= CLIENTS


def processes_of(mark):
    """Processes that inherited the value."""
    result = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get("CURVFED_TEST") == mark:
                result.append(process)
    return result


def test_two_machines_of_a_ray_cluster(start, home, tmp_path):
    """Two nodes on the loopback interface, each with a core."""
    [port] = free_ports(1)
    ray = [str(Path(sys.executable).parent / "ray"), "start", "--block", "--num-cpus=1"]
    ray += ["--disable-usage-stats"]
    words = (
        ["--head", f"--port={port}", "--include-dashboard=false"],
        [f"--address=127.0.0.1:{port}"],
    )
    with contextlib.ExitStack() as stack:
        for node in words:
            process = stack.enter_context(subprocess.Popen([*ray, *node], cwd=tmp_path))
            stack.callback(process.terminate)
            assert wait_until(lambda: is_open("127.0.0.1", port), 120)
        status = [ray[0], "status", f"--address=127.0.0.1:{port}"]
        assert wait_until(
            lambda: b"/2.0 CPU" in subprocess.run(status, stdout=subprocess.PIPE).stdout, 120
        )
        process = start("cluster", "method=fedavg", "--address", f"127.0.0.1:{port}")
        output, _ = process.communicate()
    assert process.returncode == 0, output
    settings = {"method": "fedavg", "dataset": "trees", "num-rounds": ROUNDS}
    here = simulate(settings | {"results-dir": str(tmp_path)}, CLIENTS)
    there = home / "results of runs" / "cluster"
    one, other = (load_file(folder / "model.safetensors") for folder in (there, here))
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)
