"""The features of a client's training images that are the input of its classifier."""

import torch
from torch import Tensor, nn

from curvfed.strategies.base.statistics import HEAD
from curvfed.tasks.errors import DataError
from curvfed.tasks.heads import SphereHead
from curvfed.tasks.images.client_task import ImageTask
from curvfed.tasks.images.models import ImageNet
from curvfed.tasks.task import Task


def classifier_inputs(model: nn.Module, task: Task) -> tuple[Tensor, Tensor]:
    """Inputs of the classifier (n, l) and labels (n,) for all training images.

    Raises
    ------
    DataError
        If the data are not images.
    """
    if not isinstance(model, ImageNet) or not isinstance(task, ImageTask):
        raise DataError(
            "the data are not images; only classifiers of images are calibrated", key="no-images"
        )
    batches = [(features.cpu(), labels.cpu()) for features, labels in task.features(model)]
    dim = model.get_parameter(f"{HEAD}weight").shape[1]
    features = torch.cat([torch.empty(0, dim), *(features for features, _ in batches)])
    labels = torch.cat([torch.empty(0, dtype=torch.int64), *(labels for _, labels in batches)])
    if isinstance(model.head, SphereHead):
        features = model.head.inputs(features)
    return features, labels
