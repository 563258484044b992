"""Where hyperbolic rows predict the links of a hierarchy better than flat ones.

    python -m studies.hierarchies --files FOLDER --data FOLDER [--results hierarchies] [--only NAME]
        [--most N]

FOLDER of `--files` holds the files of `sources.toml`, whose addresses and checksums are there. Each
cell of `settings.toml` is a comparison in a folder of its own, and goes on where it was cut off.
Cells that `docs/measured/hierarchies.json` has are not made again. Then this file and the page are
written from them and from all comparisons that are there; with `--most 0` only these.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from curvfed.extensions.links.hierarchy import hierarchies
from curvfed.extensions.links.readers import read_links
from studies.hierarchies.cells import SETTINGS, Cell, cells, comparison_of
from studies.hierarchies.files import write_links
from studies.hierarchies.page import write_page
from studies.hierarchies.record import collect, recorded


def run_cell(cell: Cell, options: argparse.Namespace) -> int:
    """Make the comparison of a cell; its exit status."""
    tables = options.results / "links"
    path = write_links(cell.hierarchy, cell.links == "closure", options.files, options.data, tables)
    words = [
        f"dataset={path}",
        f"methods={cell.methods}",
        f"num-supernodes={cell.clients}",
        f"embedding-dim={cell.dimension}",
        f"partition={cell.partition}",
        f"score={cell.score}",
        *(f"{key}={SETTINGS[key]}" for key in ("seed", "tuning-seeds", "seeds", "budget")),
        *(f"{key}={json.dumps(value)}" for key, value in SETTINGS["keys"].items()),
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
    earlier = recorded()
    missing = [
        cell
        for cell in chosen
        if cell.name not in earlier and not comparison_of(cell, options.results).exists()
    ]
    for cell in missing[: options.most]:
        print(f"{cell.name} ({cell.group})", flush=True)
        status = max(status, run_cell(cell, options))
    write_page(collect(options.results, shapes(options)))
    return min(status, 1)


def shapes(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """The shape of each hierarchy of the study."""
    by_name = {}
    for name in dict.fromkeys(cell.hierarchy for cell in cells()):
        path = write_links(name, True, options.files, options.data, options.results / "links")
        (shape,) = hierarchies(read_links(path))
        by_name[name] = asdict(shape)
    return by_name


if __name__ == "__main__":
    sys.exit(main())
