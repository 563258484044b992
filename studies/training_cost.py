"""What a fixed classifier saves in training: SphereFed's Figure 5 (a) to (c), on a CPU.

    python -m studies.training_cost [--to training-cost.png]

For three networks on CIFAR-100, SphereFed over FedAvg: bytes of 100 rounds of one client with the
calibration, memory of a step (parameters, gradients, momentum, and what the backward pass keeps),
and CPU time of a step. Bytes and memory are counted; time is the least of several steps, which take
turns. The paper's numbers are from an accelerator of its own.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from curvfed.server_app.report import charts, style
from curvfed.strategies.methods import spherefed
from curvfed.tasks.images.client_task import objective
from curvfed.tasks.images.models import ImageModelSpec, ImageNet

NETWORKS = ("mobilenetv2", "resnet18", "convnet")
CLASSES, SHAPE = 100, (3, 32, 32)
ROUNDS = 100
BATCH = 16
REPEATS = 3
PARTS = ("bytes", "memory of a step", "CPU time of a step")


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
    sums = 8 * spherefed.length(weight.shape[1], CLASSES) if fixed else 0
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, and draw it."""
    parser = argparse.ArgumentParser(prog="python -m studies.training_cost")
    parser.add_argument("--to", type=Path, help="a picture of the table, a .png")
    to = parser.parse_args(arguments).to
    rows = {kind: ratios(kind) for kind in NETWORKS}
    print("| SphereFed over FedAvg | " + " | ".join(PARTS) + " |")
    print("| --- |" + " ---: |" * len(PARTS))
    for kind, row in rows.items():
        print(f"| `{kind}` | " + " | ".join(f"{value:.3f}" for value in row) + " |")
    if to is not None:
        with style.applied():
            figure, panels = style.panels(len(PARTS), height=2.4)
            for number, (part, axes) in enumerate(zip(PARTS, panels, strict=True)):
                heights = [row[number] for row in rows.values()]
                charts.bar(axes, range(len(rows)), heights, 0.7, style.Look.of(0))
                axes.axhline(1, color="black", linewidth=0.8)
                charts.categories(axes, list(rows))
                charts.name(axes, "", "SphereFed / FedAvg", part)
            figure.savefig(to, dpi=style.DPI, facecolor="white")
    return 0


if __name__ == "__main__":
    sys.exit(main())
