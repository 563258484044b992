"""The cells of the study, each a comparison."""

import itertools
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SETTINGS: dict[str, Any] = tomllib.loads((HERE / "settings.toml").read_text(encoding="utf-8"))
PREDICTIONS: dict[str, Any] = tomllib.loads((HERE / "predictions.toml").read_text(encoding="utf-8"))

OWN_KEYS = ("partition", "links", "score", "methods")
"""Keys of a block that differ from the usual ones."""


@dataclass(frozen=True)
class Cell:
    """A comparison of the study.

    Attributes
    ----------
    group : str
        The name of its block in the settings.
    hierarchy, partition, links, score, methods : str
    dimension, clients : int
    """

    group: str
    hierarchy: str
    dimension: int = 10
    clients: int = 10
    partition: str = "branches"
    links: str = "closure"
    score: str = "personal"
    methods: str = SETTINGS["methods"]

    @property
    def name(self) -> str:
        """The name of its folder."""
        parts = (self.hierarchy, f"{self.dimension}d", f"{self.clients}c")
        return "-".join((*parts, self.partition, self.links, self.score))


def cells() -> Iterator[Cell]:
    """All cells in the order of the settings."""
    for block in SETTINGS["cells"]:
        axes = (block.get("dimensions", [10]), block.get("clients", [10]), block["hierarchies"])
        others = {key: block[key] for key in OWN_KEYS if key in block}
        for dimension, clients, hierarchy in itertools.product(*axes):
            yield Cell(block["name"], hierarchy, dimension, clients, **others)


def comparison_of(cell: Cell, results: Path) -> Path:
    """The file with the results of a cell."""
    return results / cell.name / "comparison.json"
