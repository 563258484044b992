"""Real nodes with a `policy.toml` of their own, and what their ledgers hold."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def with_policy(
    folder: Path, nodes: Iterable[Mapping[str, Any]], text: str
) -> list[dict[str, Any]]:
    """The nodes, all with a policy of this text."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "policy.toml"
    path.write_text(text, encoding="utf-8")
    return [{**node, "policy": str(path)} for node in nodes]


def sharing_nodes(folder: Path, number: int = 3) -> list[dict[str, Any]]:
    """Real nodes, each with its part of a public data set and a disk of its own."""
    nodes = [{"partition-id": index, "num-partitions": number} for index in range(number)]
    return [node | {"state-path": str(folder / f"state{node['partition-id']}")} for node in nodes]


def costs(folder: Path, partition: int = 0) -> list[dict[str, Any]]:
    """The lines of a node's ledger about its budget of privacy."""
    lines = (folder / f"state{partition}" / f"ledger-{partition:05d}.jsonl").read_text()
    parsed = [json.loads(line) for line in lines.splitlines()]
    return [line for line in parsed if line["kind"] == "privacy"]
