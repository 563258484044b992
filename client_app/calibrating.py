"""What a client gives to a calibration of the classifier, and its own calibration in closed form."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from curvfed.strategies.base.method import HEAD
from curvfed.strategies.calibration import Sums, solve
from curvfed.strategies.virtual_features import ClassSums
from curvfed.strategies.wire.messages import CCVR
from curvfed.tasks.errors import DataError
from curvfed.tasks.heads import SphereHead
from curvfed.tasks.images.client_task import ImageTask
from curvfed.tasks.images.models import ImageNet
from curvfed.tasks.task import Task


def sums(phase: str, model: nn.Module, task: Task) -> tuple[NDArray[np.float64], int]:
    """Sums over the training images of what the classifier sees, in one vector, float64, and the number of images.

    An image whose features are all 0 has no direction on the sphere, adds nothing there and is not counted.

    Raises
    ------
    DataError
        If the data are no images.
    """
    features, labels = _seen(model, task)
    classes, dim = model.get_parameter(f"{HEAD}weight").shape
    total = ClassSums.zeros(dim, classes) if phase == CCVR else Sums.zeros(dim, classes)
    total.add(features, labels)
    on_sphere = isinstance(model.head, SphereHead) and model.head.normalize
    return total.pack(), int((features.norm(dim=1) > 0.5).sum()) if on_sphere else len(labels)


def closed_form(model: nn.Module, task: Task, ridge: float) -> dict[str, NDArray[np.float32]]:
    """The classifier of least squared error on this client's training images (SphereFed, Eq. 7)."""
    features, labels = _seen(model, task)
    classes, dim = model.get_parameter(f"{HEAD}weight").shape
    total = Sums.zeros(dim, classes)
    total.add(features, labels)
    found = solve(total.gram, total.targets, ridge * task.num_examples)
    return {f"{HEAD}weight": found.astype(np.float32)}


def _seen(model: nn.Module, task: Task) -> tuple[Tensor, Tensor]:
    """What the classifier multiplies, (n, l), and the labels (n,), of all training images."""
    if not isinstance(model, ImageNet) or not isinstance(task, ImageTask):
        raise DataError("the data are no images, and classifiers of other data are not calibrated")
    batches = [(features.cpu(), labels.cpu()) for features, labels in task.features(model)]
    dim = model.get_parameter(f"{HEAD}weight").shape[1]
    features = torch.cat([torch.empty(0, dim), *(features for features, _ in batches)])
    labels = torch.cat([torch.empty(0, dtype=torch.int64), *(labels for _, labels in batches)])
    return model.head.inputs(features) if isinstance(model.head, SphereHead) else features, labels
