"""A command's work does not depend on its output: closed, full, without Unicode, unread."""

import fcntl
import json
import os
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from curvfed.deployments.commands.command import main
from curvfed.deployments.inprocess import simulate
from curvfed.deployments.processes import printing, wait_until
from curvfed.strategies.methods import METHODS

RUN = ["simulate", "method=fedavg", "num-rounds=1", "num-supernodes=2", "report=false"]


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


@pytest.mark.long
@pytest.mark.parametrize(
    "shell",
    ["set -o pipefail; CURVFED | head -c 9", "CURVFED > /dev/full 2>&1", "CURVFED >&- 2>&- <&-"],
    ids=["pipe", "full", "closed"],
)
def test_a_completed_run_exits_with_0_whatever_becomes_of_its_output(tmp_path, shell):
    done = run(shell, tmp_path, *RUN, f"results-dir={tmp_path}", "run-name=a")
    assert done.returncode == 0, done.stderr.decode()
    check_run(tmp_path / "a", done)


def check_run(path: Path, done: "subprocess.CompletedProcess[bytes]") -> None:
    """The run is completed, and nothing of its output is in its files, or the reverse."""
    assert b"Traceback" not in done.stderr + done.stdout
    assert b"Logging error" not in done.stderr
    summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    assert summary["status"] == "completed"
    names = {"rounds.csv", "clients.csv", "model.safetensors", "config.toml"}
    assert names <= {entry.name for entry in path.iterdir()}
    assert b"curvfed |" not in (path / "model.safetensors").read_bytes()


TWICE = """
import sys
from curvfed.deployments.commands.command import main
words = sys.argv[1:]
place = words.index("predict")
sys.exit(main(words[:place]) or main(words[place:]))
"""


@pytest.mark.long
def test_a_terminal_without_unicode_gets_a_table_in_ascii_and_predictions_in_utf8(tmp_path):
    rows = [f"0.0{number},-0.0{number},{'Café' if number % 2 else '鸟'}" for number in range(1, 9)]
    data = tmp_path / "birds.csv"
    data.write_text("\n".join([*rows, *rows, *rows]) + "\n")
    keys = ["min-client-size=2", f"dataset={data}", f"results-dir={tmp_path}", "run-name=a"]
    predict = ["predict", str(tmp_path / "a"), str(data)]
    done = subprocess.run(
        [sys.executable, "-c", TWICE, *RUN, *keys, *predict],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        cwd=tmp_path,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    check_run(tmp_path / "a", done)
    assert main([*predict, "--out", str(tmp_path / "out.csv")]) == 0
    table, _, predictions = done.stdout.rpartition(b"point,")
    assert b"+-" in table
    assert table.isascii()
    assert b"?" not in table
    assert b"point," + predictions == (tmp_path / "out.csv").read_bytes()
    assert {"Café", "鸟"} & {line.split(",")[1] for line in predictions.decode().splitlines()}


@pytest.mark.long
def test_predictions_that_a_full_disk_has_not_taken_are_an_error(tmp_path):
    directory = simulate({"method": "fedavg", "num-rounds": 0, "results-dir": str(tmp_path)}, 2)
    words = ["predict", str(directory), "trees", "--client", "0"]
    lost = run("CURVFED > /dev/full", tmp_path, *words)
    assert lost.returncode == 1
    assert b"No space left" in lost.stderr


def test_a_program_goes_on_although_its_lines_cannot_be_printed(capsys, monkeypatch):
    monkeypatch.setattr("curvfed.deployments.processes.RELAY_PATIENCE", 600.0)
    with printing([sys.executable, "-c", "print('±')"], dict(os.environ)) as program:
        assert program.wait() == 0
    assert capsys.readouterr().out == "±\n"


def is_full(reader: int, room: int) -> bool:
    """Whether so many bytes wait in the pipe to be read."""
    waiting = fcntl.ioctl(reader, termios.FIONREAD, bytes(4))
    return int.from_bytes(waiting, sys.byteorder) == room


def test_an_output_that_does_not_block_takes_all():
    reader, writer = os.pipe()
    room = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writer, False)  # as terminals of editors and asyncio leave it
    words = [sys.executable, "-m", "curvfed", "methods"]
    with subprocess.Popen(words, stdout=writer) as program:
        os.close(writer)
        assert wait_until(lambda: is_full(reader, room), 600, 0.02)
        time.sleep(0.2)  # what is written now finds no room
        with open(reader, "rb") as output:
            said = output.read()
    assert program.returncode == 0
    assert len(said) > room
    assert all(name.encode() in said for name in METHODS)
