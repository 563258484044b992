"""Settings that cannot go together, or not here: found by `check` and before the start."""

import re
from pathlib import Path

import pytest

import curvfed
from curvfed.deployments.commands.command import main
from curvfed.deployments.cores import usable_cores
from curvfed.deployments.processes import free_ports

CORES = usable_cores()
RUN = ["method=fedavg", "num-rounds=1", "num-supernodes=2"]


def refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, *words: str, status: int = 2
) -> str:
    """The error of a command that ends with this status and makes nothing."""
    before = set(tmp_path.rglob("*"))
    assert main(words) == status
    assert set(tmp_path.rglob("*")) == before
    out = capsys.readouterr()
    return " ".join((out.out + out.err).split())


@pytest.mark.parametrize("command", ["check", "simulate", "run"])
def test_more_replies_than_clients(capsys, tmp_path, command):
    said = refused(
        capsys, tmp_path, command, *RUN, "min-replies=9", f"results-dir={tmp_path / 'r'}"
    )
    assert "min-replies is 9" in said
    assert "num-supernodes = 2 is up to 2" in said


@pytest.mark.parametrize(
    "words",
    [
        ["run", *RUN, "results-dir=r"],
        ["sweep", "a.toml", "--results", "r"],
        ["compare", "dataset=trees", "--results", "r"],
    ],
    ids=lambda words: words[0],
)
def test_more_cores_or_gpus_than_the_machine_has(capsys, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text('[settings]\nmethod = "fedavg"\n')
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    said = refused(capsys, tmp_path, *words, "--cpus", str(CORES + 1))
    assert f"--cpus {CORES + 1}: this machine has {CORES}" in said
    assert "--gpus 2: this machine has 1" in refused(capsys, tmp_path, *words, "--gpus", "2")
    assert "--gpus 1.5" in refused(capsys, tmp_path, *words, "--gpus", "1.5")
    [port] = free_ports(1)
    address = f"127.0.0.1:{port}"
    said = refused(capsys, tmp_path, *words, "--address", address, status=1)
    assert f"no Ray cluster at {address}" in said


def test_a_temporary_folder_too_long_for_the_sockets_of_ray(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("curvfed.deployments.resources.socket_folder", lambda: tmp_path)
    said = refused(capsys, tmp_path, "run", *RUN, f"results-dir={tmp_path / 'r'}")
    assert f"TMPDIR = {tmp_path} is too long" in said


@pytest.mark.parametrize("command", ["check", "simulate"])
def test_a_name_that_is_taken_and_a_device_that_is_not_there(capsys, tmp_path, command):
    curvfed.simulate(
        "fedavg", num_supernodes=2, num_rounds=1, run_name="a", results_dir=tmp_path, quiet=True
    )
    assert "exists" in refused(
        capsys, tmp_path, command, *RUN, f"results-dir={tmp_path}", "run-name=a"
    )
    assert "cuda:63" in refused(
        capsys, tmp_path, command, *RUN, f"results-dir={tmp_path}", "device=cuda:63"
    )


@pytest.mark.parametrize("command", ["check", "simulate"])
@pytest.mark.parametrize(
    ("body", "reason"),
    [("raise KeyError", "KeyError"), ("return 1", "returns an int")],
    ids=["raises", "number"],
)
def test_a_model_that_cannot_be_made(capsys, tmp_path, monkeypatch, command, body, reason):
    name = re.sub(r"\W", "_", f"model_{command}_{reason}")
    (tmp_path / f"{name}.py").write_text(f"def make(features, classes):\n    {body}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    said = refused(
        capsys, tmp_path, command, *RUN, f"model={name}:make", f"results-dir={tmp_path / 'r'}"
    )
    assert reason in said


@pytest.mark.parametrize("command", ["check", "simulate", "run"])
def test_a_folder_that_cannot_be_written(capsys, tmp_path, command):
    (tmp_path / "file").touch()
    said = refused(capsys, tmp_path, command, *RUN, f"results-dir={tmp_path / 'file' / 'r'}")
    assert f"{tmp_path / 'file'} takes no file: " in said
    # A superuser may write everywhere else.
    assert "/proc takes no file: " in refused(
        capsys, tmp_path, command, *RUN, "results-dir=/proc/r"
    )
