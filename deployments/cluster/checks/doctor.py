"""What is wrong with a cluster's server or node, one line each, with the way to mend it.

A check says what it has found in order, or raises an error that says what is not and what to do.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from curvfed.client_app.node.ledger import Ledger
from curvfed.deployments.cluster import database, registry
from curvfed.deployments.cluster.certificates import check_pair
from curvfed.deployments.cluster.checks import connections as checks
from curvfed.deployments.cluster.checks.clock import check_clock
from curvfed.deployments.cluster.checks.node import check_folder, gib, parts
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

LEAST_MEMORY = 2**30
"""Free bytes of memory that a SuperLink or a SuperNode and the process of a run need at least."""

ANY_PART = "partition-id=0 num-partitions=1"
"""The configuration of a node whose own is not given."""

Check = tuple[str, Callable[[], str]]


def examine(found: Iterable[Check]) -> int:
    """Make every check and print its line; the exit status, 1 if one has found something wrong."""
    wrong = 0
    for name, check in found:
        try:
            print(f"ok     {name:12} {check()}", flush=True)
        except (ClusterError, ConfigError, OSError) as error:
            wrong += 1
            print(f"WRONG  {name:12} {' '.join(str(error).partition(BY)[0].split())}", flush=True)
    print(f"found wrong: {wrong}")
    return int(wrong > 0)


def server_checks(folder: ServerFolder, results: Path | None = None) -> list[Check]:
    """The checks of a server; `results` has its runs."""
    # A node's key need not stay here, and that of the authority should not.
    keys = [folder.authority[1], folder.server[1], *(node.key for node in folder.nodes())]
    runs = [
        (results or home() / "results") / name
        for name in registry.known(folder, registry.RUNS).values()
    ]
    return [
        *[
            ("certificate", partial(checks.check_certificate, pair[0], True))
            for pair in (folder.authority, folder.server)
        ],
        ("certificate", partial(check_pair, folder.server, folder.authority[0])),
        *[("key", partial(checks.check_private, key)) for key in keys if key.exists()],
        ("database", partial(database.check, folder)),
        ("registered", partial(_check_registered, folder)),
        ("disk", partial(check_folder, folder.path, "--folder")),
        ("memory", _check_memory),
        ("ledger", partial(_check_ledger, registry.ledger(folder))),
        ("superlink", partial(_check_superlink, folder)),
        *(
            [("nodes", partial(_check_nodes, folder))]
            if checks.is_open(LOOPBACK, folder.api_port)
            else []
        ),
        *[
            ("run", partial(check_stored, run / "checkpoint" / "server"))
            for run in runs
            if run.exists()
        ],
    ]


def node_checks(
    server: Path, name: str, node_config: str, address: str | None = None
) -> list[Check]:
    """The checks of a node, by its folder or its name in the folder of the server; `address` is
    that of its SuperLink."""
    node = ServerFolder(server).find_node(name)
    config, named = parts(node_config or ANY_PART, node.policy)
    link = link_of(node, address)
    return [
        ("files", partial(checks.check_files, node)),
        ("certificate", partial(checks.check_certificate, node.authority, True)),
        ("superlink", partial(check_superlink, link)),
        ("clock", partial(check_clock, link)),
        *named.items(),
        ("memory", _check_memory),
        ("supernode", partial(_check_killed, Daemon(node.running, node.name))),
        *[
            ("ledger", partial(_check_ledger, path))
            for path in sorted(Path(config["state-path"]).glob("ledger-*.jsonl"))
        ],
        *[
            ("personal", partial(check_stored, path))
            for path in sorted(Path(config["state-path"]).glob("*/[0-9]*"))
        ],
    ]


def check_stored(folder: Path) -> str:
    """Say which rounds a folder of checkpoints or personal files has.

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
            mend = (
                f"without this file round {max(sound)} holds"
                if sound
                else "put back a copy, or begin another run"
            )
            raise ClusterError(f"{error}; {mend}") from None
        sound.append(stamp)
    return f"{folder}: rounds {', '.join(map(str, sound)) or 'none'}"


def _check_ledger(path: Path) -> str:
    return f"{path}: {len(Ledger(path).lines())} lines"


def _check_registered(folder: ServerFolder) -> str:
    ids = registry.known(folder)
    if missing := [node.name for node in folder.nodes() if node.name not in ids]:
        raise ClusterError(
            f"not registered: {', '.join(missing)}; `curvfed cluster register` lets them take part"
        )
    return f"{len(ids)} nodes"


def _check_memory() -> str:
    import torch

    from curvfed.client_app.resources import free_memory

    if (free := free_memory(torch.device("cpu"))) < LEAST_MEMORY:
        raise ClusterError(
            f"{gib(free)} are free, needed are {gib(LEAST_MEMORY)}; end other programs"
        )
    return f"{gib(free)} free"


def _check_superlink(folder: ServerFolder) -> str:
    try:
        return check_server(folder)
    except SilentError:
        if checks.is_open(LOOPBACK, folder.api_port):
            raise
        checks.check_port(LOOPBACK, folder.fleet_port, "the SuperLink")
        _check_killed(Daemon(folder.running, "superlink"))
        raise ClusterError(
            "the SuperLink does not run; `curvfed cluster superlink` starts it"
        ) from None


def _check_killed(daemon: Daemon) -> str:
    if daemon.was_killed:
        raise ClusterError(
            f"{daemon.name} was killed, or its machine went down; start it again, its log is"
            f" {daemon.log}"
        )
    return str(daemon) if daemon.process() else "not in the background here"


def _check_nodes(folder: ServerFolder) -> str:
    nodes = registry.present(folder)
    if away := [
        f"{node['name'] or node['node-id']} since {node['offline-at'] or 'ever'}"
        for node in nodes
        if node["status"] != "online"
    ]:
        raise ClusterError(
            f"not connected: {', '.join(away)}; its log and `curvfed cluster doctor` there say why."
            " One that was killed and started again is taken a minute after its last sign of life"
        )
    return f"{len(nodes)} connected"
