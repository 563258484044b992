"""How the fixed classifier is made: SphereFed's Table 10.

    python -m studies.classifier_start [RUN …] [--to docs/measured/spherefed-table-10.csv]

Seconds of CPU, least of three times, and the largest cosine of two rows, for as many features and
classes as MobileNetV2 has on CIFAR-100: orthonormal rows (`spherefed.head=orthonormal`, the paper's
QR), rows as far apart as possible (`uniform`, which is a simplex here and needs no search), and the
paper's own way to them: 10,000 steps of SGD at .1 with momentum .9 on the rows' largest cosines
(Mettes et al., 2019). The paper's seconds are from a GPU. RUN is the directory of a finished run of
`spherefed`: accuracies stand beside the paper's, by the run's `spherefed.head`.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

import curvfed
from benchmarks.tables import table_lines, write_csv
from curvfed.geometry import prototypes
from studies.classifier_cost import CLASSES, FEATURES
from studies.papers.printed_numbers import read

STEPS, RATE, MOMENTUM = 10_000, 0.1, 0.9
REPEATS = 3

COLUMNS = (
    "classifier",
    "dimensions",
    "classes",
    "seconds, paper",
    "seconds, here",
    "largest cosine, here",
    "accuracy, paper (%)",
    "accuracy, here (%)",
)


def by_gradient(classes: int, features: int, seed: int, steps: int = STEPS) -> Tensor:
    """Rows (C, l) of length 1 by the paper's steps: the mean over the rows of the largest cosine to
    another one decreases."""
    draws = torch.Generator().manual_seed(seed)
    rows = normalize(torch.randn(classes, features, generator=draws)).requires_grad_()
    optimizer = torch.optim.SGD([rows], RATE, MOMENTUM)
    itself = 2 * torch.eye(classes)
    for _ in range(steps):
        optimizer.zero_grad()
        unit = normalize(rows)
        torch.autograd.backward((unit @ unit.T - itself).max(dim=1).values.mean())
        optimizer.step()
    return normalize(rows.detach())


WAYS: dict[str, tuple[Callable[[int, int, int], Tensor], str, str, int]] = {
    "orthonormal": (prototypes.orthonormal, "QR", "orthonormal", REPEATS),
    "uniform": (prototypes.uniform, "", "uniform", REPEATS),
    "uniform by the paper's steps": (by_gradient, "Tammes", "", 1),
}
"""By row: what makes it, its row in the paper, the value of `spherefed.head`, and how often it is
timed."""


def largest_cosine(rows: Tensor) -> float:
    """The largest cosine of two rows."""
    cosines = rows @ rows.T
    return float(cosines.fill_diagonal_(-1).max())


def timed(make: Callable[[int, int, int], Tensor], repeats: int) -> tuple[float, Tensor]:
    """The least seconds of CPU, and the rows. Each repetition has a seed of its own: rows are
    cached."""
    seconds = []
    for seed in range(repeats):
        start = time.process_time()
        rows = make(CLASSES, FEATURES, seed)
        seconds.append(time.process_time() - start)
    return min(seconds), rows


def accuracies(folders: Sequence[Path]) -> dict[str, list[float]]:
    """Accuracies in percent with the calibrated classifier, by the value of `spherefed.head`."""
    scores: dict[str, list[float]] = {}
    for folder in folders:
        run = curvfed.load(folder)
        head = str(run.config["spherefed.head"])
        scores.setdefault(head, []).append(100 * float(run.summary["global_accuracy"]))
    return scores


def rows(folders: Sequence[Path]) -> list[list[str]]:
    """The table's rows, as `COLUMNS` names them."""
    printed: dict[str, dict[str, float]] = {}
    for cell in read("spherefed", "Table 10"):
        heading = str(cell.settings["column"])
        printed.setdefault(cell.row, {})[heading] = cell.value
    scores = accuracies(folders)
    lines = []
    for name, (make, row, head, repeats) in WAYS.items():
        seconds, made = timed(make, repeats)
        there = printed.get(row, {})
        mine = scores.get(head, [])
        spread = np.std(mine, ddof=1) if len(mine) > 1 else 0.0
        lines.append(
            [
                name,
                str(FEATURES),
                str(CLASSES),
                f"{there['Time (s)']:g}" if there else "",
                f"{seconds:.3g}",
                f"{largest_cosine(made):.4f}",
                f"{there['Accuracy']:.2f}" if there else "",
                f"{np.mean(mine):.1f} ± {spread:.1f}" if mine else "",
            ]
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m studies.classifier_start")
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="run directories")
    parser.add_argument("--to", type=Path, help="a CSV file for the table")
    options = parser.parse_args(arguments)
    lines = rows(options.runs)
    print("\n".join(table_lines(COLUMNS, lines)))
    if options.to:
        write_csv(options.to, COLUMNS, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
