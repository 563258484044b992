"""A client's images."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from curvfed.strategies.base.run_keys import home
from curvfed.strategies.config.image_data import image_spec
from curvfed.strategies.config.run_config import RunConfig
from curvfed.tasks.examples import example_statistics
from curvfed.tasks.images import data as images
from curvfed.tasks.images.client_images import ClientImages
from curvfed.tasks.images.client_task import ImageTask
from curvfed.tasks.images.nets import has_batch_norm
from curvfed.tasks.images.objectives import objective
from curvfed.tasks.images.raw import RawImages
from curvfed.tasks.task import Task


def from_memory(raw: RawImages, config: RunConfig) -> ClientImages:
    """Data in memory. Here and below the defaults of `config` are resolved."""
    return images.own_data(raw, image_spec(config, config.images))


def load_own(path: Path, config: RunConfig) -> ClientImages:
    """A folder of the client's own."""
    return images.load_own(path, image_spec(config, config.images), home() / "cache")


def load_part(config: RunConfig, partition: int, num_partitions: int) -> ClientImages:
    """A part of the run's data set."""
    return images.load_client(
        image_spec(config, config.images), partition, num_partitions, home() / "cache"
    )


def describe_size(data: ClientImages) -> str:
    """The amount of data, in words."""
    return f"{len(data.labels)} images of {data.shape} (channels x height x width)"


def class_names(data: ClientImages, config: RunConfig) -> tuple[str, ...]:
    """Class names for the server."""
    return data.class_names


def statistics(data: ClientImages, config: RunConfig) -> Mapping[str, Any]:
    """Figures about the data, by name."""
    return example_statistics(data)


def make_task(
    data: ClientImages,
    config: RunConfig,
    names: tuple[str, ...],
    device: torch.device,
    model: nn.Module,
) -> Task:
    """The data on their device, with the run's loss."""
    loss = objective(config.network.loss, **config.network.objective)
    augment = config.images.augment
    return ImageTask(
        data,
        names,
        device,
        config.batch_size,
        loss,
        augment=data.augments if augment is None else augment == "crop-flip",
        mixed_precision=config.mixed_precision,
        has_batch_norm=has_batch_norm(model),
    )
