"""The table of the checks of a server and of a node.

`curvfed cluster doctor` makes them all; a SuperLink and a SuperNode make those that a start needs,
and `status` those that it needs.
"""

import socket
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from curvfed.client_app.node import Node
from curvfed.client_app.node.ledger import Ledger, ledger_of
from curvfed.deployments.flower_version import flower_and_transport
from curvfed.deployments.processes import LOOPBACK, is_open
from curvfed.extensions.cluster.commands import (
    ClusterError,
    ToleratedError,
    database,
    node_config,
    registry,
)
from curvfed.extensions.cluster.commands.certificates import (
    check_certificate,
    check_node_key,
    check_pair,
    check_private,
)
from curvfed.extensions.cluster.commands.flower_commands import BY, ONE_PORT, SILENT
from curvfed.extensions.cluster.commands.folder import (
    NodeFolder,
    ServerFolder,
    check_files,
    cluster_command,
)
from curvfed.extensions.cluster.commands.link import (
    Link,
    SilentError,
    check_clock,
    check_server,
    check_superlink,
    split_address,
)
from curvfed.extensions.cluster.commands.node_config import check_folder, gib
from curvfed.strategies.base.run_keys import home
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.store import Store, StoreError
from curvfed.tasks.amounts import amount

MIN_MEMORY = 2**30
"""Free bytes of memory that a SuperLink, or a SuperNode, needs with the process of a run."""

DOCTOR = "doctor"
START = "start"
STATUS = "status"
"""The commands that make a check."""


@dataclass(frozen=True)
class Check:
    """A row of the table.

    Attributes
    ----------
    name : str
        The subject of the check, in a word.
    find : callable
        Returns the sound state in words, or raises an error with the fault.
    remedy : str
        The remedy of a fault, if the error does not name one.
    commands : collection of str
        `DOCTOR`, `START`, `STATUS`.
    """

    name: str
    find: Callable[[], str]
    remedy: str = ""
    commands: Collection[str] = (DOCTOR,)

    def run(self) -> str:
        """The sound state, in words.

        Raises
        ------
        ClusterError
            With the fault and the remedy.
        """
        try:
            return self.find()
        except ClusterError as error:
            if not self.remedy:
                raise
            raise type(error)(f"{error}; {self.remedy}", key=error.kind) from None
        except (ConfigError, OSError) as error:
            raise ClusterError(str(error), key=getattr(error, "kind", "unreadable")) from None


def run_checks(
    checks: Iterable[Check], command: str, note_step: Callable[[str], None] | None = None
) -> int:
    """Make the checks of a command, print a line for each, and return the number of faults;
    `note_step` gets each check in words before it is made.

    Raises
    ------
    ClusterError
        The first fault that prevents a start.
    """
    wrong = 0
    for check in checks:
        if command not in check.commands:
            continue
        if note_step is not None:
            note_step(f"checks: {check.name}")
        try:
            print(f"ok     {check.name:12} {check.run()}", flush=True)
        except ClusterError as error:
            is_tolerated = isinstance(error, ToleratedError) and command != DOCTOR
            if command == START and not is_tolerated:
                raise
            wrong += not is_tolerated
            fault = " ".join(str(error).partition(BY)[0].split())
            print(f"{'note' if is_tolerated else 'WRONG':6} {check.name:12} {fault}", flush=True)
    return wrong


def server_checks(
    folder: ServerFolder, results: Path | None = None, bind: str = LOOPBACK
) -> list[Check]:
    """The checks of a server; `results` has its runs, and nodes connect to the address `bind`."""
    command = partial(cluster_command, folder=folder.path)
    renew = f"`{command('renew')}` makes a new one for the server"
    # A node's key need not stay here, and the authority's should not.
    keys = [folder.authority[1], folder.server[1], *(node.key for node in folder.nodes())]
    # runs of Flower that resume one another share a directory
    names = dict.fromkeys(registry.read_names(folder, registry.RUNS).values())
    runs = [(results or home() / "results") / name for name in names]
    always = (DOCTOR, START, STATUS)
    authority = folder.authority[0]
    remedy = database.database_remedy(folder)
    checks = [
        Check("flower", partial(_describe_flower, folder.api_port)),
        Check("certificate", partial(check_certificate, authority), renew),
        Check("certificate", partial(check_certificate, folder.server[0]), renew, always),
        Check("certificate", partial(check_pair, folder.server, authority), renew),
    ]
    checks += [_key_check(key) for key in keys if key.exists()]
    checks += [
        Check("ports", partial(_check_ports, folder, bind), commands=(START,)),
        Check("database", partial(database.check_database, folder), remedy, always),
        Check(
            "registered",
            partial(registry.check_registered, folder),
            registry.registered_remedy(folder),
        ),
    ]
    ledger = Ledger(registry.ledger_path(folder))
    checks += [
        Check("disk", partial(check_folder, folder.path, "--folder")),
        Check("memory", _check_memory, "end other programs"),
        Check("ledger", partial(_check_ledger, ledger)),
        Check("superlink", partial(check_started, folder), commands=(DOCTOR, STATUS)),
    ]
    if is_open(LOOPBACK, folder.api_port):
        checks.append(
            Check(
                "nodes",
                partial(registry.check_nodes, folder),
                "its log and `curvfed cluster doctor NODE` there, with the node's folder, say why."
                " A node that was killed and started again is accepted after a minute",
            )
        )
    stored = [run / "checkpoint" / "server" for run in runs if run.exists()]
    return [*checks, *[Check("run", partial(check_stored, path)) for path in stored]]


def node_checks(
    folder: NodeFolder, config: Mapping[str, Any], address: str, port: int = 0
) -> list[Check]:
    """The checks of a node with a configuration; `address` is that of its SuperLink, and `port`
    that of its own API."""
    split_address(address)
    node = Node.read(config)
    link = Link(address, folder.authority)
    state = Path(config["state-path"])
    both = (DOCTOR, START)
    bring = f"bring it from the server's nodes/{folder.name}, by `scp -p`"
    checks = [
        Check("flower", flower_and_transport),
        Check(
            "files",
            partial(check_files, folder),
            bring,
            both,
        ),
        Check(
            "certificate",
            partial(check_certificate, folder.authority),
            "a node's ca.crt is that of the server: bring it again",
        ),
    ]
    checks += [
        Check("superlink", partial(check_superlink, link), commands=both),
        Check("clock", partial(check_clock, link), commands=both),
        Check("policy", partial(node_config.check_policy, node), commands=both),
        Check("code", partial(node_config.check_code, node), commands=both),
    ]
    checks += [
        Check("keys", partial(node_config.check_keys, config), commands=both),
        Check("device", partial(node_config.check_device_memory, node), commands=both),
        Check("state", partial(node_config.check_state, state, folder), commands=both),
        Check("memory", _check_memory, "end other programs"),
    ]
    if folder.key.exists():
        pair = partial(check_node_key, folder.key, folder.public_key)
        checks[2:2] = [_key_check(folder.key, both), Check("key", pair, bring, both)]
    if port:
        program = "the SuperNode (its own API)"
        checks.append(
            Check("port", partial(check_port, LOOPBACK, port, program), commands=(START,))
        )
    if node.signing_key or node.roster:
        checks.append(Check("roster", partial(node_config.check_roster, node), commands=both))
    ledger = ledger_of(node)
    older_ledgers = [path for path in sorted(state.glob("ledger-*.jsonl")) if path != ledger.path]
    stored = sorted(state.glob("*/[0-9]*"))
    checks.append(Check("ledger", partial(_check_ledger, ledger), commands=both))
    checks += [Check("ledger", partial(_check_ledger, Ledger(path))) for path in older_ledgers]
    checks += [Check("personal", partial(check_stored, path)) for path in stored]
    # The last, since it can take minutes.
    checks.append(Check("data", partial(node_config.check_data, node), commands=both))
    return checks


def check_port(host: str, port: int, program: str) -> str:
    """Report that a port is free.

    Raises
    ------
    ClusterError
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ClusterError(
                f"{program} cannot listen on {host}:{port}: {error.strerror}", key="port-in-use"
            ) from None
    return f"{host}:{port} is free"


def check_stored(folder: Path) -> str:
    """Report the rounds of a folder of checkpoints or personal files.

    Raises
    ------
    ClusterError
        If one of them cannot be read.
    """
    store = Store(folder)
    sound = list[int]()
    for stamp in store.stamps():
        try:
            store.load(stamp)
        except StoreError as error:
            remedy = (
                f"without this file round {max(sound)} holds"
                if sound
                else "put back a copy, or begin another run"
            )
            raise ClusterError(f"{error}; {remedy}", key="damaged-state") from None
        sound.append(stamp)
    kept = f"rounds {', '.join(map(str, sound))}" if sound else "no round yet"
    return f"{folder}: {kept}"


def _key_check(path: Path, commands: Collection[str] = (DOCTOR,)) -> Check:
    return Check("key", partial(check_private, path), f"chmod 600 {path}", commands)


def _check_ports(folder: ServerFolder, bind: str) -> str:
    ports = [(LOOPBACK, folder.api_port), *([] if ONE_PORT else [(bind, folder.fleet_port)])]
    return ", ".join(check_port(*port, "the SuperLink") for port in ports)


def _describe_flower(api_port: int) -> str:
    text = flower_and_transport()
    if ONE_PORT:
        text += (
            f", at port {api_port} of this machine, which runs and registrations use too: other"
            ' machines need a proxy (docs/operating.md, "Flower from 1.40 on")'
        )
    return text


def _check_ledger(ledger: Ledger) -> str:
    return f"{ledger.path}: {amount(len(ledger.lines()), 'line')}"


def _check_memory() -> str:
    import torch

    from curvfed.client_app.resources import free_memory

    free = free_memory(torch.device("cpu"))
    if free < MIN_MEMORY:
        raise ClusterError(f"{gib(free)} are free, needed are {gib(MIN_MEMORY)}", key="no-memory")
    return f"{gib(free)} free"


def check_started(folder: ServerFolder) -> str:
    """Report that the SuperLink of this folder answers.

    Raises
    ------
    ClusterError
        If it does not; the text has the command that starts it.
    """
    try:
        return check_server(folder)
    except SilentError:
        if is_open(LOOPBACK, folder.api_port):
            raise
        check_port(LOOPBACK, folder.fleet_port, "the SuperLink")
        start = cluster_command("superlink", folder.path)
        raise ClusterError(f"the SuperLink does not run; `{start}` starts it", key=SILENT) from None
