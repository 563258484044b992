"""Where hyperbolic rows predict the links of a hierarchy better than flat ones.

    python -m studies.hierarchies --files FOLDER --data FOLDER [--results hierarchies] [--only NAME]
        [--most N]

FOLDER of `--files` holds the files of `sources.toml`, whose addresses and checksums are there. Each
cell of `settings.toml` is a comparison in a folder of its own, and goes on where it was cut off.
Then `docs/measured/hierarchies.json` and the page are written from all comparisons that are there;
with `--most 0` only these.
"""

import argparse
import itertools
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.hierarchies.files import HERE, write_links

SETTINGS: dict[str, Any] = tomllib.loads((HERE / "settings.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Cell:
    """A comparison of the study.

    Attributes
    ----------
    group : str
        The name of its block in the settings.
    hierarchy, partition, links, score : str
    dimension, clients : int
    """

    group: str
    hierarchy: str
    dimension: int = 10
    clients: int = 10
    partition: str = "branches"
    links: str = "closure"
    score: str = "personal"

    @property
    def name(self) -> str:
        """The name of its folder."""
        parts = (self.hierarchy, f"{self.dimension}d", f"{self.clients}c")
        return "-".join((*parts, self.partition, self.links, self.score))


def cells() -> Iterator[Cell]:
    """All cells in the order of the settings."""
    for block in SETTINGS["cells"]:
        axes = (block.get("dimensions", [10]), block.get("clients", [10]), block["hierarchies"])
        others = {key: block[key] for key in ("partition", "links", "score") if key in block}
        for dimension, clients, hierarchy in itertools.product(*axes):
            yield Cell(block["name"], hierarchy, dimension, clients, **others)


def run_cell(cell: Cell, options: argparse.Namespace) -> int:
    """Make the comparison of a cell; its exit status."""
    tables = options.results / "links"
    path = write_links(cell.hierarchy, cell.links == "closure", options.files, options.data, tables)
    words = [
        f"dataset={path}",
        f"methods={SETTINGS['methods']}",
        f"num-supernodes={cell.clients}",
        f"embedding-dim={cell.dimension}",
        f"partition={cell.partition}",
        f"score={cell.score}",
        *(f"{key}={SETTINGS[key]}" for key in ("seed", "tuning-seeds", "seeds", "budget")),
        *(f"{key}={value}" for key, value in SETTINGS["keys"].items()),
    ]
    command = [sys.executable, "-m", "curvfed", "compare", *words]
    folders = ["--results", str(options.results / cell.name)]
    return subprocess.run([*command, *folders], check=False).returncode


def main() -> int:
    """Make the comparisons that are missing, and write the page; 1 if one failed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--results", type=Path, default=Path("hierarchies"))
    parser.add_argument("--only", help="the name of a block of the settings")
    parser.add_argument("--most", type=int, help="the most comparisons to make")
    options = parser.parse_args()
    status = 0
    chosen = [cell for cell in cells() if options.only in (None, cell.group)]
    missing = [cell for cell in chosen if not comparison_of(cell, options.results).exists()]
    for cell in missing[: options.most]:
        print(f"{cell.name} ({cell.group})", flush=True)
        status = max(status, run_cell(cell, options))
    return min(status, 1)


def comparison_of(cell: Cell, results: Path) -> Path:
    """The file with the results of a cell."""
    return results / cell.name / "comparison.json"


if __name__ == "__main__":
    sys.exit(main())
