"""SphereFed's Table 4: other classifiers on the features of finished runs.

    python -m studies.calibrations RUN RUN …

RUN is the directory of a finished run of `spherefed` in simulation. Rows: the fixed classifier; CCVR
on the same features; the closed form (FFC); and a classifier trained on the features of all
clients' training images, the paper's sanity check. CCVR and the last are trained by cross-entropy
at each of several rates, and have the one with the best test accuracy, as the paper's last row. By
squared error the last row is FFC, whose optimum is exact.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from curvfed.deployments.predict.images import image_examples
from curvfed.deployments.predict.model import model_of
from curvfed.deployments.predict.trained_run import TrainedRun
from curvfed.extensions.baselines.methods.ccvr import retrain, sample
from curvfed.strategies.base.moments import class_moments
from curvfed.tasks.images.client_task import ImageTask, classifier_inputs, evaluate
from curvfed.tasks.images.models import ImageNet

RATES = (0.01, 0.1, 1.0, 10.0)
EPOCHS = 100
PER_CLASS = 500
BATCH = 64

ROWS = ("fixed classifier", "CCVR", "FFC", "all training images")

Features = NDArray[np.float32]
Labels = NDArray[np.int64]


def accuracies(folder: Path) -> dict[str, float]:
    """The global test accuracy by each row's classifier.

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
    moments = class_moments(features, labels, len(weight))
    virtual = sample(moments, PER_CLASS, run.config.seed)
    by_ffc = evaluate(calibrated, test, run.facts.class_names, cpu)
    return {
        ROWS[0]: float((seen.predicted.numpy() == truth).mean()),
        ROWS[1]: best(weight, virtual, (inputs, truth)),
        ROWS[2]: float((by_ffc.predicted.numpy() == truth).mean()),
        ROWS[3]: best(weight, (features, labels), (inputs, truth)),
    }


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


def best(weight: Features, train: tuple[Features, Labels], test: tuple[Features, Labels]) -> float:
    """The best test accuracy over the rates of a classifier trained from the fixed one."""
    bias = np.zeros(len(weight), np.float32)
    scores = []
    for rate in RATES:
        rows, bias_there = retrain(weight, bias, *train, rate, EPOCHS, BATCH, 0)
        predicted = (test[0] @ rows.T + bias_there).argmax(axis=1)
        scores.append(float((predicted == test[1]).mean()))
    return max(scores)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table with a column for each group of runs that differ in the seed alone."""
    parser = argparse.ArgumentParser(prog="python -m studies.calibrations")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    groups: dict[str, list[dict[str, float]]] = {}
    for folder in parser.parse_args(arguments).runs:
        config = TrainedRun.read(folder).config
        is_random = config.partition == "iid"
        place = f"{config.dataset}, " + ("at random" if is_random else f"α = {config.alpha:g}")
        groups.setdefault(place, []).append(accuracies(folder))
    print("| classifier | " + " | ".join(groups) + " |")
    print("| --- |" + " ---: |" * len(groups))
    for row in ROWS:
        cells = []
        for scores in groups.values():
            values = 100 * np.array([score[row] for score in scores])
            spread = values.std(ddof=1) if len(values) > 1 else 0.0
            cells.append(f"{values.mean():.1f} ± {spread:.1f}")
        print(f"| {row} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
