"""A command's work does not depend on its output: closed, full, without Unicode, unread."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from curvfed.deployments.commands.command import main
from curvfed.deployments.inprocess import simulate
from curvfed.deployments.processes import printing
from curvfed.strategies.methods import METHODS

RUN = ["simulate", "method=fedavg", "num-rounds=1", "num-supernodes=2", "report=false"]
ASCII = {"PYTHONIOENCODING": "ascii"}


def run(
    shell: str, tmp_path: Path, *words: str, **variables: str
) -> "subprocess.CompletedProcess[bytes]":
    """A command in a shell: `$0 "$@"` is curvfed with the words."""
    program = f'"{sys.executable}" -m curvfed'
    return subprocess.run(
        ["bash", "-c", shell.replace("CURVFED", f'{program} "$@"'), "bash", *words],
        env=os.environ | variables,
        cwd=tmp_path,
        capture_output=True,
        timeout=600,
    )


@pytest.mark.parametrize(
    ("shell", "variables"),
    [
        pytest.param("set -o pipefail; CURVFED | head -c 9", {}, marks=pytest.mark.long),
        pytest.param("CURVFED > /dev/full 2>&1", {}, marks=pytest.mark.long),
        pytest.param("CURVFED >&- 2>&- <&-", {}, marks=pytest.mark.long),
        ("CURVFED", ASCII),
    ],
    ids=["pipe", "full", "closed", "ascii"],
)
def test_a_completed_run_exits_with_0_whatever_becomes_of_its_output(tmp_path, shell, variables):
    done = run(shell, tmp_path, *RUN, f"results-dir={tmp_path}", "run-name=a", **variables)
    assert done.returncode == 0, done.stderr.decode()
    assert b"Traceback" not in done.stderr + done.stdout
    assert b"Logging error" not in done.stderr
    summary = json.loads((tmp_path / "a" / "summary.json").read_text(encoding="utf-8"))
    assert summary["status"] == "completed"
    names = {"rounds.csv", "clients.csv", "model.safetensors", "config.toml"}
    assert names <= {path.name for path in (tmp_path / "a").iterdir()}
    assert b"curvfed |" not in (tmp_path / "a" / "model.safetensors").read_bytes()
    if variables:
        assert b"+-" in done.stdout
        assert done.stdout.isascii()
        assert b"?" not in done.stdout


@pytest.mark.long
def test_predictions_that_a_full_disk_has_not_taken_are_an_error(tmp_path):
    directory = simulate({"method": "fedavg", "num-rounds": 0, "results-dir": str(tmp_path)}, 2)
    words = ["predict", str(directory), "trees", "--client", "0"]
    lost = run("CURVFED > /dev/full", tmp_path, *words)
    assert lost.returncode == 1
    assert b"No space left" in lost.stderr


def test_predictions_are_utf8_on_a_terminal_without_it(tmp_path):
    rows = [f"0.0{number},-0.0{number},{'Café' if number % 2 else '鸟'}" for number in range(1, 9)]
    (tmp_path / "birds.csv").write_text("\n".join([*rows, *rows, *rows]) + "\n")
    keys = {"method": "fedavg", "num-rounds": 0, "min-client-size": 2}
    settings = keys | {"dataset": str(tmp_path / "birds.csv"), "results-dir": str(tmp_path)}
    directory = simulate(settings | {"report": False}, 2)
    words = ["predict", str(directory), str(tmp_path / "birds.csv")]
    printed = run("CURVFED", tmp_path, *words, **ASCII)
    assert printed.returncode == 0, printed.stderr.decode()
    assert main([*words, "--out", str(tmp_path / "out.csv")]) == 0
    assert printed.stdout == (tmp_path / "out.csv").read_bytes()
    assert {"Café", "鸟"} & {line.split(",")[1] for line in printed.stdout.decode().splitlines()}


def test_a_program_goes_on_although_its_lines_cannot_be_printed(capsys, monkeypatch):
    monkeypatch.setattr("curvfed.deployments.processes.RELAY_PATIENCE", 600.0)
    with printing([sys.executable, "-c", "print('±')"], dict(os.environ)) as program:
        assert program.wait() == 0
    assert capsys.readouterr().out == "±\n"


def test_an_output_that_does_not_block_takes_all(tmp_path):
    reader, writer = os.pipe()
    room = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writer, False)  # as terminals of editors and asyncio leave it
    with subprocess.Popen([sys.executable, "-m", "curvfed", "methods"], stdout=writer) as program:
        os.close(writer)
        with open(reader, "rb") as output:
            said = output.read()
    assert program.returncode == 0
    assert len(said) > room
    assert list(METHODS)[-1].encode() in said
