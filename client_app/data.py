"""Load the data of a client, graphs, images or points, describe them to the server, and make the task to train on."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import nn

from curvfed.client_app.node_config import IN_MEMORY, absolute
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.defaults import settled
from curvfed.strategies.config.image_data import image_spec
from curvfed.strategies.config.point_data import point_spec
from curvfed.strategies.config.run_config import RunConfig, home
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks.errors import DataError
from curvfed.tasks.examples import example_statistics
from curvfed.tasks.graphs import client_task as graphs
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.data.clients import load_client, load_own, own
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.images import data as images
from curvfed.tasks.images.client_images import ClientImages
from curvfed.tasks.images.client_task import ImageTask
from curvfed.tasks.images.nets import has_batch_norm
from curvfed.tasks.images.objectives import objective
from curvfed.tasks.images.raw import RawImages
from curvfed.tasks.in_memory import Raw
from curvfed.tasks.points import data as points
from curvfed.tasks.points.client_points import ClientPoints
from curvfed.tasks.points.client_points import statistics as point_statistics
from curvfed.tasks.points.readers import READERS, RawPoints
from curvfed.tasks.registry import tasks_of
from curvfed.tasks.task import Task

Data = ClientGraph | ClientImages | ClientPoints


def load_data(config: RunConfig, partition: int, node_config: Mapping[str, Any]) -> Data:
    """The data of a node: what `IN_MEMORY` holds for it in a simulation, what its `data-path` names, or else its part of
    the run's data set.

    Raises
    ------
    DataError, ConfigError
        If the data are absent or unfit, or the node's configuration names none.
    """
    if isinstance(raw := node_config.get(IN_MEMORY), Raw):
        return _from_memory(raw, config)
    if "data-path" in node_config:
        path = absolute(str(node_config["data-path"]))
        if path.suffix.lower() in READERS:
            return points.load_own(path, point_spec(settled(config, "points")))
        if images.is_image_folder(path):
            return images.load_own(path, image_spec(settled(config, "images")), home() / "cache")
        return load_own(path, _graph_spec(settled(config, "graphs")), home() / "cache")
    if "num-partitions" not in node_config:
        raise ConfigError(
            "this node has neither data-path (its own data) nor num-partitions (its share of a public data set) in its "
            "--node-config"
        )
    return _part(settled(config, tasks_of(config.dataset)[0]), partition, int(node_config["num-partitions"]))


def _from_memory(raw: Raw, config: RunConfig) -> Data:
    if isinstance(raw, RawPoints):
        return points.own(raw, point_spec(settled(config, "points")))
    if isinstance(raw, RawImages):
        return images.own(raw, image_spec(settled(config, "images")))
    return own(raw, _graph_spec(settled(config, "graphs")))


def _part(config: RunConfig, partition: int, num_partitions: int) -> Data:
    if tasks_of(config.dataset) == ("points",):
        return points.load_client(point_spec(config), partition, num_partitions)
    if tasks_of(config.dataset) == ("images",):
        return images.load_client(image_spec(config), partition, num_partitions, home() / "cache")
    return load_client(_graph_spec(config), partition, num_partitions, home() / "cache")


def _graph_spec(config: RunConfig) -> GraphSpec:
    return GraphSpec(
        dataset=config.dataset,
        data_dir=config.data_path,
        partition=config.partition,
        seed=config.seed,
        train_size=config.train_size,
        test_size=config.test_size,
        normalize=config.normalize,
    )


def size(data: Data) -> str:
    """How many examples there are, and of what kind, in words for the person who holds the data."""
    if isinstance(data, ClientGraph):
        what = "a graph" if data.graph_of_node is None else f"{len(data.labels)} graphs"
        edges = data.edge_index.shape[1] // 2
        much = f"{what} of {len(data.features)} nodes and {edges} edges, {data.num_features} features"
    elif isinstance(data, ClientImages):
        much = f"{len(data.labels)} images of {data.shape} (channels x height x width)"
    else:
        much = f"{len(data.labels)} points in the disc"
    return f"{much}, {len(data.class_names)} classes"


def class_names(data: Data, config: RunConfig) -> tuple[str, ...]:
    """The names of the classes that the server is told; numbers stand in for them where their count alone is public."""
    if isinstance(data, ClientPoints) and _hides_classes(data, config):
        return tuple(f"class {number}" for number in range(config.hull.num_classes or 0))
    return data.class_names


def _hides_classes(data: ClientPoints, config: RunConfig) -> bool:
    return config.hull.num_classes is not None and not data.partition_digest


def check_fits(data: Data, facts: Facts) -> None:
    """Refuse data whose features, or images whose shape, are not the run's.

    Raises
    ------
    DataError
    """
    if facts.shape != data.shape:
        raise DataError(f"the data are images of {data.shape or 'no shape'}, those of this run {facts.shape or 'none'}")
    if facts.num_features not in (0, data.num_features):
        raise DataError(f"the data have {data.num_features} features per node, those of this run {facts.num_features}")


def statistics(data: Data, config: RunConfig) -> dict[str, Any]:
    """Figures about the data, by name."""
    if isinstance(data, ClientGraph):
        return graphs.statistics(data, config.flatland.triangles)
    if isinstance(data, ClientImages):
        return example_statistics(data)
    told = asdict(point_statistics(data))
    hidden = ("class_counts", "majority_accuracy") if _hides_classes(data, config) else ()
    return {name: value for name, value in told.items() if name not in hidden}


def make_task(
    data: Data, config: RunConfig, class_names: tuple[str, ...], device: torch.device, model: nn.Module
) -> Task:
    """The data on their device, with the run's loss; `config` is settled.

    Raises
    ------
    DataError
        If a class of the client is not among `class_names`.
    """
    if isinstance(data, ClientPoints):
        raise DataError("the data are points in a disc, which are not trained on by steps")
    if isinstance(data, ClientGraph):
        return graphs.client_task(data, class_names, device, config.batch_size, config.node_share)
    keys, wanted = config.hyperfed, config.images.augment
    return ImageTask(
        data,
        class_names,
        device,
        config.batch_size,
        objective(config.loss, keys.margin, keys.negatives, keys.mixup),
        augment=data.augments if wanted is None else wanted == "crop-flip",
        mixed_precision=config.mixed_precision,
        has_batch_norm=has_batch_norm(model),
    )
