"""The recipes for services, containers and batch systems, as far as a machine without their engines can try them."""

import contextlib
import csv
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pathspec
import psutil
import pytest
import yaml
from flwr.common.config import parse_config_args

from client_app.node_config import KEYS, check_names
from deployments.cluster.__main__ import parser
from deployments.cluster.daemons import wait_until

ROOT = Path(__file__).parents[2]
SYSTEMD, CONTAINERS = ROOT / "deployments" / "systemd", ROOT / "deployments" / "containers"
BATCH = ROOT / "deployments" / "slurm" / "curvfed.sbatch"
GUIDE = ROOT / "docs" / "deployment.md"
MODULE = ["python", "-m", "deployments.cluster"]
NODES = {"north", "south", "west"}

needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed here")


def understood(words: list[str]) -> object:
    """The options of a command line of `deployments.cluster`, which must be right."""
    assert [Path(words[0]).name, *words[1:3]] == MODULE
    try:
        return parser().parse_args(words[3:])
    except SystemExit:
        pytest.fail(f"not understood: {shlex.join(words)}")


# --- systemd ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def units(tmp_path: Path) -> list[Path]:
    """The units as they would be installed, with the Python of this environment."""
    made = []
    for path in SYSTEMD.glob("*.service"):
        text = path.read_text().replace("/opt/curvfed/.venv/bin/python", sys.executable)
        made.append(tmp_path / path.name.replace("@", "@north"))
        made[-1].write_text(text)
    drop_in = tmp_path / "curvfed-supernode@north.service.d"
    drop_in.mkdir()
    shutil.copy(SYSTEMD / "gpu.conf", drop_in)
    assert len(made) == 2
    return made


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_units(units):
    done = subprocess.run(["systemd-analyze", "verify", *map(str, units)], capture_output=True, text=True)
    about = [line for line in (done.stdout + done.stderr).splitlines() if "curvfed" in line]
    assert (done.returncode, about) == (0, [])


@needs_systemd
def test_the_services_may_do_little(units):
    for unit in units:
        done = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--threshold=25", str(unit)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-200:] + done.stderr


def test_the_services_start_what_there_is():
    for path in SYSTEMD.glob("*.service"):
        text = path.read_text()
        variables = dict(re.findall(r"(CURVFED_\w+)=(\S+)", text))
        variables["CURVFED_NODE_CONFIG"] = "partition-id=0"
        (start,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
        understood([variables[word[2:-1]] if word.startswith("${") else word for word in start.split()])


def test_a_node_that_was_killed_is_started_until_it_is_taken_back():
    text = (SYSTEMD / "curvfed-supernode@.service").read_text()
    settings = dict(line.split("=", 1) for line in text.splitlines() if re.match(r"\w+=", line))
    assert settings["Restart"] == "always"
    assert settings["StartLimitIntervalSec"] == "0"
    assert int(settings["RestartSec"]) >= 15


# --- containers ---------------------------------------------------------------------------------------------------------


def services(*names: str) -> dict[str, dict]:
    """The services of compose files, later ones over earlier, with no variable set."""
    merged: dict[str, dict] = {}
    for name in names:
        text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (CONTAINERS / name).read_text())
        for service, settings in yaml.safe_load(text)["services"].items():
            merged[service] = merged.get(service, {}) | settings
    return merged


def entry_point() -> list[str]:
    (found,) = re.findall(r"^ENTRYPOINT (\[.*\])$", (CONTAINERS / "Dockerfile").read_text(), re.MULTILINE)
    return json.loads(found)


@pytest.mark.parametrize("files", [["compose.yaml"], ["compose.yaml", "compose.gpu.yaml"]])
def test_the_containers_start_what_there_is(files):
    found = services(*files)
    assert set(found) == {"superlink", *NODES}
    configs = []
    for name, service in found.items():
        options = understood([*entry_point(), *service["command"]])
        if name in NODES:
            assert options.node == f"/nodes/{name}"
            configs.append(parse_config_args([options.node_config]))
            check_names(configs[-1])
    assert sorted(config["partition-id"] for config in configs) == [0, 1, 2]
    assert [config.get("device") for config in configs] == ["cuda:0" if len(files) > 1 else None] * 3


def test_the_containers_show_one_port_and_write_nothing_but_their_own():
    found = services("compose.yaml")
    assert {name: service.get("ports", []) for name, service in found.items()} == {
        "superlink": ["9092:9092"], "north": [], "south": [], "west": []
    }  # fmt: skip
    for name, service in found.items():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["restart"] == "unless-stopped"
        assert service["healthcheck"]["test"][0] == "CMD"
        if name in NODES:
            *given, own = service["volumes"]
            assert [volume.rpartition(":")[2] for volume in given] == ["ro", "ro"]
            assert own == f"{name}:/home/curvfed/curvfed"


def test_the_image_holds_the_app_and_no_more():
    lines = (CONTAINERS / "Dockerfile.dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert rules[0] == "*"
    kept = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert all((ROOT / name).exists() for name in kept)
    assert kept >= {*tool["hatch"]["build"]["targets"]["wheel"]["packages"], "pyproject.toml"}
    for pattern in tool["flwr"]["app"]["fab-exclude"]:  # one that matches no file keeps Flower from bundling the app
        files = [name for name in kept if (ROOT / name).is_file()] + ["deployments/__init__.py"]
        assert any(pathspec.PathSpec.from_lines("gitignore", [pattern]).match_files(files)), pattern
    text = (CONTAINERS / "Dockerfile").read_text()
    for copied in re.findall(r"^COPY (?!--)(.*) \./$", text, re.MULTILINE):
        assert set(copied.split()) <= kept
    assert "USER curvfed" in text
    assert "://" not in text


# --- Slurm --------------------------------------------------------------------------------------------------------------

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
            if str(folder) in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
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
    assert wait_until(lambda: any(checkpoints.glob("*.safetensors")) or first.poll() is not None, 300), said()
    assert first.poll() is None, said()
    first.send_signal(signal.SIGUSR1)  # to the script alone, as Slurm does it
    assert first.wait(120) != 0
    assert (home / "requeued").read_text() == "4242\n"
    assert [path.name for path in job.glob("start-*")] == []
    assert wait_until(lambda: not processes(home), 20), processes(home)
    done = json.loads((run / "summary.json").read_text())["rounds"]

    second = start(1, done + 2)
    assert second.wait(300) == 0, said()
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["status"], summary["num_clients"], summary["rounds"]) == ("completed", 2, done + 2)
    with (run / "rounds.csv").open() as file:
        rounds = [int(row["round"]) for row in csv.DictReader(file) if row["phase"] == "train"]
    assert rounds == list(range(1, done + 3))
    assert sorted(path.name for path in home.glob("state-*")) == ["state-0", "state-1"]
    assert sorted(path.name for path in job.iterdir()) == ["node-0.log", "node-1.log", "superlink.log"]
    assert wait_until(lambda: not processes(home), 20), processes(home)


# --- The guide ----------------------------------------------------------------------------------------------------------


def commands() -> list[list[str]]:
    """The command lines of `deployments.cluster` in the guide."""
    blocks = re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    found = [shlex.split(line, comments=True) for line in lines if "-m deployments.cluster" in line]
    return [words[next(i for i, word in enumerate(words) if word.endswith("python")) :] for words in found]


def test_every_command_of_the_guide_is_one():
    assert len(commands()) > 10
    for words in commands():
        understood(words)


def test_the_guide_has_every_key_of_a_node():
    rows = re.findall(r"^\| (`.*?`) \|", GUIDE.read_text(), re.MULTILINE)
    named = {key for row in rows for key in re.findall(r"`([\w-]+)`", row)}
    assert set(KEYS) <= named
