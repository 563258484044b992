"""Tune methods alike and compare them: the runs of `curvfed compare` behind docs/findings.md.

    python -m studies.comparisons --data FOLDER [--results comparisons] [--only WORD ...]
        [--page docs/measured/comparisons.md]

Each comparison has a folder of its own among the results and goes on where it was cut off. The page
has the answer and the table of each.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from curvfed.tasks.stored_files import write_atomically

ABOUT = """\
# Methods tuned alike: every comparison

    make comparisons DATA=folder

makes the runs and writes this page; `ARGS="--only cora-10"` selects a comparison. The commands
below make the same runs one by one. [Findings](../findings.md) says what the tables show, and
[compare methods](../sweeps.md#compare-methods) how they are made.

Scores are those of the clients' own models in percent at the round of best validation, mean ±
standard deviation over five seeds that played no part in the tuning. All intervals of a table hold
together at 95%. "Worst tenth" is the mean over the tenth of the clients with the lowest scores,
"global" the accuracy of the one model for all on the server's test images after the last round. kB
are of a client per round.
"""
TUNED_ON_GRAPHS = "seed=200 tuning-seeds=1 budget=8"
IMAGES = (
    "mnist num-supernodes=20 num-rounds=10 images.train-subset=3000 images.test-subset=1000 "
    "seed=300 tuning-seeds=1 budget=6 weight-decay=1e-5 methods=local,fedavg,fedprox,fednova,"
    "fedopt,scaffold,feddyn,moon,ccvr,fedbabu,fedper,fedrep,lg-fedavg,fedrod,ditto,pfedme,apple,"
    "fedmtl,spherefed,hyperfed"
)
GRAPH_METHODS = (
    "methods=local,fedavg,fedavg-bias,fedper,fedgnn,gcfl,fed-pub,fedgta,adafgl,fedsage+,fedhgcn,"
    "ditto,moon,scaffold,flatland"
)
COMPARISONS = {
    "cora-10": ("Cora, 10 clients", f"dataset=cora num-supernodes=10 {TUNED_ON_GRAPHS}"),
    "trees-10": (
        "Generated trees, 10 clients",
        f"dataset=trees num-supernodes=10 {TUNED_ON_GRAPHS}",
    ),
    "minesweeper-10": (
        "Minesweeper, 10 clients",
        "dataset=minesweeper num-supernodes=10 num-rounds=30 local-epochs=3 embedding-dim=64 "
        f"{TUNED_ON_GRAPHS}",
    ),
    "cora-unnormalised": (
        "Cora without normalised features, 10 clients",
        f"dataset=cora normalize=none num-supernodes=10 {TUNED_ON_GRAPHS}",
    ),
    "cora-4-dimensions": (
        "Cora in 4 dimensions, 20 clients",
        f"dimensions/4 num-supernodes=20 {TUNED_ON_GRAPHS}",
    ),
    "cora-50": (
        "Cora, 50 clients, a tenth of them in each round",
        f"participation/10 num-supernodes=50 evaluate-every=1 {TUNED_ON_GRAPHS}",
    ),
    "cora-15-methods": (
        "Cora, 10 clients, 15 methods",
        f"dataset=cora num-supernodes=10 {TUNED_ON_GRAPHS} {GRAPH_METHODS}",
    ),
    "mnist-0.1": ("MNIST, 20 clients of two or three classes, α = .1", f"{IMAGES} alpha=0.1"),
    "mnist-0.5": ("MNIST, 20 clients, α = .5", f"{IMAGES} alpha=0.5"),
}
"""By name, the heading and the words after `curvfed compare`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the comparisons and write the page; 1 if some method could not be compared, else 0."""
    parser = argparse.ArgumentParser(prog="python -m studies.comparisons")
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    parser.add_argument("--results", type=Path, default=Path("comparisons"))
    parser.add_argument("--only", nargs="+", choices=COMPARISONS, default=list(COMPARISONS))
    parser.add_argument("--page", type=Path, default=Path("docs/measured/comparisons.md"))
    options = parser.parse_args(arguments)
    status = 0
    for name in options.only:
        words = COMPARISONS[name][1].split()
        folders = ["--results", str(options.results / name), "--data", str(options.data)]
        command = [sys.executable, "-m", "curvfed", "compare", *words, *folders]
        status = max(status, subprocess.run(command, check=False).returncode)
    write_page(options.page, options.results)
    return min(status, 1)


def write_page(page: Path, results: Path) -> None:
    """Write the answer and the table of every comparison that has results."""
    lines = [ABOUT]
    for name, (title, words) in COMPARISONS.items():
        folder = results / name
        if not (folder / "comparison.json").exists():
            continue
        answer = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))["answer"]
        text = (folder / "comparison.md").read_text(encoding="utf-8")
        table = [line for line in text.splitlines() if line.startswith("|")]
        command = f"    curvfed compare {words} --data folder"
        lines += [f"## {title}", "", command, "", answer, "", *table, ""]
    write_atomically(page, ("\n".join(lines).rstrip("\n") + "\n").encode())


if __name__ == "__main__":
    sys.exit(main())
