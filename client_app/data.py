"""Load the data of a client, describe them to the server, and make the task for training."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from curvfed.client_app.node import MIN_CLASS_SIZE, Node
from curvfed.client_app.node.own_split import own_split
from curvfed.strategies.base.statistics import in_large_classes
from curvfed.strategies.config.build_method import encoder
from curvfed.strategies.config.data_checks import check_partition
from curvfed.strategies.config.run_config import RunConfig, open_dataset
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks.amounts import amount
from curvfed.tasks.dataset import dataset_class
from curvfed.tasks.errors import DataError
from curvfed.tasks.formats import decide
from curvfed.tasks.kinds import KINDS, TRIVIAL, tasks_as
from curvfed.tasks.record_split import RecordSplit
from curvfed.tasks.registry import OWN, tasks_of
from curvfed.tasks.task import Task

if TYPE_CHECKING:
    from curvfed.client_app.node.ledger import Ledger
    from curvfed.tasks.examples import Examples
    from curvfed.tasks.points import ClientPoints

    Data = Examples | ClientPoints
else:
    Data = object  # the classes are imported where a run has such data

PARTS = {"train": "training", "val": "validation", "test": "test"}
"""The parts of the examples, and their words."""


def load_data(config: RunConfig, node: Node, ledger: "Ledger | None" = None) -> Data:
    """The data of a node: in memory (in a simulation), at its `data-path`, or its part of the run's
    data set.

    Parameters
    ----------
    ledger : Ledger or None
        It keeps the shares in which a real node splits its own data.

    Raises
    ------
    DataError, ConfigError
        If the data are missing or unfit, or a run asks for another split.
    """
    data: Data
    if node.data is not None:
        data = open_dataset(config, node.data.task).in_memory(node.data)
        return data
    if node.data_path is not None:
        task = tasks_as(decide(node.data_path).tasks, config.row.tasks)[0]
        kept = ledger.shares(task) if ledger else ()
        record_split = own_split(node, config, task, kept)
        data = _own_data(config, node.data_path, task, record_split)
        if ledger and record_split:
            ledger.keep_shares(task, record_split.shares, kept)
        if record_split and len(data.labels) and not data.train.any():
            log.warning(
                "partition %d: none of this node's records falls into training, and it takes part"
                " with weight 0; larger is a train-size in [data] of its policy.toml",
                node.partition,
            )
        return data
    if config.dataset.lower() == OWN:
        raise ConfigError(
            'dataset = "own": this node has no data of its own (data-path); allowed here is a data'
            " set or a path",
            key="no-own-data",
        )
    tasks = tasks_as(tasks_of(config.dataset, config.data_path), config.row.tasks)
    check_partition(config, tasks[:1], tasks[:1])
    dataset = open_dataset(config, tasks[0])
    data = dataset.client(node.partition, node.num_partitions or 0)
    return data


def _own_data(config: RunConfig, path: Path, task: str, record_split: RecordSplit | None) -> Data:
    """The data at a node's `data-path`, as the method reads them, or else as the kind of data
    does."""
    data: Data | None = None
    if task in config.row.tasks:
        data = config.row.read_data(path, config.own_keys)
    if data is None:
        data = open_dataset(config, task, record_split).own(path)
    elif record_split is not None:
        data = replace(data, split_digest=record_split.digest_of_file(path))
    return data


def describe_size(data: Data) -> str:
    """The amount of data and the number of classes, in words for the owner of the data."""
    words = str(data.describe())
    if not KINDS[data.task].has_classes:
        return words
    number = num_classes(data)
    total = len(data.class_names)
    counts = f"{total}" if number == total else f"{number} of {total}"
    return f"{words}, {amount(counts, 'class')}"


def num_classes(data: Data) -> int:
    """The number of classes that have examples, test examples included."""
    return len(torch.unique(torch.as_tensor(data.labels[data.labels >= 0])))


def describe_parts(data: Data) -> str:
    """The size, and the number of examples in each part and of unknown class."""
    counts = [f"{int(getattr(data, name).sum())} {word}" for name, word in PARTS.items()]
    unknown = int((data.labels < 0).sum())
    if unknown:
        counts.append(f"{unknown} of unknown class")
    return f"{describe_size(data)}; {', '.join(counts)}"


def class_names(data: Data, config: RunConfig) -> tuple[str, ...]:
    """Class names for the server; numbers if only the number of classes is public."""
    if _hides_classes(data, config):
        return tuple(f"class {number}" for number in range(config.num_public_classes or 0))
    return data.class_names


def _hides_classes(data: Data, config: RunConfig) -> bool:
    """Whether only the number of classes is public, which is set in the keys of the hull."""
    has_keys = "hull" in KINDS[data.task].tables
    return has_keys and config.num_public_classes is not None and not data.partition_digest


def check_fits(data: Data, facts: Facts) -> None:
    """Refuse data if their number of features, image shape or depth differs from the run's.

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
    bits = getattr(data, "bits", 0)
    if bits and facts.bits not in (0, bits):
        raise DataError(
            f"the 16-bit images of the data are read as {bits} bits, those of this run as"
            f" {facts.bits}; allowed is one number at all nodes, which images.bits sets",
            key="bits",
        )
    if facts.num_features not in (0, data.num_features):
        raise DataError(
            f"the data have {amount(data.num_features, 'feature')} per node, those of this run"
            f" {facts.num_features}",
            key="num-features",
        )


def statistics(data: Data, config: RunConfig) -> dict[str, Any]:
    """Figures about the data, by name."""
    figures = data.statistics()
    if _hides_classes(data, config):
        for name in ("class_counts", *TRIVIAL):
            figures.pop(name, None)
    if config.normalize == "none" and encoder(config, data.task) == "lorentz":
        from curvfed.tasks.graphs.data.client_graph import ClientGraph

        assert isinstance(data, ClientGraph), "no other data have a Lorentz network"
        figures |= data.far_features()
    return figures


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
    return dataset_class(data.task).task(config, data, class_names, device, model)


def has_small_class(class_sizes: Iterable[int], node: Node) -> bool:
    """Whether one of these classes has examples, but too few for its number to leave."""
    return any(0 < size < node.min_class_size for size in class_sizes)


def check_class_sizes(data: Data, node: Node) -> None:
    """Refuse to contribute hulls or sums by class if all classes are too small.

    Raises
    ------
    ConfigError
        Names the policy's line, but not the size of any class.
    """
    labels = np.asarray(data.labels)[np.asarray(data.train)]
    minimum = node.min_class_size
    if labels.size and not in_large_classes(labels, minimum).any():
        raise ConfigError(
            f"[leaves] hull-min-class-size = {minimum} in this node's policy ({MIN_CLASS_SIZE}"
            " without a line): no class here has that many training examples, so nothing of"
            " them may leave",
            key="small-classes",
        )
