"""The task of points in the disc: a logistic model of tangent vectors at the origin, trained in
steps."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from curvfed.geometry import poincare
from curvfed.tasks.draws import permutation, seeded
from curvfed.tasks.points import ClientPoints
from curvfed.tasks.task import Batch, Task


@dataclass(frozen=True)
class PointModelSpec:
    """The settings of the model of points.

    Attributes
    ----------
    num_classes : int
    curvature : float
        Of the disc, negative.
    """

    num_classes: int
    curvature: float

    kind: ClassVar[str] = "logistic"
    min_parameters: ClassVar[int] = 0

    def build(self, seed: int) -> nn.Module:
        """The model; its start does not depend on the seed."""
        with seeded(seed):  # the zeros replace its draws
            return TangentLogistic(self)


class TangentLogistic(nn.Module):
    """A linear layer on log0; the loss is convex, and starts from the same zeros on every
    machine.
    """

    def __init__(self, spec: PointModelSpec) -> None:
        super().__init__()
        self.scale = (-spec.curvature) ** 0.5
        self.head = nn.Linear(2, spec.num_classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, points: Tensor) -> Tensor:
        """Logits (n, C), float32, of points (n, 2), float64, which resolves points near the rim."""
        logits: Tensor = self.head(poincare.log0(points * self.scale, -1.0).float())
        return logits


class PointTask(Task):
    """One client's points on its device.

    Parameters
    ----------
    points : ClientPoints
        Of any number, also none.
    class_names, device
        As in `Task`.
    batch_size : int
        0 takes all points at once.
    """

    def __init__(
        self,
        points: ClientPoints,
        class_names: tuple[str, ...],
        device: torch.device,
        batch_size: int = 0,
    ) -> None:
        super().__init__(points, class_names, device)
        self._points = torch.from_numpy(points.points).to(device)
        self._batch_size = batch_size or max(self.num_examples, 1)

    @property
    def num_steps(self) -> int:
        """The number of batches."""
        return -(-self.num_examples // self._batch_size)

    def batches(self, model: nn.Module) -> Iterator[Batch]:
        """One pass in shuffled batches, each point once."""
        train = self.parts["train"]
        shuffled = train[permutation(len(train), train.device)]
        for numbers in torch.split(shuffled, self._batch_size):
            yield Batch(self._points[numbers], self.labels[numbers])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Mean cross-entropy."""
        return nn.functional.cross_entropy(model(batch.inputs), batch.labels)

    def logits(self, model: nn.Module) -> Tensor:
        """Logits (n, C) of every point."""
        with torch.no_grad():
            logits: Tensor = model(self._points)
        return logits

    def scored_logits(self, model: nn.Module) -> dict[str, Tensor]:
        """Logits (m, C) of the "val" points, always empty, and of the "test" points."""
        with torch.no_grad():
            return {name: model(self._points[self.parts[name]]) for name in ("val", "test")}
