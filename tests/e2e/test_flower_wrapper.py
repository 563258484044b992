"""The wrapper of `flwr run` on a `flwr` of few lines: quoting, status, what it leaves."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from flwr.common.config import parse_config_args
from hypothesis import given
from hypothesis import strategies as st
from paused_clock import popen_out_of_time

from curvfed.deployments import patient_flwr, preflight
from curvfed.deployments.commands import run
from curvfed.deployments.commands.command import main
from curvfed.deployments.processes import wait_until
from curvfed.deployments.run_results import named, toml_pairs
from curvfed.strategies.base.keys import read_value
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import RunConfig

INTERPRETER = sys.executable
# `run` leaves a daemon behind, as Flower's does, and the summary that the test asks for.
FAKE_FLWR = """#!/bin/sh
case $1 in
run)
    echo once >> "$FAKE/runs"; n=$(wc -l < "$FAKE/runs")
    if [ -e "$FAKE/log$n" ]; then mkdir "$FLWR_HOME/local-superlink"; fi
    if [ -s "$FAKE/log$n" ]; then cp "$FAKE/log$n" "$FLWR_HOME/local-superlink/superlink.log"; fi
    sleep 300 >/dev/null 2>&1 & echo $! > "$FAKE/daemon"
    if [ -e "$FAKE/endless" ]; then "$FAKE/flwr-simulation"; fi
    if [ -e "$FAKE/summary" ]; then mkdir -p "$RUN" && cp "$FAKE/summary" "$RUN/summary.json" && : > "$RUN/config.toml"; fi
    if [ -e "$FAKE/log$n" ]; then exit "$(cat "$FAKE/code$n")"; fi
    exit "$(cat "$FAKE/code")" ;;
list) cat "$FAKE/list" ;;
esac
"""

FAKE_SIMULATION = """#!/bin/sh
trap 'touch "$FAKE/interrupted"; exit' INT
touch "$FAKE/started"
while :; do sleep 0.05; done
"""


class Fake:
    """A folder with the fake `flwr` and its answers; `command` is a run whose results go there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = folder / "results" / "one"
        self.command = [f"results-dir={folder / 'results'}", "run-name=one"]
        self.env = {"FAKE": str(folder), "RUN": str(self.run)}
        python = f'#!/bin/sh\nexec "{INTERPRETER}" "$@"\n'
        for name, text in {
            "flwr": FAKE_FLWR,
            "flwr-simulation": FAKE_SIMULATION,
            "python": python,
        }.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        self.answer(status="finished:completed", summary={"status": "completed"})

    def answer(self, *, status: str, summary: dict | None, code: int = 0) -> None:
        (self.folder / "code").write_text(str(code))
        (self.folder / "list").write_text(
            json.dumps({"runs": [{"status": status, "status-details": "as told"}]})
        )
        (self.folder / "summary").unlink(missing_ok=True)
        if summary is not None:
            (self.folder / "summary").write_text(json.dumps(summary))

    def daemon_is_gone(self) -> bool:
        pid = int((self.folder / "daemon").read_text())
        return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.fixture
def fake(tmp_path, monkeypatch):
    fake = Fake(tmp_path)
    for key, value in fake.env.items():
        monkeypatch.setenv(key, value)
    # The wrapper looks for Flower beside its own interpreter, and for stray summaries in the home
    # folder.
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return fake


# Quoting

texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | texts


@given(
    st.dictionaries(
        st.sampled_from(["method", "data-dir", "seed", "flatland.margin", "hull.epsilon"]), values
    )
)
def test_flower_reads_the_pairs_back(config):
    assert parse_config_args([toml_pairs(config)]) == config


@pytest.mark.parametrize(
    ("text", "default", "value"),
    [
        ("flatland", "", "flatland"),
        ('"flatland"', "", "flatland"),
        ("", "x", ""),
        ("a b", "", "a b"),
        ("2024", "", "2024"),
        ("true", "", "true"),
        ("2024", 0, 2024),
        ("1e-3", 0.1, 1e-3),
        (".5", "", ".5"),
        ("true", False, True),
        ("True", False, "True"),
        ("1979-05-27", 0, "1979-05-27"),
        ("1\nother = 2", 0, "1\nother = 2"),
    ],
)
def test_plain_values_are_read_as_meant(text, default, value):
    read = read_value(text, default)
    assert read == value
    assert type(read) is type(value)


# The command line


def test_the_command_is_complete(fake, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(
        run,
        "run_isolated",
        lambda command, *_: started.append(command) or ("finished:failed", "no"),
    )
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    pairs = [*fake.command, "hyperfed.margin=2", "method=local", "num-supernodes=3"]
    assert main(["run", *pairs, "--num-supernodes", "5", "--gpus", "0.25"]) == 1
    ((*words, app, stream, key, config, federation_key, federation),) = started
    assert [*words, stream, key] == ["flwr", "run", "--stream", "--run-config"]
    assert Path(app).name == "curvfed"
    given = {
        "hyperfed.margin": 2,
        "method": "local",
        "results-dir": str(fake.run.parent),
        "run-name": "one",
    }
    assert parse_config_args([config]) == given
    assert federation_key == "--federation-config"
    assert (
        federation == "num-supernodes=3 client-resources-num-cpus=1 client-resources-num-gpus=0.25"
    )


def test_results_are_named_and_absolute_without_being_asked_for(fake, monkeypatch):
    monkeypatch.chdir(fake.folder)
    settings = {"results-dir": "here", "dataset": "/data/my own.pt"}
    first, second = (named(settings, parse(settings)) for _ in range(2))
    assert first["results-dir"] == str(fake.folder / "here")
    assert str(first["run-name"]).startswith("flatland-my-own-")
    assert first["run-name"] != second["run-name"]


# The exit status

COMPLETED = {"status": "completed", "metrics": {"roc_auc": 0.75}}
FAILED = {"status": "failed", "error": "no such data"}


@pytest.mark.parametrize(
    ("summary", "code", "exit_status", "message"),
    [
        (COMPLETED, 0, 0, "75.0%"),
        (None, 0, 1, "the app left no summary"),
        (COMPLETED, 1, 1, "`flwr run` ended with exit status 1"),
    ],
)
def test_exit_status_of_the_processes(fake, capsys, summary, code, exit_status, message):
    fake.answer(status="finished:completed", summary=summary, code=code)
    assert main(["run", *fake.command]) == exit_status
    output = capsys.readouterr().out
    assert message in output
    assert ("`curvfed simulate` with the same keys needs" in output) is (summary is None)
    assert fake.daemon_is_gone()


@pytest.mark.parametrize(
    ("status", "summary", "message"),
    [
        ("finished:completed", FAILED, "no such data"),
        ("finished:failed", FAILED, "no such data"),
        ("finished:failed", COMPLETED, "as told"),
        ("finished:failed", None, "the app left no summary; as told"),
    ],
)
def test_a_run_has_failed_if_flower_or_the_app_says_so(
    fake, capsys, monkeypatch, status, summary, message
):
    def told(*_):
        if summary is not None:
            fake.run.mkdir(parents=True)
            (fake.run / "config.toml").touch()
            (fake.run / "summary.json").write_text(json.dumps(summary))
        return status, "as told"

    monkeypatch.setattr(run, "run_isolated", told)
    assert main(["run", *fake.command]) == 1
    output = capsys.readouterr().out
    assert message in output
    assert ("`curvfed simulate` with the same keys needs" in output) is (summary is None)


@pytest.mark.parametrize(
    ("starts", "runs", "exit_status"),
    [
        ([("Starting", 1), ("", 1), ("Uvicorn running", 0)], 3, 0),  # it ended at first
        pytest.param([("Starting", 1)] * 4, run.STARTS, 1, marks=pytest.mark.long),  # and always
        ([("Uvicorn running", 1)] * 2, 1, 1),  # up, and something else is wrong
    ],
)
def test_a_daemon_that_ended_at_once_is_started_again(fake, capfd, starts, runs, exit_status):
    for number, (log, code) in enumerate(starts, 1):
        (fake.folder / f"log{number}").write_text(log)
        (fake.folder / f"code{number}").write_text(str(code))
    assert main(["run", *fake.command]) == exit_status
    assert len((fake.folder / "runs").read_text().splitlines()) == runs
    assert capfd.readouterr().out.count("once more") == runs - 1
    assert fake.daemon_is_gone()


def test_a_daemon_that_does_not_answer_in_time_is_not_started_again(fake, capfd, monkeypatch):
    monkeypatch.setattr(patient_flwr, "START_TIME", 0.0)
    (fake.folder / "log1").write_text("Starting")
    (fake.folder / "code1").write_text("1")
    assert main(["run", *fake.command]) == 1
    assert len((fake.folder / "runs").read_text().splitlines()) == 1
    assert "Starting" in capfd.readouterr().out
    assert fake.daemon_is_gone()


PATIENT = f"""#!{INTERPRETER}
import os, pathlib, sys
from flwr.cli import local_superlink as it
pathlib.Path(os.environ["FAKE"], "limits").write_text(
    f"{{it.LOCAL_SUPERLINK_STARTUP_TIMEOUT}} {{it.CONTROL_API_PROBE_TIMEOUT}} {{sys.argv[1]}}"
)
sys.exit(7)
"""


def test_the_superlink_has_time_to_start_on_a_busy_machine(fake, capfd):
    """Three times Flower waited for 15 seconds, and the first run of a new machine failed."""
    (fake.folder / "flwr").write_text(PATIENT)
    (fake.folder / "list").write_text("none")
    assert main(["run", *fake.command]) == 1
    start, answer, command = (fake.folder / "limits").read_text().split()
    assert float(start) >= 120
    assert float(answer) >= 5
    assert command == "run"
    assert "`flwr run` ended with exit status 7" in capfd.readouterr().out


def test_an_earlier_summary_says_nothing_about_this_run(fake, monkeypatch, capsys):
    assert main(["run", *fake.command]) == 0
    assert main(["run", *fake.command]) == 2
    assert "exists; allowed is a new name" in capsys.readouterr().err
    # as if it were made while this run begins
    monkeypatch.setattr(preflight, "check_name", lambda config: None)
    fake.answer(status="finished:completed", summary=None)
    assert main(["run", *fake.command]) == 1


def test_a_summary_in_the_default_folder_is_found(fake, capsys, monkeypatch):
    monkeypatch.setenv("RUN", str(RunConfig().results_path / "one"))
    fake.answer(status="finished:failed", summary=FAILED)
    assert main(["run", *fake.command]) == 1
    assert "no such data" in capsys.readouterr().out


# What is left


def test_a_timeout_interrupts_the_run_and_stops_the_daemon(fake, capsys, monkeypatch):
    monkeypatch.setattr(preflight, "check_name", lambda config: None)
    (fake.folder / "endless").touch()
    (fake.run / "checkpoint" / "server").mkdir(parents=True)
    monkeypatch.setattr(
        "subprocess.Popen", popen_out_of_time(100, (fake.folder / "started").exists)
    )
    assert main(["run", *fake.command, "--timeout", "100"]) == run.OUT_OF_TIME
    assert "run-name=one resume=true" in capsys.readouterr().out
    assert (fake.folder / "interrupted").exists()
    assert fake.daemon_is_gone()


def started(fake: Fake, **settings: object) -> "subprocess.Popen[bytes]":
    """An endless run that is under way."""
    (fake.folder / "endless").touch()
    module = "curvfed.deployments.commands.command"
    code = (
        f"import sys; import {module} as it; sys.executable = {sys.executable!r};"
        " sys.exit(it.main())"
    )
    process = subprocess.Popen([INTERPRETER, "-c", code, "run", *fake.command], **settings)
    deadline = time.monotonic() + 600
    while not (fake.folder / "started").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


@pytest.mark.parametrize(
    "signum", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM]
)
def test_a_signal_interrupts_the_run_and_stops_the_daemon(fake, signum):
    process = started(fake)
    process.send_signal(signum)
    assert process.wait(600) == 128 + signum
    assert (fake.folder / "interrupted").exists()
    assert fake.daemon_is_gone()


@pytest.fixture
def short_folder():
    """A folder whose path is short enough for sockets, as those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.long
def test_nothing_is_left_of_a_run_that_is_killed_with_all_that_it_started(fake, short_folder):
    home = short_folder
    process = started(fake, env=os.environ | {"TMPDIR": str(home)})
    (own,) = home.glob("flwr-*")
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for each in family:
        each.kill()
    process.wait()
    assert wait_until(lambda: fake.daemon_is_gone() and not own.exists(), 120)
    assert run.processes(own) == []


def test_nothing_of_the_machine_is_shared(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "intranet")
    monkeypatch.setenv("RAY_ADDRESS", "cluster:6379")
    one, other = (run.environment(tmp_path / name) for name in "ab")
    private = ["FLWR_HOME", "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT", "FLWR_LOCAL_CONTROL_API_PORT"]
    assert len({env[key] for env in (one, other) for key in private}) == 6
    assert one["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
    own = [str(tmp_path / "a" / "programs"), str(Path(sys.executable).parent)]
    assert one["PATH"].split(os.pathsep)[:2] == own
    assert one["NO_PROXY"] == "intranet,127.0.0.1,localhost"
    assert one["RAY_ADDRESS"] == "local"
    shared = run.environment(tmp_path / "c", "cluster:6379")
    assert shared["RAY_ADDRESS"] == "cluster:6379"
