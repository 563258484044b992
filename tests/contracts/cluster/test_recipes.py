"""The recipes for services, containers and batch systems, as far as a machine without their engines
can try them."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
import typer
import yaml
from flwr.common.config import parse_config_args

from curvfed.client_app.node.node import KEYS
from curvfed.deployments.commands import cluster

ROOT = Path(__file__).parents[3]
SYSTEMD, CONTAINERS = ROOT / "deployments" / "systemd", ROOT / "deployments" / "containers"
BATCH = ROOT / "deployments" / "slurm" / "curvfed.sbatch"
GUIDE = ROOT / "docs" / "deployment.md"
PAGES = [GUIDE, GUIDE.with_name("operating.md")]
NODES = {"north", "south", "west"}

needs_systemd = pytest.mark.skipif(
    not shutil.which("systemd-analyze"),
    reason="this machine has no systemd, which brings systemd-analyze",
)


def understood(words: list[str]) -> dict[str, object]:
    """What a command line of `curvfed cluster` tells its subcommand; it must be right."""
    assert [Path(words[0]).name, words[1]] == ["curvfed", "cluster"]
    group = typer.main.get_command(cluster.app)
    try:
        top = group.make_context("cluster", words[2:])
        name, subcommand, rest = group.resolve_command(top, [*top._protected_args, *top.args])
        return subcommand.make_context(name, rest, parent=top).params
    except (click.UsageError, click.exceptions.Exit) as error:
        pytest.fail(f"not understood: {shlex.join(words)}: {error}")


# --- systemd
# ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def units(tmp_path: Path) -> list[Path]:
    """The units as they would be installed, with the Python of this environment."""
    made = []
    for path in SYSTEMD.glob("*.service"):
        text = re.sub("/opt/curvfed/.venv/bin/(curvfed|python)", sys.executable, path.read_text())
        made.append(tmp_path / path.name.replace("@", "@north"))
        made[-1].write_text(text)
    drop_in = tmp_path / "curvfed-supernode@north.service.d"
    drop_in.mkdir()
    shutil.copy(SYSTEMD / "gpu.conf", drop_in)
    assert len(made) == 2
    return made


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_units(units):
    done = subprocess.run(
        ["systemd-analyze", "verify", *map(str, units)], capture_output=True, text=True
    )
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
        understood(
            [variables[word[2:-1]] if word.startswith("${") else word for word in start.split()]
        )


def test_a_node_that_was_killed_is_started_until_it_is_taken_back():
    text = (SYSTEMD / "curvfed-supernode@.service").read_text()
    settings = dict(line.split("=", 1) for line in text.splitlines() if re.match(r"\w+=", line))
    assert settings["Restart"] == "always"
    assert settings["StartLimitIntervalSec"] == "0"
    assert int(settings["RestartSec"]) >= 15


# --- containers
# ---------------------------------------------------------------------------------------------------------


def services(*names: str) -> dict[str, dict]:
    """The services of compose files, later ones over earlier, with no variable set."""
    merged: dict[str, dict] = {}
    for name in names:
        text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (CONTAINERS / name).read_text())
        for service, settings in yaml.safe_load(text)["services"].items():
            merged[service] = merged.get(service, {}) | settings
    return merged


def entry_point() -> list[str]:
    (found,) = re.findall(
        r"^ENTRYPOINT (\[.*\])$", (CONTAINERS / "Dockerfile").read_text(), re.MULTILINE
    )
    return json.loads(found)


@pytest.mark.parametrize("files", [["compose.yaml"], ["compose.yaml", "compose.gpu.yaml"]])
def test_the_containers_start_what_there_is(files):
    found = services(*files)
    assert set(found) == {"superlink", *NODES}
    configs = []
    for name, service in found.items():
        options = understood([*entry_point(), *service["command"]])
        if name in NODES:
            assert options["node"] == f"/nodes/{name}"
            configs.append(parse_config_args([options["node_config"]]))
            assert set(configs[-1]) <= set(KEYS)
    assert sorted(config["partition-id"] for config in configs) == [0, 1, 2]
    assert [config.get("device") for config in configs] == [
        "cuda:0" if len(files) > 1 else None
    ] * 3


def test_the_containers_show_one_port_and_write_nothing_but_their_own():
    found = services("compose.yaml")
    assert {name: service.get("ports", []) for name, service in found.items()} == {
        "superlink": ["9092:9092"],
        "north": [],
        "south": [],
        "west": [],
    }
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
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"][
        "targets"
    ]["wheel"]
    assert rules[0] == "*"
    kept = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert all((ROOT / name).exists() for name in kept)
    assert kept == {
        *wheel["only-include"],
        *wheel["force-include"],
        "README.md",
        "LICENSE",
        "requirements.txt",
    }
    text = (CONTAINERS / "Dockerfile").read_text()
    for copied in re.findall(r"^COPY (?!--)(.*) \./$", text, re.MULTILINE):
        assert set(copied.split()) <= kept
    assert "USER curvfed" in text
    assert "://" not in text


# --- The guide
# ----------------------------------------------------------------------------------------------------------


def commands() -> list[list[str]]:
    """The command lines of `curvfed cluster` on the pages about clusters."""
    text = "".join(page.read_text() for page in PAGES)
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    found = [shlex.split(line, comments=True) for line in lines if "curvfed cluster" in line]
    return [words[words.index("cluster") - 1 :] for words in found]


def test_every_command_of_the_guide_is_one():
    assert len(commands()) > 10
    for words in commands():
        understood(words)


def test_the_guide_has_every_key_of_a_node():
    rows = re.findall(r"^\| (`.*?`) \|", GUIDE.read_text(), re.MULTILINE)
    named = {key for row in rows for key in re.findall(r"`([\w-]+)`", row)}
    assert set(KEYS) <= named
