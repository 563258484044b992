"""Is it the curvature, and should one use it? The runs of `curvfed compare` behind README.md and
docs/findings.md.

    python -m studies.comparisons --data FOLDER [--results comparisons] [--only WORD ...]

Each comparison has a folder of its own among the results and goes on where it was cut off. What it
found is copied to `docs/measured/comparisons/`, from which the page is written.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.tables import table_lines, write_csv
from curvfed.tasks.stored_files import write_atomically

ABOUT = """\
# Curved methods beside themselves at curvature 0, and beside rivals

    make comparisons DATA=folder

makes the runs, this page and [every row](comparisons.csv); `ARGS="--only cora-10"` selects a comparison. The file names
the `curvfed compare` that makes the same runs. [Findings](../findings.md) says what they show, and
[compare methods](../sweeps.md#compare-methods) how they are made.

Scores are those of the clients' own models in percent at the round of best validation, mean ± standard deviation over
five seeds that played no part in the tuning; the file has also the mean over the worst tenth of the clients, and kB of a
client per round. Differences have the intervals of the comparison, at its level of 95%; those of README are corrected for
the rows of its table. The JSON files in `comparisons` have configurations, seeds and times.
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
        " num-rounds=40 global-every=0 links.trained-ends=false seed=1100 tuning-seeds=1 seeds=5",
    ),
    "mnist-0.1": ("MNIST, 20 clients of two or three classes, α = .1", f"{IMAGES} alpha=0.1"),
    "mnist-0.5": ("MNIST, 20 clients, α = .5", f"{IMAGES} alpha=0.5"),
}
"""By name, the heading and the words after `curvfed compare`."""

STORED = Path(__file__).parents[1] / "docs" / "measured" / "comparisons"
"""The folder of the results of comparisons that have been made."""

HEADS = (
    "comparison",
    "method",
    "score (%)",
    "− itself at 0, or its control",
    "− best rival",
    "worst tenth (%)",
    "kB",
    "command",
)
SHOWN = 5
"""Columns of the page."""

TRIVIAL = "the trivial answer"


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
            write_atomically(STORED / f"{name}.json", (folder / "comparison.json").read_bytes())
    write_page(STORED.with_suffix(".md"), STORED)
    return min(status, 1)


def write_page(page: Path, stored: Path) -> None:
    """Write the page, which has the methods that have a twin or a control, and every row as a CSV
    file beside it."""
    rows = []
    absent = []
    for name, (title, words) in COMPARISONS.items():
        result = stored / f"{name}.json"
        if result.exists():
            methods = json.loads(result.read_text(encoding="utf-8"))["methods"]
            command = f"curvfed compare {words} --data folder"
            rows += [[title, *row, command] for row in _rows(methods)]
        else:
            absent.append(title)
    write_csv(page.with_suffix(".csv"), HEADS, rows)
    lines = [ABOUT, *table_lines(HEADS[:SHOWN], [row[:SHOWN] for row in rows if row[3]])]
    lines += ["", f"Not made yet: {'; '.join(absent)}."] if absent else []
    write_atomically(page, ("\n".join(lines) + "\n").encode())


def _rows(methods: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A row for each method, and the trivial answer."""
    rows = []
    for method in methods:
        score = f"{100 * method['mean']:.1f} ± {100 * method['std']:.1f}"
        differences = [_difference(method, name) for name in ("curvature", "use")]
        worst = f"{100 * method['worst_decile']:.1f}"
        kilobytes = f"{method['bytes'] / 1000:,.0f}"
        rows.append([method["method"], score, *differences, worst, kilobytes])
    rows.append([TRIVIAL, f"{100 * methods[0]['trivial']:.1f}", "", "", "", ""])
    return rows


def _difference(method: Mapping[str, Any], name: str) -> str:
    """A difference in points with its interval, or ""."""
    if method.get(name) is None:
        return ""
    low = f"{100 * method[f'{name}_low']:+.1f}"
    high = f"{100 * method[f'{name}_high']:+.1f}"
    return f"{100 * method[name]:+.1f} ({low} to {high})".replace("-", "−")


if __name__ == "__main__":
    sys.exit(main())
