"""A client's contribution to the calibration of the classifier."""

import numpy as np
from numpy.typing import NDArray
from torch import nn

from curvfed.strategies.base.calibration import Calibration
from curvfed.strategies.base.classifier_inputs import classifier_inputs
from curvfed.strategies.base.named_arrays import HEAD
from curvfed.tasks.heads import SphereHead
from curvfed.tasks.task import Task


def sums(calibration: Calibration, model: nn.Module, task: Task) -> tuple[NDArray[np.float64], int]:
    """Sums over the classifier inputs of the training images, as one float64 vector, and the number
    of images.

    On the sphere, images whose features are all 0 have no direction and are not counted.

    Raises
    ------
    DataError
        If the data are not images.
    """
    features, labels = classifier_inputs(model, task)
    classes, dim = model.get_parameter(f"{HEAD}weight").shape
    total = calibration.sums.zeros(dim, classes)
    total.add(features, labels)
    on_sphere = isinstance(model.head, SphereHead) and model.head.normalize
    return total.pack(), int((features.norm(dim=1) > 0.5).sum()) if on_sphere else len(labels)
