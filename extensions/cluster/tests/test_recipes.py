"""Recipes for services, containers and batch systems, as far as they run without engines."""

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
import typer
import yaml
from flwr.common.config import parse_config_args

from curvfed.client_app.node import KEYS
from curvfed.deployments.commands.command import main
from curvfed.extensions.cluster.commands import ClusterError
from curvfed.extensions.cluster.commands.group import cluster_app
from curvfed.extensions.cluster.commands.service import Service, service_files
from curvfed.extensions.cluster.commands.setup import make_cluster

ROOT = Path(__file__).parents[3]
CONTAINERS = ROOT / "extensions" / "cluster" / "containers"
GUIDE = ROOT / "docs" / "deployment.md"
PAGES = [GUIDE, GUIDE.with_name("operating.md")]
NODES = {"north", "south", "west"}

needs_systemd = pytest.mark.skipif(
    not shutil.which("systemd-analyze"),
    reason="no systemd-analyze, which checks the units (Debian: apt install systemd)",
)


def understood(words: list[str]) -> dict[str, object]:
    """What a command line of `curvfed cluster` tells its subcommand; it must be right."""
    assert [Path(words[0]).name, words[1]] == ["curvfed", "cluster"]
    group = typer.main.get_command(cluster_app)
    try:
        context = group.make_context("cluster", words[2:])
        words_left = []
        while isinstance(group, click.Group):
            words_left = [*context._protected_args, *context.args]
            name, group, words_left = group.resolve_command(context, words_left)
            context = group.make_context(name, words_left, parent=context)
        return context.params
    except (click.UsageError, click.exceptions.Exit) as error:
        pytest.fail(f"not understood: {shlex.join(words)}: {error}")


# systemd


NODE_CONFIG = 'partition-id=0 data-path="/srv/100% of $HOME/it\'s.pt" device="cuda:0"'


def installed(tmp_path: Path, node: str | None, is_system: bool) -> dict[str, str]:
    """The texts of a service's files by their suffixes."""
    folder = tmp_path / "a folder" / (node or "cluster")
    folder.mkdir(parents=True)
    if os.getuid() == 0:
        os.chown(folder, 1, 1)
    values = {"FOLDER": str(folder), "HEALTH_PORT": "9096", "BIND": "0.0.0.0"}
    if node:
        values |= {"SUPERLINK": "fl.example.org:9092", "NODE_CONFIG": NODE_CONFIG}
    files = service_files(Service(node, is_system), folder, values)
    return {path.suffix: text for path, text in files.items()}


SERVICES = pytest.mark.parametrize(
    ("node", "is_system"), [(None, False), (None, True), ("north", False), ("north", True)]
)


@SERVICES
@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path, node, is_system):
    """And a service of the machine may do little."""
    unit = tmp_path / (f"curvfed-supernode@{node}.service" if node else "curvfed-superlink.service")
    unit.write_text(installed(tmp_path, node, is_system)[".service"])
    commands = [["verify"]]
    if is_system:
        commands.append(["security", "--offline=true", "--threshold=25"])
    for words in commands:
        done = subprocess.run(
            ["systemd-analyze", *words, str(unit)], capture_output=True, text=True
        )
        # The table of `security` goes to stdout, and is no fault.
        output = done.stderr + (done.stdout if words == ["verify"] else "")
        complaints = [line for line in output.splitlines() if "curvfed" in line]
        assert (done.returncode, complaints) == (0, []), done.stdout[-200:] + done.stderr


@SERVICES
def test_the_services_start_what_there_is(tmp_path, node, is_system):
    files = installed(tmp_path, node, is_system)
    assert not re.search("@[A-Z_]+@", "".join(files.values()))
    variables = dict(re.findall(r'^(CURVFED_\w+)="(.*)"$', files[".env"], re.MULTILINE))
    variables = {name: re.sub(r"\\(.)", r"\1", value) for name, value in variables.items()}
    assert f"systemctl {'' if is_system else '--user '}restart curvfed-" in files[".env"]
    (start,) = re.findall(r"^ExecStart=(.*)$", files[".service"], re.MULTILINE)
    python, safe, module, *words = shlex.split(start)
    assert [python, safe, module] == [sys.executable, "-P", "-m"]
    options = understood(
        [variables[word[2:-1]] if word.startswith("${") else word for word in words]
    )
    if node:
        assert options["node_config"] == NODE_CONFIG
        assert Path(options["node"]).name == node
    assert ("User=" in files[".service"]) == is_system
    assert ("char-nvidia" in files[".service"]) == bool(is_system and node)
    settings = dict(re.findall(r"^(\w+)=(.*)$", files[".service"], re.MULTILINE))
    assert (settings["Restart"], settings["StartLimitIntervalSec"]) == ("always", "0")


@pytest.fixture
def owner(tmp_path, monkeypatch) -> SimpleNamespace:
    """The owner of a node's folder."""
    (tmp_path / "home").mkdir()
    (tmp_path / "homes" / "data").mkdir(parents=True)
    user = SimpleNamespace(pw_uid=7, pw_dir=str(tmp_path / "home"), pw_name="fl", pw_gid=7)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: user)
    monkeypatch.setattr("curvfed.extensions.cluster.commands.service.HOMES", (tmp_path / "homes",))
    return user


def system_unit(tmp_path: Path, config: str) -> str:
    """The unit of a node's service of the machine."""
    folder = tmp_path / "north"
    folder.mkdir(exist_ok=True)
    os.chown(folder, os.getuid() or 1, -1)
    values = {"FOLDER": str(folder), "HEALTH_PORT": "9096", "SUPERLINK": "a:1"}
    service = Service("north", is_system=True)
    return service_files(service, folder, values | {"NODE_CONFIG": config})[service.unit]


def test_a_service_of_the_machine_writes_its_state_and_reads_its_data(tmp_path, owner):
    unit = system_unit(tmp_path, f'state-path="{tmp_path}/home/state"')
    assert f'\nReadWritePaths="{tmp_path}/home" "{tmp_path}/north"\n' in unit
    assert "\nProtectHome=yes\n" in unit
    elsewhere = tmp_path / "elsewhere"
    with pytest.raises(ClusterError, match=f"state-path: {elsewhere} is outside"):
        system_unit(tmp_path, f'state-path="{elsewhere}"')
    elsewhere.mkdir()
    assert f' "{elsewhere}"\n' in system_unit(tmp_path, f'state-path="{elsewhere}"')
    (tmp_path / "link").symlink_to(tmp_path / "homes" / "data")
    for data in ("homes/data", "link"):
        unit = system_unit(tmp_path, f'data-path="{tmp_path}/{data}"')
        assert "\nProtectHome=read-only\n" in unit


SYSTEMCTL = """#!/bin/sh
echo "$*" >> "$HOME/asked"
[ ! -e "$HOME/broken" ] || { echo "Failed to connect to bus" >&2; exit 1; }
"""


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """The home of a user with a cluster, on a machine with a stand-in for systemd."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "systemctl").write_text(SYSTEMCTL)
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr("curvfed.extensions.cluster.commands.service.BOOTED", tmp_path)
    make_cluster(tmp_path / "curvfed" / "cluster", [], ["north"], 9092, 8000, 10)
    return tmp_path


def test_a_service_is_installed_shown_and_removed(home, capsys):
    node = ["north", "--node-config", "partition-id=0 num-partitions=2"]
    for words, name in ([], "superlink"), (node, "supernode@north"):
        unit = home / ".config" / "systemd" / "user" / f"curvfed-{name}.service"
        settings = home / ".config" / "curvfed" / f"{name}.env"
        assert main(["cluster", "service", "install", *words]) == 0
        assert stat.S_IMODE(settings.stat().st_mode) == 0o600
        capsys.readouterr()
        assert main(["cluster", "service", "show", *words[:1]]) == 0
        printed = capsys.readouterr().out
        assert unit.read_text() in printed
        assert settings.read_text() in printed
        assert main(["cluster", "service", "install", *words, "--dry-run"]) == 0
        assert capsys.readouterr().out == printed
        assert main(["cluster", "service", "remove", *words[:1]]) == 0
        assert not unit.exists()
        assert not settings.exists()
        assert main(["cluster", "service", "remove", *words[:1]]) == 1
        assert (home / "asked").read_text().splitlines() == [
            "--user daemon-reload",
            f"--user enable curvfed-{name}",
            f"--user restart curvfed-{name}",
            f"--user disable --now curvfed-{name}",
            "--user daemon-reload",
        ]
        (home / "asked").unlink()
    for port in ("9095", "9195"):  # a second one puts a changed setting into effect
        assert main(["cluster", "service", "install", "--health-port", port]) == 0
        assert f'"{port}"' in (home / ".config" / "curvfed" / "superlink.env").read_text()
        assert "--user restart curvfed-superlink" in (home / "asked").read_text().splitlines()
        (home / "asked").unlink()
    assert main(["cluster", "service", "install", "--no-start"]) == 0
    assert (home / "asked").read_text() == "--user daemon-reload\n"


# containers


def services(*names: str) -> dict[str, dict]:
    """The services of compose files, later ones over earlier, with no variable set."""
    merged: dict[str, dict] = {}
    for name in names:
        text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (CONTAINERS / name).read_text())
        for service, settings in yaml.safe_load(text)["services"].items():
            merged[service] = merged.get(service, {}) | settings
    return merged


def entry_point() -> list[str]:
    (command,) = re.findall(
        r"^ENTRYPOINT (\[.*\])$", (CONTAINERS / "Dockerfile").read_text(), re.MULTILINE
    )
    return json.loads(command)


@pytest.mark.parametrize("files", [["compose.yaml"], ["compose.yaml", "compose.gpu.yaml"]])
def test_the_containers_start_what_there_is(files):
    containers = services(*files)
    assert set(containers) == {"superlink", *NODES}
    configs = []
    for name, service in containers.items():
        options = understood([*entry_point(), *service["command"]])
        if name in NODES:
            assert options["node"] == f"/nodes/{name}"
            configs.append(parse_config_args([options["node_config"]]))
            assert set(configs[-1]) <= set(KEYS)
    assert sorted(config["partition-id"] for config in configs) == [0, 1, 2]
    expected = ["cuda:0" if len(files) > 1 else None] * 3
    assert [config.get("device") for config in configs] == expected


def test_the_containers_show_one_port_and_write_nothing_but_their_own():
    containers = services("compose.yaml")
    ports = {name: service["ports"] for name, service in containers.items() if "ports" in service}
    assert ports == {"superlink": ["9092:9092"]}
    for name, service in containers.items():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["restart"] == "unless-stopped"
        assert service["healthcheck"]["test"][0] == "CMD"
        if name in NODES:
            *mounts, volume = service["volumes"]
            assert [volume.rpartition(":")[2] for volume in mounts] == ["ro", "ro"]
            assert volume == f"{name}:/home/curvfed/curvfed"


def test_the_image_holds_the_app_and_no_more():
    lines = (CONTAINERS / "Dockerfile.dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"][
        "targets"
    ]["wheel"]
    assert rules[0] == "*"
    included = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert all((ROOT / name).exists() for name in included)
    expected = {
        *wheel["only-include"],
        *wheel["force-include"],
        "README.md",
        "LICENSE",
        "requirements.txt",
    }
    assert included == expected
    text = (CONTAINERS / "Dockerfile").read_text()
    for copied in re.findall(r"^COPY (?!--)(.*) \./$", text, re.MULTILINE):
        assert set(copied.split()) <= included
    assert "USER curvfed" in text
    assert "://" not in text


# The guide


def commands() -> list[list[str]]:
    """The command lines of `curvfed cluster` on the pages about clusters."""
    text = "".join(page.read_text() for page in PAGES)
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    alone = [line.partition(" > ")[0] for line in lines if "curvfed cluster" in line]
    word_lists = [shlex.split(line, comments=True) for line in alone]
    return [words[words.index("cluster") - 1 :] for words in word_lists]


def test_every_command_of_the_guide_is_one():
    assert len(commands()) > 10
    for words in commands():
        understood(words)


def test_the_guide_has_every_key_of_a_node():
    rows = re.findall(r"^\| (`.*?`) \|", GUIDE.read_text(), re.MULTILINE)
    documented = {key for row in rows for key in re.findall(r"`([\w-]+)`", row)}
    assert set(KEYS) <= documented


def test_no_service_runs_as_root(tmp_path, monkeypatch):
    root = SimpleNamespace(pw_uid=0, pw_dir="/root", pw_name="root", pw_gid=0)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: root)
    with pytest.raises(ClusterError, match="belongs to root"):
        installed(tmp_path, None, is_system=True)
