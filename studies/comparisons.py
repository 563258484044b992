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
# Curved methods and their flat twins, tuned alike

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
GRAPHS = "num-supernodes=10 methods=fedavg,flatland seed=400 tuning-seeds=2 budget=6 seeds=5"
IMAGES = (
    "mnist num-supernodes=20 num-rounds=10 images.train-subset=3000 images.test-subset=1000 "
    "methods=fedavg,spherefed,hyperfed seed=400 tuning-seeds=2 budget=6 seeds=5"
)
COMPARISONS = {
    "minesweeper-10": (
        "Minesweeper, 10 clients",
        f"dataset=minesweeper num-rounds=30 local-epochs=3 embedding-dim=64 {GRAPHS}",
    ),
    "mnist-0.1": ("MNIST, 20 clients of two or three classes, α = .1", f"{IMAGES} alpha=0.1"),
    "trees-10": ("Generated trees, 10 clients", f"dataset=trees {GRAPHS}"),
    "cora-10": ("Cora, 10 clients", f"dataset=cora {GRAPHS}"),
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
    """Write the answer and the table of every comparison, or that it is not made yet."""
    lines = [ABOUT]
    for name, (title, words) in COMPARISONS.items():
        folder = results / name
        lines += [f"## {title}", "", f"    curvfed compare {words} --data folder", ""]
        if not (folder / "comparison.json").exists():
            lines += ["Not made yet.", ""]
            continue
        answers = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))["answers"]
        text = (folder / "comparison.md").read_text(encoding="utf-8")
        table = [line for line in text.splitlines() if line.startswith("|")]
        lines += [" ".join(answers), "", *table, ""]
    write_atomically(page, ("\n".join(lines).rstrip("\n") + "\n").encode())


if __name__ == "__main__":
    sys.exit(main())
