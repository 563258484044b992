"""A client's graphs: one whose nodes are classified, or many that are classified."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from curvfed.strategies.base.run_keys import home
from curvfed.strategies.config.model_spec import encoder
from curvfed.strategies.config.run_config import RunConfig
from curvfed.tasks.examples import FAR
from curvfed.tasks.graphs import client_task
from curvfed.tasks.graphs.data import clients
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.data.raw import RawGraph, RawGraphs
from curvfed.tasks.graphs.sparse import row_norms
from curvfed.tasks.history import log_history
from curvfed.tasks.task import Task


def from_memory(raw: RawGraph | RawGraphs, config: RunConfig) -> ClientGraph:
    """Data in memory. Here and below the defaults of `config` are resolved."""
    return log_history("data in memory", clients.own_data(raw, _spec(config)))


def load_own(path: Path, config: RunConfig) -> ClientGraph:
    """A file or folder of the client's own."""
    return clients.load_own(path, _spec(config), home() / "cache")


def load_part(config: RunConfig, partition: int, num_partitions: int) -> ClientGraph:
    """A part of the run's data set."""
    return clients.load_client(_spec(config), partition, num_partitions, home() / "cache")


def describe_size(data: ClientGraph) -> str:
    """The amount of data, in words."""
    graphs = "a graph" if data.graph_of_node is None else f"{len(data.labels)} graphs"
    edges = data.edge_index.shape[1] // 2
    return f"{graphs} of {len(data.features)} nodes and {edges} edges, {data.num_features} features"


def class_names(data: ClientGraph, config: RunConfig) -> tuple[str, ...]:
    """Class names for the server."""
    return data.class_names


def statistics(data: ClientGraph, config: RunConfig) -> Mapping[str, Any]:
    """Figures about the data, by name."""
    figures = client_task.statistics(data, bool(config["flatland.triangles"]))
    if config.normalize == "none" and encoder(config, data.task) == "lorentz":
        norm = float(row_norms(data.features).max())
        figures |= {"feature_norm": float(f"{norm:.1e}")} if norm > FAR else {}
    return figures


def make_task(
    data: ClientGraph,
    config: RunConfig,
    names: tuple[str, ...],
    device: torch.device,
    model: nn.Module,
) -> Task:
    """The data on their device, with the run's loss."""
    return client_task.client_task(
        data, names, device, config.batch_size, config.network.node_share
    )


def _spec(config: RunConfig) -> GraphSpec:
    return GraphSpec(
        dataset=config.dataset,
        data_dir=config.data_path,
        partition=config.partition,
        seed=config.seed,
        train_size=config.train_size,
        test_size=config.test_size,
        normalize=config.normalize,
        batch_size=config.batch_size,
    )
