"""A client's points in the disc."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from curvfed.strategies.config.point_data import num_public_classes, point_spec
from curvfed.strategies.config.run_config import RunConfig
from curvfed.tasks.history import log_history
from curvfed.tasks.points import client_points
from curvfed.tasks.points import data as points
from curvfed.tasks.points.client_points import ClientPoints
from curvfed.tasks.points.client_task import PointTask
from curvfed.tasks.points.readers import RawPoints
from curvfed.tasks.task import Task


def from_memory(raw: RawPoints, config: RunConfig) -> ClientPoints:
    """Data in memory. Here and below the defaults of `config` are resolved."""
    return log_history("data in memory", points.own_data(raw, point_spec(config, config.points)))


def load_own(path: Path, config: RunConfig) -> ClientPoints:
    """A file of the client's own."""
    data: ClientPoints | None = config.row.read_data(path, config.own_keys)
    if data is not None:
        return data
    return points.load_own(path, point_spec(config, config.points))


def load_part(config: RunConfig, partition: int, num_partitions: int) -> ClientPoints:
    """A part of the run's data set."""
    return points.load_client(point_spec(config, config.points), partition, num_partitions)


def describe_size(data: ClientPoints) -> str:
    """The amount of data, in words."""
    return f"{len(data.labels)} points in the disc"


def class_names(data: ClientPoints, config: RunConfig) -> tuple[str, ...]:
    """Class names for the server; numbers if only the number of classes is public."""
    if _hides_classes(data, config):
        return tuple(f"class {number}" for number in range(num_public_classes(config) or 0))
    return data.class_names


def statistics(data: ClientPoints, config: RunConfig) -> Mapping[str, Any]:
    """Figures about the data, by name."""
    figures = asdict(client_points.statistics(data))
    if _hides_classes(data, config):
        del figures["class_counts"]
        del figures["majority_accuracy"]
    return figures


def make_task(
    data: ClientPoints,
    config: RunConfig,
    names: tuple[str, ...],
    device: torch.device,
    model: nn.Module,
) -> Task:
    """The data on their device, with the loss of a logistic model."""
    return PointTask(data, names, device, config.batch_size)


def _hides_classes(data: ClientPoints, config: RunConfig) -> bool:
    return num_public_classes(config) is not None and not data.partition_digest
