"""A node's configuration, and the checks of the files and devices that it names.

The findings are printed on the node's own terminal alone.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from curvfed.client_app.node import KEYS, PATHS, Node, absolute
from curvfed.client_app.node.policy import ANY, INSTALLED, Policy, toml
from curvfed.extensions.cluster.commands import ClusterError, ToleratedError, WrongUsageError
from curvfed.extensions.cluster.commands.folder import NodeFolder
from curvfed.strategies.base.run_keys import home
from curvfed.strategies.config.checks import check_method_name
from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.amounts import amount

MIN_FREE = 512 * 2**20
"""Free bytes on the disk of a node's personal state: two rounds of the largest network and its
optimiser."""

READING_KEYS = (
    "points.curvature",
    "points.embedding-key",
    "points.label-key",
    "images.size",
    "images.bits",
)
"""Keys of a run that change how data are read: with them a run can read data that the defaults
cannot."""

USERS = "nodes.txt"
"""The file in a state folder with the folders of the nodes that use it."""

_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s"'])+""")


def read_config(node_config: str, policy: Path | None = None) -> dict[str, Any]:
    """Read a configuration for Flower, with absolute paths and a `state-path`.

    Without a `policy` in it the node gets this one, if the file exists.

    Raises
    ------
    WrongUsageError
        If the text cannot be read, or has a value that is wrong on every machine.
    """
    config = parse_config(node_config)
    if policy is not None and policy.exists():
        config.setdefault("policy", str(policy))
    try:
        device = Node.read(config).device
        if device:
            from curvfed.strategies.config.device import check_device  # imports torch

            check_device(device)
    except ConfigError as error:
        raise WrongUsageError(str(error), key="node-config") from None
    config.setdefault("state-path", str(home() / "personal"))
    return config


def parse_config(text: str, user_home: str | None = None) -> dict[str, Any]:
    """A configuration as Flower reads it, with absolute paths; ~ is `user_home`, by default the
    home of this user.

    Raises
    ------
    WrongUsageError
        If Flower cannot read it, or would ignore a part.
    """
    from click import ClickException
    from flwr.common.config import parse_config_args

    allowed = (
        'allowed are KEY=VALUE pairs, no space by the "=", text in double quotes: partition-id=0'
        ' data-path="/data"'
    )
    try:
        node: dict[str, Any] = parse_config_args([text])
    except OSError as error:
        raise WrongUsageError(
            f"--node-config ends in .toml and so is read as the path of a file: {error.strerror};"
            f" {allowed}",
            key="node-config",
        ) from None
    except (ClickException, ValueError):
        raise WrongUsageError(
            f"--node-config {text}: Flower cannot read it; {allowed}", key="node-config"
        ) from None
    if not text.endswith(".toml"):
        for word in _WORD.findall(text):
            key, _, value = word.partition("=")
            if not value or key not in node:
                raise WrongUsageError(
                    f"--node-config {text}: Flower would leave {word!r} out; {allowed}",
                    key="node-config",
                )
    for key in PATHS:
        path = node.get(key)
        if isinstance(path, str) and path:
            if user_home is not None and path.partition("/")[0] == "~":
                path = user_home + path.removeprefix("~")
            node[key] = str(absolute(path))
    return node


def check_policy(node: Node) -> str:
    """The policy's lines that differ from the defaults.

    Raises
    ------
    ToleratedError
        If it allows a method that this machine does not have.
    """
    rules = node.rules or Policy()
    for method in rules.runs.methods or ():
        try:
            check_method_name(method)
        except ConfigError as error:
            raise ToleratedError(
                f"policy: {node.policy_path}: [runs] methods: {error}", key="policy-method"
            ) from None
    lines = [
        f"[{section}] {key} = {toml(value)}"
        for section, table in rules.model_dump(
            by_alias=True, exclude_defaults=True, exclude_none=True
        ).items()
        for key, value in table.items()
    ]
    return f"{node.policy_path or 'none'}: {'; '.join(lines) or 'the defaults'}"


def check_code(node: Node) -> str:
    """The code that the node runs."""
    from curvfed.extensions.cluster.commands.node_code import installed_code

    code = (node.rules or Policy()).runs.code
    if code == ANY:
        return "any that the server sends: [runs] code in its policy"
    bundles = ", ".join(digest for digest in code if code != INSTALLED)
    return installed_code() + (f"; of bundles: {bundles}" if bundles else "")


def check_data(node: Node) -> str:
    """The data of the node."""
    path = node.data_path
    if path is None:
        return (
            f"share {node.partition + 1} of {node.num_partitions} of the public data set that a"
            " run names"
        )
    if not path.exists():
        raise ClusterError(f"data-path: there is no {path} on this machine", key="missing-file")
    if not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
        raise ClusterError(f"data-path: this user may not read {path}", key="unreadable")

    from curvfed.client_app.data import describe_size, load_data
    from curvfed.tasks.errors import DataError

    try:
        config = parse({})
        if node.rules is not None:
            config = node.rules.read_as(config)
        # Without the node's secret, which only the node's user may make; sizes need no split.
        data = load_data(config, node.model_copy(update={"rules": None}))
        return f"{path}: {describe_size(data)}"
    except DataError as error:
        fixed = node.rules.reading() if node.rules is not None else {}
        if not any(key in str(error) for key in READING_KEYS if key not in fixed):
            raise ClusterError(f"data-path: {error}", key="data") from None
        return f"readable, but not by the defaults of a run: {error}"
    except (OSError, ImportError, MemoryError) as error:
        raise ClusterError(
            f"data-path: {path} cannot be read: {type(error).__name__}: {error}", key="unreadable"
        ) from None


def check_device_memory(node: Node) -> str:
    """The device on which the node computes."""
    if node.device is None:
        return "the device of the run"
    from curvfed.client_app.resources import device_of, free_memory

    device = device_of(parse({}), node)
    return f"{device}, {gib(free_memory(device))} of memory free"


def check_folder(folder: Path, key: str) -> str:
    """A folder of files of this machine, named by `key`, and the free space on its disk."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"?")
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise ClusterError(
            f"{key}: no file can be written in {folder}: {error.strerror}; allowed is a folder,"
            " existing or new, that this user can write to",
            key="no-folder",
        ) from None
    if free < MIN_FREE:
        raise ClusterError(
            f"{key}: {gib(free)} are free on the disk of {folder}, needed are {gib(MIN_FREE)};"
            " allowed is a folder on another disk",
            key="no-space",
        )
    return f"{folder}, {gib(free)} free"


def note_user(state: Path, node: NodeFolder) -> None:
    """Store in a state folder that this node uses it."""
    with contextlib.suppress(OSError):
        if node.path not in _users(state):
            with (state / USERS).open("a", encoding="utf-8") as file:
                file.write(f"{node.path}\n")


def check_state(state: Path, node: NodeFolder) -> str:
    """A node's folder of state, and the free space on its disk.

    Raises
    ------
    ClusterError
        If no file can be written there, or another node of this machine uses it: nodes in one
        folder have one secret, and write over each other's files where their numbers are equal.
    """
    text = check_folder(state, "state-path")
    others = [path for path in _users(state) if path != node.path and path.is_dir()]
    if others:
        raise ToleratedError(
            f"state-path: {state} is that of {', '.join(map(str, others))} too; needed is a folder"
            ' for each node, such as state-path="/srv/state-NAME", with the files of this one',
            key="shared-state",
        )
    return text


def _users(state: Path) -> list[Path]:
    """The folders of the nodes that use a state folder."""
    try:
        return list(map(Path, (state / USERS).read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError):
        return []


def check_roster(node: Node) -> str:
    """The number of keys in the roster, once this node's own matches its signing key."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    from curvfed.client_app.node.keys import read_roster, read_signing_key

    key = read_signing_key(node)
    roster = read_roster(node) or {}
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw) if key else b""
    if roster.get(node.partition) != public:
        raise ClusterError(
            f"roster: {node.partition}.pem in {node.roster} is not the public part of"
            f" {node.signing_key}; allowed is the key in the rosters of the other nodes",
            key="roster",
        )
    return f"{amount(len(roster), 'node')} in the roster"


def check_keys(config: Mapping[str, Any]) -> str:
    """The node's number, and the keys that this app does not read."""
    number = f"partition-id {config['partition-id']}"
    unused = ", ".join(config.keys() - set(KEYS))
    if unused:
        return f"{number}; not read: {unused}; this app reads {', '.join(KEYS)}"
    return number


def gib(size: int) -> str:
    """A number of bytes in GiB."""
    return f"{size / 2**30:.1f} GiB"
