"""Check a node's configuration, and the files and devices that it names, before the SuperNode
starts.

The findings are printed on the node's own terminal and go nowhere else.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from curvfed.client_app.node.configuration import KEYS, PATHS, absolute, check_values, partition_id
from curvfed.client_app.node.policy import Policy, policy_of
from curvfed.deployments.cluster.errors import ClusterError, WrongUsageError
from curvfed.deployments.run_results import toml_pairs
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.run_keys import home
from curvfed.strategies.config.parse import parse

LEAST_FREE = 512 * 2**20
"""Free bytes that the disk of a node's personal state needs: for two rounds of the largest network
and its optimiser."""

OF_RUNS = ("points.curvature", "points.embedding-key", "points.label-key", "images.size")
"""Keys of a run's configuration that change how data are read: with them a run may read data that
the defaults do not."""

_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s"'])+""")


def check_node(node_config: str, policy: Path | None = None) -> str:
    """Check a configuration, and return it as Flower is to be given it: with absolute paths, and a
    `state-path`.

    Without a `policy` in it the node gets this one, if the file exists.

    Raises
    ------
    WrongUsageError
        If the text cannot be read as it was meant, or has a value that is wrong on every machine.
    ClusterError
        If something that it names is absent or unfit.
    """
    node, found = parts(node_config, policy)
    try:
        told = {name: part() for name, part in found.items()}
    except ConfigError as error:
        raise ClusterError(str(error)) from None
    if others := ", ".join(node.keys() - set(KEYS)):
        told["not read"] = f"{others}; this app reads {', '.join(KEYS)}"
    print(f"node of partition-id {node['partition-id']}")
    for name, text in told.items():
        print(f"  {name:8} {text}", flush=True)
    return toml_pairs(node)


def parts(
    node_config: str, policy: Path | None = None
) -> tuple[dict[str, Any], dict[str, Callable[[], str]]]:
    """A configuration as `check_node` returns it, and the checks of what it names.

    Raises
    ------
    WrongUsageError
        As `check_node` does.
    """
    node = _read(node_config)
    if policy is not None and policy.exists():
        node.setdefault("policy", str(policy))
    try:
        own = policy_of(node)
        check_values(own.applied(node))
        if "device" in node:
            from curvfed.strategies.config.device import check_device  # imports torch

            check_device(node["device"])
    except ConfigError as error:
        raise WrongUsageError(str(error)) from None
    node |= {key: str(absolute(node[key])) for key in PATHS if key in node}
    node.setdefault("state-path", str(home() / "personal"))
    return node, {
        "policy": partial(_policy, node, own),
        "device": partial(_device, node),
        "state": partial(check_folder, Path(node["state-path"]), "state-path"),
        **({"keys": partial(_keys, node)} if {"signing-key", "roster"} & node.keys() else {}),
        "data": partial(_data, own.applied(node), own),  # last, since it may take minutes
    }


def _read(text: str) -> dict[str, Any]:
    """The configuration as Flower reads it; words that Flower would silently leave out are
    refused.
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
            f" {allowed}"
        ) from None
    except (ClickException, ValueError):
        raise WrongUsageError(f"--node-config {text}: Flower cannot read it; {allowed}") from None
    if not text.endswith(".toml"):
        for word in _WORD.findall(text):
            key, _, value = word.partition("=")
            if not value or key not in node:
                raise WrongUsageError(
                    f"--node-config {text}: Flower would leave {word!r} out; {allowed}"
                )
    return node


def _policy(node: Mapping[str, Any], policy: Policy) -> str:
    """The policy's lines that differ from the defaults, and its limits on secure sums."""
    lines = [
        f"[{section}] {key} = {value}"
        for section, table in policy.model_dump(by_alias=True, exclude_defaults=True).items()
        for key, value in table.items()
    ]
    return f"{node.get('policy', 'none')}: {'; '.join(lines) or 'the defaults'}"


def _data(node: Mapping[str, Any], policy: Policy) -> str:
    """The data that the node holds."""
    if "data-path" not in node:
        return (
            f"share {node['partition-id'] + 1} of {node['num-partitions']} of the public data set"
            " that a run names"
        )
    path = Path(node["data-path"])
    if not path.exists():
        raise ClusterError(f"data-path: there is no {path} on this machine")
    if not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
        raise ClusterError(f"data-path: this user may not read {path}")

    from curvfed.client_app.data.load import load_data, size
    from curvfed.tasks.errors import DataError

    try:
        return f"{path}: {size(load_data(policy.read_as(parse({})), partition_id(node), node))}"
    except DataError as error:
        if not any(key in str(error) for key in OF_RUNS):
            raise ClusterError(f"data-path: {error}") from None
        return f"readable, but not by the defaults of a run: {error}"
    except (OSError, ImportError, MemoryError) as error:
        raise ClusterError(
            f"data-path: {path} cannot be read: {type(error).__name__}: {error}"
        ) from None


def _device(node: Mapping[str, Any]) -> str:
    """The device on which the node computes."""
    if "device" not in node:
        return "as the run says"
    from curvfed.client_app.resources import device_of, free_memory

    device = device_of(parse({}), node)
    return f"{device}, {gib(free_memory(device))} of memory free"


def check_folder(folder: Path, key: str) -> str:
    """The folder, which `key` names, of what is kept on this machine, and how much of its disk is
    free."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"?")
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise ClusterError(
            f"{key}: nothing can be kept in {folder}: {error.strerror}; allowed is a folder, there"
            " or to be made, that this user may write to"
        ) from None
    if free < LEAST_FREE:
        raise ClusterError(
            f"{key}: {gib(free)} are free where {folder} is, needed are {gib(LEAST_FREE)}; allowed"
            " is a folder on another disk"
        )
    return f"{folder}, {gib(free)} free"


def _keys(node: Mapping[str, Any]) -> str:
    """The keys by which the nodes of a secure sum know each other."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    from curvfed.client_app.node.roster import read_roster, read_signing_key

    key = read_signing_key(node)
    roster = read_roster(node) or {}
    own = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw) if key else b""
    if roster.get(partition := partition_id(node)) != own:
        raise ClusterError(
            f"roster: {partition}.pem in {node['roster']} is not the public part of"
            f" {node['signing-key']}; allowed is the one that the others have"
        )
    return f"{len(roster)} nodes in the roster"


def gib(size: int) -> str:
    """A number of bytes in words."""
    return f"{size / 2**30:.1f} GiB"
