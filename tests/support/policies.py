"""Real nodes with a `policy.toml` of their own."""

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
