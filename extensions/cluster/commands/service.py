"""`curvfed cluster service`: the SuperLink or a SuperNode as a service of systemd.

The units are those of extensions/cluster/systemd, with the paths of the cluster filled in.
"""

import importlib.resources
import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from curvfed.deployments.application import Application, Commands
from curvfed.extensions.cluster.commands import ClusterError
from curvfed.extensions.cluster.commands.folder import (
    LAST_PORT,
    Bind,
    Node,
    NodeConfig,
    NodeFolder,
    ServerFolder,
    SuperLink,
    cluster_command,
    open_folder,
)
from curvfed.extensions.cluster.commands.setup import check_name
from curvfed.tasks.stored_files import write_atomically

BOOTED = Path("/run/systemd/system")
"""A folder on machines that systemd has booted."""

HOMES = (Path("/home"), Path("/root"))
HEALTH_PORTS = {"superlink": 9095, "supernode": 9096}

System = Annotated[
    bool,
    typer.Option(
        "--system", help="A service of the machine, for root; default: a service of this user."
    ),
]

service = Application(
    name="service",
    add_completion=False,
    cls=Commands,
    no_args_is_help=True,
    help="""
Run the SuperLink or a SuperNode as a service of systemd, which starts it again after a failure, and
keeps its log. A service of a user starts when the user logs in, or at boot after `loginctl
enable-linger`; one of the machine (--system) starts at boot.

curvfed cluster service install
curvfed cluster service install ~/north --node-config 'partition-id=0 data-path="/srv/graph.pt"'
""",
)


@dataclass(frozen=True)
class Service:
    """The service of the SuperLink or of a node, of the machine or of a user."""

    node: str | None
    is_system: bool

    @property
    def kind(self) -> str:
        """`superlink` or `supernode`."""
        return "superlink" if self.node is None else "supernode"

    @property
    def name(self) -> str:
        """The name of its unit."""
        return f"curvfed-{self.kind}" + (f"@{self.node}" if self.node else "")

    @property
    def unit(self) -> Path:
        """The file of its unit."""
        folder = Path("/etc/systemd/system")
        if not self.is_system:
            folder = _user_folder() / "systemd" / "user"
        return folder / f"{self.name}.service"

    @property
    def environment(self) -> Path:
        """The file of its settings."""
        folder = Path("/etc") if self.is_system else _user_folder()
        return folder / "curvfed" / f"{self.name.removeprefix('curvfed-')}.env"

    @property
    def options(self) -> list[str]:
        """The options of systemd's commands for it."""
        return [] if self.is_system else ["--user"]

    def call_systemd(self, *words: str) -> None:
        """Print and run a command of `systemctl`.

        Raises
        ------
        ClusterError
            If it fails.
        """
        command = ["systemctl", *self.options, *words]
        print("$ " + " ".join(command), flush=True)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            reason = done.stderr.strip() or f"exit status {done.returncode}"
            raise ClusterError(f"{' '.join(command)}: {reason}", key="systemd")


@service.command()
def install(
    ctx: typer.Context,
    node: Node = None,
    node_config: NodeConfig = "",
    superlink: SuperLink = None,
    bind: Bind = "0.0.0.0",
    health_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=LAST_PORT,
            metavar="P",
            help="Port of its gRPC health service; default: 9095, a node 9096.",
        ),
    ] = None,
    system: System = False,
    no_start: Annotated[
        bool, typer.Option("--no-start", help="Write the files, and start nothing.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the files, and write nothing.")
    ] = False,
) -> None:
    """Write the unit and its settings, and start the service, now and at each login of its user
    (--system: at each boot)."""
    if node is None:
        folder: ServerFolder | NodeFolder = open_folder(ctx)
        values = {"BIND": bind}
    else:
        folder = ServerFolder(ctx.obj).find_node(node)
        user_home = _find_owner(folder.path).pw_dir if system else None
        config = _node_config(node_config, folder, user_home)
        values = {"SUPERLINK": superlink or folder.superlink, "NODE_CONFIG": config}
    service = _service(folder, system)
    health = str(health_port or HEALTH_PORTS[service.kind])
    values |= {"FOLDER": str(folder.path), "HEALTH_PORT": health}
    texts = service_files(service, folder.path, values)
    if dry_run:
        _print_files(texts)
        return
    if not BOOTED.is_dir() or not shutil.which("systemctl"):
        raise ClusterError(
            "systemd does not run on this machine;"
            f" `{cluster_command(service.kind, ctx.obj)}` runs it in the foreground",
            key="no-systemd",
        )
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode(), private=path == service.environment)
        print(f"written: {path}")
    service.call_systemd("daemon-reload")
    if not no_start:
        service.call_systemd("enable", service.name)
        # One that runs already takes over new settings by a restart alone.
        service.call_systemd("restart", service.name)
    print(" ".join(["log: journalctl", *service.options, "-f", "-u", service.name]))
    user = pwd.getpwuid(os.getuid()).pw_name
    if not system and not Path("/var/lib/systemd/linger", user).exists():
        print(f"It ends when you log out, unless you run once: loginctl enable-linger {user}")


@service.command()
def show(ctx: typer.Context, node: Node = None, system: System = False) -> None:
    """Print the installed unit and its settings."""
    service = _installed(ctx, node, system)
    _print_files({path: path.read_text() for path in (service.unit, service.environment)})


@service.command()
def remove(ctx: typer.Context, node: Node = None, system: System = False) -> None:
    """Stop the service, and remove its unit and its settings."""
    service = _installed(ctx, node, system)
    service.call_systemd("disable", "--now", service.name)
    for path in (service.unit, service.environment):
        path.unlink(missing_ok=True)
        print(f"removed: {path}")
    service.call_systemd("daemon-reload")


def service_files(service: Service, folder: Path, values: Mapping[str, str]) -> dict[Path, str]:
    """The files of a service by their paths; `folder` is the one of the cluster or of the node.

    Raises
    ------
    ClusterError
        If the service would run as root or without a home, or could not write its state.
    """
    instance = "@" if service.node else ""
    unit = _shipped(f"curvfed-{service.kind}{instance}.service")
    words = {
        "PYTHON": _word(sys.executable).replace("$", "$$"),
        "ENVIRONMENT": str(service.environment).replace("%", "%%"),
        "TARGET": "multi-user.target" if service.is_system else "default.target",
    }
    if service.is_system:
        node_config = values.get("NODE_CONFIG", "")
        unit += _shipped("system.conf")
        if re.search(r'\bdevice="cuda', node_config):
            unit += _shipped("gpu.conf")
        words |= _system_words(folder, _named_paths(node_config))
    settings = {}
    for name, value in values.items():
        escaped = re.sub(r'(["\\`$])', r"\\\1", value)
        settings[name] = f'"{escaped}"'
    settings["RESTART"] = " ".join(["systemctl", *service.options, "restart", service.name])
    return {
        service.unit: _fill(unit, words),
        service.environment: _fill(_shipped(f"{service.kind}.env"), settings),
    }


def _system_words(folder: Path, node_paths: Mapping[str, Path]) -> dict[str, str]:
    """The user and the rights of a service of the machine; `node_paths` are those in its node's
    configuration."""
    owner = _find_owner(folder)
    writable = [Path(owner.pw_dir), folder]
    state = node_paths.get("state-path", folder)
    if not any(state.is_relative_to(path) for path in writable):
        _check_state(state, owner)
        writable.append(state)
    # Its own Python and its data may lie in a home, too, and are only read.
    read = [*writable, Path(sys.prefix), Path(sys.base_prefix), *node_paths.values()]
    read += [path.resolve() for path in read]
    is_in_home = any(path.is_relative_to(home) for path in read for home in HOMES)
    return {
        "USER": owner.pw_name,
        "GROUP": str(owner.pw_gid),
        "WRITABLE": " ".join(_word(str(path)) for path in writable),
        "HOMES": "read-only" if is_in_home else "yes",
    }


def _service(folder: ServerFolder | NodeFolder, is_system: bool) -> Service:
    if isinstance(folder, ServerFolder):
        return Service(None, is_system)
    check_name(folder.name)  # the folder may have been renamed
    return Service(folder.name, is_system)


def _installed(ctx: typer.Context, node: str | None, is_system: bool) -> Service:
    server = ServerFolder(ctx.obj)
    service = _service(server.find_node(node) if node else server, is_system)
    if not service.unit.exists():
        raise ClusterError(
            f"there is no {service.unit}; `{cluster_command('service install', ctx.obj)}` makes it",
            key="missing-file",
        )
    return service


def _find_owner(folder: Path) -> pwd.struct_passwd:
    """The user as whom a service of the machine runs: the owner of its folder.

    Raises
    ------
    ClusterError
        If that is root, no user of this machine, or one without a home.
    """
    number = folder.stat().st_uid
    advice = "the service runs as its owner; give it to a user without rights: chown -R"
    try:
        owner = pwd.getpwuid(number)
    except KeyError:
        raise ClusterError(
            f"{folder} belongs to {number}, no user of this machine, and {advice}", key="no-user"
        ) from None
    if owner.pw_uid == 0:
        raise ClusterError(f"{folder} belongs to root, and {advice}", key="root")
    home = Path(owner.pw_dir)
    if home == Path("/") or not home.is_dir():
        raise ClusterError(
            f"the service runs as {owner.pw_name}, the owner of {folder}, and may write to that"
            f" user's home, which is {owner.pw_dir!r}; allowed is an existing folder other than /:"
            f" usermod --home DIR {owner.pw_name}",
            key="no-home",
        )
    return owner


def _named_paths(node_config: str) -> dict[str, Path]:
    """The paths in a node's configuration by their keys."""
    from curvfed.client_app.node import PATHS
    from curvfed.extensions.cluster.commands.node_config import parse_config

    config = parse_config(node_config) if node_config else {}
    return {key: Path(config[key]) for key in PATHS if config.get(key)}


def _check_state(state: Path, owner: pwd.struct_passwd) -> None:
    """Raise an error if a `state-path` outside the owner's home is not a folder: systemd lets a
    service write only to existing places."""
    if state == Path("/") or not state.is_dir():
        raise ClusterError(
            f"state-path: {state} is outside the home of {owner.pw_name}, {owner.pw_dir}; allowed"
            " there is an existing folder other than /, which belongs to that user",
            key="no-folder",
        )


def _node_config(text: str, folder: NodeFolder, user_home: str | None) -> str:
    """A configuration that holds in any working folder and for any user, once it is read as the
    node reads it."""
    from curvfed.deployments.run_results import toml_pairs
    from curvfed.extensions.cluster.commands.node_config import parse_config, read_config

    config = toml_pairs(parse_config(text, user_home))
    read_config(config, folder.policy)
    return config


def _user_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def _shipped(name: str) -> str:
    files = importlib.resources.files("curvfed.extensions.cluster")
    return (files / "systemd" / name).read_text(encoding="utf-8")


def _fill(text: str, values: Mapping[str, str]) -> str:
    """Replace each @NAME@ by its value."""
    return re.sub(r"@([A-Z_]+)@", lambda match: values[match[1]], text)


def _word(text: str) -> str:
    """A word in a unit, in quotes, without meaning for systemd."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _print_files(texts: Mapping[Path, str]) -> None:
    for path, text in texts.items():
        print(f"# {path}\n{text}")
