"""The checks of a cluster's server or node, a line each.

A check returns what is in order, or raises an error with the fault and the remedy.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from curvfed.client_app.node.ledger import Ledger
from curvfed.deployments.cluster import database, registry
from curvfed.deployments.cluster.certificates import check_pair
from curvfed.deployments.cluster.checks import connections
from curvfed.deployments.cluster.checks.clock import check_clock
from curvfed.deployments.cluster.checks.node import check_folder, gib, read_config
from curvfed.deployments.cluster.checks.superlink import (
    SilentError,
    check_server,
    check_superlink,
    link_of,
)
from curvfed.deployments.cluster.daemons import Daemon
from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.cluster.flower_commands import BY
from curvfed.deployments.cluster.folder import ServerFolder
from curvfed.deployments.processes import LOOPBACK
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.run_keys import home
from curvfed.strategies.wire.store import Store, StoreError

MIN_MEMORY = 2**30
"""Free bytes of memory that a SuperLink, or a SuperNode, needs with the process of a run."""

ANY_PART = "partition-id=0 num-partitions=1"
"""The configuration for a node without one."""

Check = tuple[str, Callable[[], str]]


def examine(checks: Iterable[Check]) -> int:
    """Make every check and print its line; the exit status, 1 if one fails."""
    wrong = 0
    for name, check in checks:
        try:
            print(f"ok     {name:12} {check()}", flush=True)
        except (ClusterError, ConfigError, OSError) as error:
            wrong += 1
            print(f"WRONG  {name:12} {' '.join(str(error).partition(BY)[0].split())}", flush=True)
    print(f"found wrong: {wrong}")
    return int(wrong > 0)


def server_checks(folder: ServerFolder, results: Path | None = None) -> list[Check]:
    """The checks of a server; `results` has its runs."""
    # A node's key need not stay here, and the authority's should not.
    keys = [folder.authority[1], folder.server[1], *(node.key for node in folder.nodes())]
    runs = [
        (results or home() / "results") / name
        for name in registry.read_names(folder, registry.RUNS).values()
    ]
    is_up = connections.is_open(LOOPBACK, folder.api_port)
    online = [("nodes", partial(_check_nodes, folder))] if is_up else []
    return [
        *[
            ("certificate", partial(connections.check_certificate, pair[0], True))
            for pair in (folder.authority, folder.server)
        ],
        ("certificate", partial(check_pair, folder.server, folder.authority[0])),
        *[("key", partial(connections.check_private, key)) for key in keys if key.exists()],
        ("database", partial(database.check, folder)),
        ("registered", partial(_check_registered, folder)),
        ("disk", partial(check_folder, folder.path, "--folder")),
        ("memory", _check_memory),
        ("ledger", partial(_check_ledger, registry.ledger_path(folder))),
        ("superlink", partial(_check_superlink, folder)),
        *online,
        *[
            ("run", partial(check_stored, run / "checkpoint" / "server"))
            for run in runs
            if run.exists()
        ],
    ]


def node_checks(
    server: Path, name: str, node_config: str, address: str | None = None
) -> list[Check]:
    """The checks of a node, by its folder or its name in the server's folder; `address` is that of
    its SuperLink."""
    node = ServerFolder(server).find_node(name)
    config, config_checks = read_config(node_config or ANY_PART, node.policy)
    link = link_of(node, address)
    state = Path(config["state-path"])
    return [
        ("files", partial(connections.check_files, node)),
        ("certificate", partial(connections.check_certificate, node.authority, True)),
        ("superlink", partial(check_superlink, link)),
        ("clock", partial(check_clock, link)),
        *config_checks.items(),
        ("memory", _check_memory),
        ("supernode", partial(_check_killed, Daemon(node.running, node.name))),
        *[
            ("ledger", partial(_check_ledger, path))
            for path in sorted(state.glob("ledger-*.jsonl"))
        ],
        *[("personal", partial(check_stored, path)) for path in sorted(state.glob("*/[0-9]*"))],
    ]


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
    return f"{folder}: rounds {', '.join(map(str, sound)) or 'none'}"


def _check_ledger(path: Path) -> str:
    return f"{path}: {len(Ledger(path).lines())} lines"


def _check_registered(folder: ServerFolder) -> str:
    ids = registry.read_names(folder)
    missing = [node.name for node in folder.nodes() if node.name not in ids]
    if missing:
        raise ClusterError(
            f"not registered: {', '.join(missing)}; `curvfed cluster register` lets them take part",
            key="not-registered",
        )
    return f"{len(ids)} nodes"


def _check_memory() -> str:
    import torch

    from curvfed.client_app.resources import free_memory

    free = free_memory(torch.device("cpu"))
    if free < MIN_MEMORY:
        raise ClusterError(
            f"{gib(free)} are free, needed are {gib(MIN_MEMORY)}; end other programs",
            key="no-memory",
        )
    return f"{gib(free)} free"


def _check_superlink(folder: ServerFolder) -> str:
    try:
        return check_server(folder)
    except SilentError:
        if connections.is_open(LOOPBACK, folder.api_port):
            raise
        connections.check_port(LOOPBACK, folder.fleet_port, "the SuperLink")
        _check_killed(Daemon(folder.running, "superlink"))
        raise ClusterError(
            "the SuperLink does not run; `curvfed cluster superlink` starts it",
            key="silent-superlink",
        ) from None


def _check_killed(daemon: Daemon) -> str:
    if daemon.was_killed:
        raise ClusterError(
            f"{daemon.name} was killed, or its machine went down; start it again, its log is"
            f" {daemon.log}",
            key="killed",
        )
    return str(daemon) if daemon.process() else "not in the background here"


def _check_nodes(folder: ServerFolder) -> str:
    nodes = registry.registered_nodes(folder)
    offline = [
        f"{node['name'] or node['node-id']} since {node['offline-at'] or 'ever'}"
        for node in nodes
        if node["status"] != "online"
    ]
    if offline:
        raise ClusterError(
            f"not connected: {', '.join(offline)}; its log and `curvfed cluster doctor` there say"
            " why. A node that was killed and started again is accepted after a minute",
            key="not-connected",
        )
    return f"{len(nodes)} connected"
