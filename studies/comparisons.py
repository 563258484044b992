"""Is it the curvature, and should one use it? The runs of `curvfed compare` behind README.md and
docs/findings.md.

    python -m studies.comparisons --data FOLDER [--results comparisons] [--only WORD ...]

Each comparison has a folder of its own among the results and goes on where it was cut off. What it
found is copied to `docs/measured/comparisons/`, from which the page is written.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from curvfed.tasks.stored_files import write_atomically

ABOUT = """\
# Curved methods beside themselves at curvature 0, and beside rivals

    make comparisons DATA=folder

makes the runs and writes this page; `ARGS="--only cora-10"` selects a comparison. The commands
below make the same runs one by one. [Findings](../findings.md) says what the tables show, and
[compare methods](../sweeps.md#compare-methods) how they are made.

Scores are those of the clients' own models in percent at the round of best validation, mean ±
standard deviation over five seeds that played no part in the tuning. "Worst tenth" is the mean over
the tenth of the clients with the lowest scores, "global" the accuracy of the one model for all on
the server's test images after the last round. kB are of a client per round. The last row is the
trivial answer.
"""
NODES = "num-supernodes=10 seed=1100 seeds=5 methods=fedavg,fedavg-mean,flatland"
IMAGES = (
    "mnist num-supernodes=20 num-rounds=10 images.train-subset=3000 images.test-subset=1000 "
    "methods=fedavg,spherefed,hyperfed seed=1100 tuning-seeds=1 seeds=5"
)
COMPARISONS = {
    "cora-10": ("Cora, 10 clients", f"dataset=cora {NODES}"),
    "citeseer-10": ("CiteSeer, 10 clients", f"dataset=citeseer {NODES}"),
    "trees-10": ("Generated trees, 10 clients", f"dataset=trees {NODES}"),
    "whole-graphs": (
        "Whole graphs: MUTAG, BZR and PROTEINS, a client each",
        "dataset=MUTAG,BZR,PROTEINS num-supernodes=3 num-rounds=25 batch-size=32 embedding-dim=64"
        " train-size=0.6 test-size=0.2 methods=fedavg,flatland seed=1100 tuning-seeds=1 seeds=5",
    ),
    "minesweeper-10": (
        "Minesweeper, 10 clients",
        "dataset=minesweeper num-rounds=30 local-epochs=3 embedding-dim=64 tuning-seeds=1"
        f" {NODES},flatland-euclidean",
    ),
    "cora-links": (
        "Edges of Cora, 5 dimensions, 10 clients",
        "dataset=cora methods=links,links-inner,links-squared embedding-dim=5 num-supernodes=10"
        " num-rounds=40 global-every=0 seed=1100 tuning-seeds=1 seeds=5",
    ),
    "mnist-0.1": ("MNIST, 20 clients of two or three classes, α = .1", f"{IMAGES} alpha=0.1"),
    "mnist-0.5": ("MNIST, 20 clients, α = .5", f"{IMAGES} alpha=0.5"),
}
"""By name, the heading and the words after `curvfed compare`."""

STORED = Path(__file__).parents[1] / "docs" / "measured" / "comparisons"
"""The folder of the results of comparisons that have been made."""

PICTURE = re.compile(r"^!\[.*\n+\*.*\n+", re.MULTILINE)
"""The picture of a comparison's page and its caption, which are not stored."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the comparisons and write the page; 1 if some method could not be compared, else 0."""
    parser = argparse.ArgumentParser(prog="python -m studies.comparisons")
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    parser.add_argument("--results", type=Path, default=Path("comparisons"))
    parser.add_argument("--only", nargs="+", choices=COMPARISONS, default=list(COMPARISONS))
    options = parser.parse_args(arguments)
    status = 0
    for name in options.only:
        words = COMPARISONS[name][1].split()
        folder = options.results / name
        folders = ["--results", str(folder), "--data", str(options.data)]
        command = [sys.executable, "-m", "curvfed", "compare", *words, *folders]
        status = max(status, subprocess.run(command, check=False).returncode)
        if (folder / "comparison.json").exists():
            STORED.mkdir(exist_ok=True)
            page = (folder / "comparison.md").read_text(encoding="utf-8")
            write_atomically(STORED / f"{name}.md", PICTURE.sub("", page).encode())
            write_atomically(STORED / f"{name}.json", (folder / "comparison.json").read_bytes())
    write_page(STORED.with_suffix(".md"), STORED)
    return min(status, 1)


def write_page(page: Path, stored: Path) -> None:
    """Write the answers and the table of every comparison, or that it is not made yet."""
    lines = [ABOUT]
    for name, (title, words) in COMPARISONS.items():
        lines += [f"## {title}", "", f"    curvfed compare {words} --data folder", ""]
        if not (stored / f"{name}.json").exists():
            lines += ["Not made yet.", ""]
            continue
        answers = json.loads((stored / f"{name}.json").read_text(encoding="utf-8"))["answers"]
        text = (stored / f"{name}.md").read_text(encoding="utf-8")
        table = [line for line in text.splitlines() if line.startswith("|")]
        lines += [" ".join(answers), "", *table, ""]
    write_atomically(page, ("\n".join(lines).rstrip("\n") + "\n").encode())


if __name__ == "__main__":
    sys.exit(main())
