"""SphereFed's Table 4: other classifiers on the features of finished runs.

    python -m studies.calibrations RUN RUN … [--to docs/measured/spherefed-table-04.csv]

RUN is the directory of a finished run of `spherefed` in simulation. Rows: the fixed classifier; CCVR
on the same features; the closed form (FFC); and a classifier trained on the features of all
clients' training images, the paper's sanity check. CCVR and the last are trained by cross-entropy
at each of several rates, and have the one with the best test accuracy, as the paper's last row. By
squared error the last row is FFC, whose optimum is exact.

Beside the accuracies stand the paper's, on CIFAR-100, what a client sends for a row, and the
seconds of CPU for it: all clients' sums of their features and the server's work, at one rate. The
features themselves, which every row needs, are not counted.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.tables import table_lines, write_csv
from curvfed.deployments.predict.images import image_examples
from curvfed.deployments.predict.model import model_of
from curvfed.deployments.predict.trained_run import TrainedRun
from curvfed.extensions.baselines.methods.ccvr import VirtualFeatures, retrain, sample
from curvfed.strategies.base.least_squares import Sums, length, solve
from curvfed.strategies.base.moments import class_moments
from curvfed.tasks.images.client_task import ImageTask, classifier_inputs, evaluate
from curvfed.tasks.images.models import ImageNet
from studies.papers.printed_numbers import read

RATES = (0.01, 0.1, 1.0, 10.0)
EPOCHS = 100
PER_CLASS = 500
BATCH = 64

ROWS = {
    "fixed classifier": "W/o",
    "CCVR": "CCVR",
    "FFC": "FFC",
    "all training images": "Sanity check",
}
"""The rows, and their names in the paper."""

Features = NDArray[np.float32]
Labels = NDArray[np.int64]


class Score(NamedTuple):
    """The global test accuracy by a row's classifier, and what the classifier costs: kilobytes
    that a client sends, and seconds of CPU."""

    accuracy: float
    kilobytes: float
    seconds: float


def scores_of(folder: Path) -> dict[str, Score]:
    """The score of each row.

    Raises
    ------
    PredictError
        If the run is not finished, or has no calibrated classifier.
    """
    run = TrainedRun.read(folder)
    fixed = cast(ImageNet, model_of(run, calibrated=False)[0])
    calibrated = cast(ImageNet, model_of(run)[0])
    features, labels = training_features(run, fixed)
    cpu = torch.device("cpu")
    test = image_examples(run, run.config.dataset, None, None).data
    seen = evaluate(fixed, test, run.facts.class_names, cpu)
    inputs = fixed.head.inputs(seen.features).numpy()  # type: ignore[operator]
    truth = seen.labels.numpy()
    weight = fixed.head.get_parameter("weight").numpy(force=True)
    classes, dim = weight.shape
    start = time.process_time()
    moments = class_moments(features, labels, classes)
    virtual = sample(moments, PER_CLASS, run.config.seed)
    of_moments = time.process_time() - start
    by_ccvr, of_virtual = best(weight, virtual, (inputs, truth))
    by_ffc = evaluate(calibrated, test, run.facts.class_names, cpu)
    start = time.process_time()
    sums = Sums.of(features, labels, classes)
    solve(sums.gram, sums.targets, 0.0)
    of_ffc = time.process_time() - start
    by_all, of_all = best(weight, (features, labels), (inputs, truth))
    sizes = (0, VirtualFeatures.length(dim, classes), length(dim, classes), features.size)
    # The features of the last row are those of all clients, float32.
    kilobytes = [8 * size / 1e3 for size in sizes[:3]]
    kilobytes.append(4 * sizes[3] / len(run.clients) / 1e3)
    shares = (
        float((seen.predicted.numpy() == truth).mean()),
        by_ccvr,
        float((by_ffc.predicted.numpy() == truth).mean()),
        by_all,
    )
    seconds = (0.0, of_moments + of_virtual, of_ffc, of_all)
    return dict(zip(ROWS, map(Score, shares, kilobytes, seconds), strict=True))


def training_features(run: TrainedRun, model: ImageNet) -> tuple[Features, Labels]:
    """The classifier's inputs (n, d) and labels (n,) of all clients' training images."""
    pairs = []
    for client in run.clients:
        images = image_examples(run, run.config.dataset, client, None).data
        task = ImageTask(images, run.facts.class_names, torch.device("cpu"))
        pairs.append(classifier_inputs(model, task))
    features = torch.cat([features for features, _ in pairs]).numpy()
    labels = torch.cat([labels for _, labels in pairs]).numpy()
    return features, labels


def best(
    weight: Features, train: tuple[Features, Labels], test: tuple[Features, Labels]
) -> tuple[float, float]:
    """The best test accuracy over the rates of a classifier trained from the fixed one, and the
    mean seconds of CPU at a rate."""
    bias = np.zeros(len(weight), np.float32)
    scores = []
    start = time.process_time()
    for rate in RATES:
        rows, bias_there = retrain(weight, bias, *train, rate, EPOCHS, BATCH, 0)
        predicted = (test[0] @ rows.T + bias_there).argmax(axis=1)
        scores.append(float((predicted == test[1]).mean()))
    return max(scores), (time.process_time() - start) / len(RATES)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table with a column for each group of runs that differ in the seed alone."""
    parser = argparse.ArgumentParser(prog="python -m studies.calibrations")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    parser.add_argument("--to", type=Path, help="a CSV file for the table")
    options = parser.parse_args(arguments)
    groups: dict[str, list[dict[str, Score]]] = {}
    for folder in options.runs:
        config = TrainedRun.read(folder).config
        is_random = config.partition == "iid"
        place = f"{config.dataset}, " + ("at random" if is_random else f"α = {config.alpha:g}")
        groups.setdefault(place, []).append(scores_of(folder))
    columns: tuple[str, ...] = ("classifier", "paper, at random (%)", "paper, α = 0.1 (%)")
    costs = ("kB of a client", "seconds of CPU")
    columns += (*(f"{place} (%)" for place in groups), *costs)
    lines = table_rows(groups)
    print("\n".join(table_lines(columns, lines)))
    if options.to:
        write_csv(options.to, columns, lines)
    return 0


def table_rows(groups: dict[str, list[dict[str, Score]]]) -> list[list[str]]:
    """The table's rows: the paper's numbers, ours by place, and the costs, means over all runs."""
    printed: dict[str, list[str]] = {}
    for cell in read("spherefed", "Table 4"):
        printed.setdefault(cell.row, []).append(f"{cell.value:.2f}")
    lines = []
    for row, name in ROWS.items():
        cells = []
        everything = [scores[row] for group in groups.values() for scores in group]
        for group in groups.values():
            values = 100 * np.array([scores[row].accuracy for scores in group])
            spread = values.std(ddof=1) if len(values) > 1 else 0.0
            cells.append(f"{values.mean():.1f} ± {spread:.1f}")
        for part in ("kilobytes", "seconds"):
            cells.append(f"{np.mean([getattr(score, part) for score in everything]):.3g}")
        lines.append([row, *printed[name], *cells])
    return lines


if __name__ == "__main__":
    sys.exit(main())
