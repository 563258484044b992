"""What a fixed classifier saves in training: SphereFed's Figure 5, on a CPU.

    python -m studies.training_cost [--data FOLDER] [--to training-cost.png]

(a) to (c): for three networks on CIFAR-100, SphereFed over FedAvg: bytes of 100 rounds of one
client with the calibration, memory of a step (parameters, gradients, momentum, and what the
backward pass keeps), and CPU time of a step. Bytes and memory are counted; time is the least of
several steps, which take turns. The paper's numbers are from an accelerator of its own.

(d) and (e), with --data: short runs of the networks on MNIST. CPU time of SphereFed's calibration
over CCVR's, the mean of a client and the server together; and the accuracies of the global model.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

import curvfed
from curvfed.deployments.predict.images import image_examples
from curvfed.deployments.predict.model import model_of
from curvfed.deployments.predict.trained_run import TrainedRun
from curvfed.extensions.sweeps.commands.pages import legends
from curvfed.server_app.report import charts, style
from curvfed.strategies.base import least_squares
from curvfed.strategies.base.statistics import Leaving
from curvfed.tasks.images.client_task import ImageTask, objective
from curvfed.tasks.images.models import ImageModelSpec, ImageNet
from studies import marks

NETWORKS = ("mobilenetv2", "resnet18", "convnet")
CLASSES, SHAPE = 100, (3, 32, 32)
ROUNDS = 100
BATCH = 16
REPEATS = 3
PARTS = ("bytes", "memory of a step", "CPU time of a step")

CLIENTS = 2
RUN: dict[str, Any] = {
    "dataset": "mnist",
    "images.size": 16,
    "images.train-subset": 600,
    "images.test-subset": 500,
    "embedding-dim": 0,
    "batch-size": BATCH,
    "num-rounds": 2,
    "local-epochs": 2,
    "global-every": 2,
    "fine-tune-epochs": 0,
    "schedule": "cosine",
    "train-size": 0.9,
    "test-size": 0.1,
}
RATES = {"ccvr": 0.01, "spherefed": 0.5}
"""The methods of the runs, and their rates, from trials on the same images: SphereFed's squared error
needs larger steps."""

TRAINED = ("time of calibration", "FedAvg", "CCVR", "SphereFed")


def network(kind: str, is_fixed: bool) -> ImageNet:
    """SphereFed's network with its fixed classifier, or FedAvg's."""
    head = "sphere" if is_fixed else "linear"
    spec = ImageModelSpec(kind, SHAPE, "group", 0, CLASSES, head=head, fixed=is_fixed)
    return spec.build(0)


def sent(model: ImageNet) -> float:
    """Bytes of one client in all rounds, both ways: what is trained in each round, what is fixed
    once, and the sums of the calibration."""
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    fixed = sum(p.numel() for p in model.parameters() if not p.requires_grad)
    weight = model.get_parameter("head.weight")
    sums = 8 * least_squares.length(weight.shape[1], CLASSES) if fixed else 0
    return 4 * (2 * ROUNDS * trained + fixed) + sums


def memory(model: ImageNet, images: Tensor, labels: Tensor, loss: str) -> float:
    """Bytes of parameters, gradients and momentum, and of the tensors that the forward pass keeps
    for the backward pass, each storage once."""
    parameters = list(model.parameters())
    own = {p.untyped_storage().data_ptr() for p in parameters}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = objective(loss)(model, images, labels)
    del result
    state = sum(4 * p.numel() * (3 if p.requires_grad else 1) for p in parameters)
    return state + sum(kept.values())


def step_seconds(model: ImageNet, images: Tensor, labels: Tensor, loss: str) -> float:
    """CPU seconds of a forward and a backward pass."""
    start = time.process_time()
    result = objective(loss)(model, images, labels)
    torch.autograd.backward(result)
    return time.process_time() - start


def ratios(kind: str) -> list[float]:
    """SphereFed's cost over FedAvg's for each of the parts."""
    draws = torch.Generator().manual_seed(0)
    images = torch.randn(BATCH, *SHAPE, generator=draws)
    labels = torch.randint(CLASSES, (BATCH,), generator=draws)
    models = [(network(kind, False), "cross-entropy"), (network(kind, True), "mse")]
    bytes_sent = [sent(model) for model, _ in models]
    held = [memory(model, images, labels, loss) for model, loss in models]
    times: list[list[float]] = [[], []]
    for _ in range(REPEATS):
        for own, (model, loss) in zip(times, models, strict=True):
            own.append(step_seconds(model, images, labels, loss))
    seconds = [min(own) for own in times]
    return [fixed / trained for trained, fixed in (bytes_sent, held, seconds)]


def trained_run(kind: str, method: str, data: Path, folder: Path) -> curvfed.Run:
    """A finished run of a network on MNIST."""
    settings = RUN | {"model": kind, "method": method, "learning-rate": RATES[method]}
    settings |= {"data-dir": str(data), "results-dir": str(folder), "workers": 1, "device": "cpu"}
    keywords = {name.replace("-", "_"): value for name, value in settings.items()}
    return curvfed.simulate(num_supernodes=CLIENTS, quiet=True, **keywords)


def calibration_seconds(folder: Path) -> float:
    """CPU seconds of a run's calibration: the mean over the clients, and those of the server."""
    run = TrainedRun.read(folder)
    model = cast(ImageNet, model_of(run, calibrated=False)[0])
    calibration = run.config.calibrator
    assert calibration is not None
    vectors = []
    seconds = []
    num_images = 0
    for client in run.clients:
        images = image_examples(run, run.config.dataset, client, None).data
        task = ImageTask(images, run.facts.class_names, torch.device("cpu"))
        start = time.process_time()
        vector, number = calibration.of_client(model, task, Leaving())
        seconds.append(time.process_time() - start)
        vectors.append(vector)
        num_images += number
    head = {name: p.numpy(force=True) for name, p in cast(Any, model.head).named_parameters()}
    start = time.process_time()
    calibration.classifier(np.sum(vectors, axis=0), num_images, head, noise=0.0)
    return float(np.mean(seconds)) + time.process_time() - start


def trained(kind: str, data: Path) -> list[float]:
    """The values of `TRAINED` for a network: accuracies in percent."""
    with tempfile.TemporaryDirectory() as folder:
        ccvr, sphere = (trained_run(kind, method, data, Path(folder)) for method in RATES)
        times = [calibration_seconds(run.path) for run in (ccvr, sphere)]
        fedavg = ccvr.summary["metrics"]["global_accuracy_uncalibrated"]
        scores = [fedavg, ccvr.summary["global_accuracy"], sphere.summary["global_accuracy"]]
    return [times[1] / times[0], *(100 * score for score in scores)]


def print_table(head: str, parts: Sequence[str], rows: Mapping[str, Sequence[str]]) -> None:
    """Print a table with a row for each network."""
    print(f"| {head} | " + " | ".join(parts) + " |")
    print("| --- |" + " ---: |" * len(parts))
    for kind, row in rows.items():
        print(f"| `{kind}` | " + " | ".join(row) + " |")


def draw(parts: Sequence[str], rows: Mapping[str, Sequence[float]], to: Path) -> None:
    """Draw a panel for each part that is a ratio, and one for the accuracies."""
    ratio_parts = parts[: len(PARTS) + 1]
    methods = parts[len(PARTS) + 1 :]
    figure, panels = style.panels(len(ratio_parts) + bool(methods), columns=3, height=2.4)
    for number, (part, axes) in enumerate(zip(ratio_parts, panels, strict=False)):
        heights = [row[number] for row in rows.values()]
        marks.bar(axes, range(len(rows)), heights, 0.7, style.Look.of(0))
        axes.axhline(1, color="black", linewidth=0.8)
        legends.categories(axes, list(rows))
        over = "SphereFed / FedAvg" if part in PARTS else "SphereFed / CCVR"
        charts.name(axes, "", over, part)
    keys = []
    for number, method in enumerate(methods):
        look = style.Look.of(number + 1)
        heights = [row[len(PARTS) + 1 + number] for row in rows.values()]
        places = np.arange(len(rows)) + 0.27 * (number - 1)
        marks.bar(panels[-1], places, heights, 0.25, look)
        keys.append(charts.key(method, color=look.colour, marker="s", linestyle="none"))
    if methods:
        legends.categories(panels[-1], list(rows))
        charts.name(panels[-1], "", "%", "accuracy")
    legends.legend(figure, keys)
    figure.savefig(to, dpi=style.DPI, facecolor="white")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, and draw it."""
    parser = argparse.ArgumentParser(prog="python -m studies.training_cost")
    parser.add_argument("--data", type=Path, help="the folder with MNIST, for (d) and (e)")
    parser.add_argument("--to", type=Path, help="a picture of the table, a .png")
    options = parser.parse_args(arguments)
    parts: tuple[str, ...] = PARTS
    rows = {kind: ratios(kind) for kind in NETWORKS}
    cells = {kind: [f"{value:.3f}" for value in row] for kind, row in rows.items()}
    print_table("SphereFed over FedAvg", PARTS, cells)
    if options.data is not None:
        parts += TRAINED
        runs = {kind: trained(kind, options.data) for kind in NETWORKS}
        cells = {
            kind: [f"{ratio:.3f}", *(f"{score:.1f}" for score in scores)]
            for kind, (ratio, *scores) in runs.items()
        }
        print()
        print_table("SphereFed over CCVR, and accuracies in %", TRAINED, cells)
        rows = {kind: [*row, *runs[kind]] for kind, row in rows.items()}
    if options.to is not None:
        with style.applied():
            draw(parts, rows, options.to)
    return 0


if __name__ == "__main__":
    sys.exit(main())
