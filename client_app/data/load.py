"""Load the data of a client, describe them to the server, and make the task for training.

Each kind of data has a file beside this one, imported if a run has such data.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from curvfed.client_app.node.node import Node
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.run_config import RunConfig, resolve_defaults
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks.errors import DataError
from curvfed.tasks.registry import OWN, kind_of_path, tasks_of
from curvfed.tasks.task import Task

if TYPE_CHECKING:
    from curvfed.tasks.graphs.data.client_graph import ClientGraph
    from curvfed.tasks.images.client_images import ClientImages
    from curvfed.tasks.points.client_points import ClientPoints

    Data = ClientGraph | ClientImages | ClientPoints
else:
    Data = object  # the classes are imported where a run has such data

PARTS = {"train": "training", "val": "validation", "test": "test"}
"""The parts of the examples, and their words."""


def load_data(config: RunConfig, node: Node) -> Data:
    """The data of a node: in memory (in a simulation), at its `data-path`, or its part of the run's
    data set.

    Raises
    ------
    DataError, ConfigError
        If the data are missing or unfit.
    """
    data: Data
    if node.data is not None:
        from curvfed.tasks.in_memory import task_of

        task = task_of(node.data)
        data = _kind(task).from_memory(node.data, resolve_defaults(config, task))
        return data
    if node.data_path is not None:
        task = kind_of_path(node.data_path)
        data = _kind(task).load_own(node.data_path, resolve_defaults(config, task))
        return data
    if config.dataset.lower() == OWN:
        raise ConfigError(
            'dataset = "own": this node has no data of its own (data-path); allowed here is a data'
            " set or a path",
            key="no-own-data",
        )
    task = tasks_of(config.dataset)[0]
    data = _kind(task).load_part(
        resolve_defaults(config, task), node.partition, node.num_partitions
    )
    return data


def describe_size(data: Data) -> str:
    """The amount of data and the number of classes, in words for the owner of the data."""
    return f"{_kind(data.task).describe_size(data)}, {len(data.class_names)} classes"


def describe_parts(data: Data) -> str:
    """The size, and the number of examples in each part and of unknown class."""
    counts = [f"{int(getattr(data, name).sum())} {word}" for name, word in PARTS.items()]
    unknown = int((data.labels < 0).sum())
    if unknown:
        counts.append(f"{unknown} of unknown class")
    return f"{describe_size(data)}; {', '.join(counts)}"


def class_names(data: Data, config: RunConfig) -> tuple[str, ...]:
    """Class names for the server; numbers if only the number of classes is public."""
    names: tuple[str, ...] = _kind(data.task).class_names(data, config)
    return names


def check_fits(data: Data, facts: Facts) -> None:
    """Refuse data whose number of features or image shape is not the run's.

    Raises
    ------
    DataError
    """
    if facts.shape != data.shape:
        raise DataError(
            f"the data are images of {data.shape or 'no shape'}, those of this run"
            f" {facts.shape or 'none'}",
            key="shape",
        )
    if facts.num_features not in (0, data.num_features):
        raise DataError(
            f"the data have {data.num_features} features per node, those of this run"
            f" {facts.num_features}",
            key="num-features",
        )


def statistics(data: Data, config: RunConfig) -> dict[str, Any]:
    """Figures about the data, by name."""
    return dict(_kind(data.task).statistics(data, config))


def make_task(
    data: Data,
    config: RunConfig,
    class_names: tuple[str, ...],
    device: torch.device,
    model: nn.Module,
) -> Task:
    """The data on their device, with the run's loss; the defaults of `config` are resolved.

    Raises
    ------
    DataError
        If a class of the client is not among `class_names`.
    """
    task: Task = _kind(data.task).make_task(data, config, class_names, device, model)
    return task


def _kind(task: str) -> Any:
    """The module beside this one for a task."""
    return import_module(f"{__package__}.{task if task in ('points', 'images') else 'graphs'}")
