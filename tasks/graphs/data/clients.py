"""The data of one client: its part of a public graph, its share of sets of graphs, its generated tree, or its own file."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from curvfed.tasks import prepared
from curvfed.tasks.errors import DataError, naming
from curvfed.tasks.graphs.data import trees
from curvfed.tasks.graphs.data.client_graph import ClientGraph, client_graph, pack, unpack
from curvfed.tasks.graphs.data.datasets import locate
from curvfed.tasks.graphs.data.graph_sets import deal, load_graph_client, own_graphs
from curvfed.tasks.graphs.data.graph_spec import GraphSpec, normalize_rows
from curvfed.tasks.graphs.data.partition import (
    PARTITIONS,
    clean_edges,
    induced,
    largest_component,
    membership_digest,
    random_split,
)
from curvfed.tasks.graphs.data.raw import RawGraph, RawGraphs
from curvfed.tasks.graphs.data.tu import graph_dataset_names
from curvfed.tasks.graphs.data.tu_files import find_files, raw_files, read_tu
from curvfed.tasks.graphs.data.user_file import read_user_file


def load_client(spec: GraphSpec, partition_id: int, num_partitions: int, cache_dir: Path) -> ClientGraph:
    """The data of client `partition_id` of `num_partitions`.

    The first call prepares every client and keeps them below `cache_dir`; later ones read one file. Public and user
    graphs are cleaned, cut to their largest connected component, split (once, over all clients) and partitioned; edges
    between clients are dropped (the protocol of FED-PUB, Baek et al. 2023).

    Raises
    ------
    DataError
        Absent or unfit data, more clients than nodes, or a `partition_id` out of range.
    """
    if not 0 <= partition_id < num_partitions:
        raise DataError(
            f"partition-id is {partition_id}; with {num_partitions} clients it must be in 0..{num_partitions - 1}"
        )
    if spec.dataset.lower() == "trees":
        return _tree(spec, partition_id, num_partitions)
    if graph_dataset_names(spec.dataset) is not None:
        return load_graph_client(spec, partition_id, num_partitions, cache_dir)
    located = locate(spec.dataset, spec.data_dir)
    settings = asdict(spec) | {"dataset": spec.dataset.lower(), "data_dir": "", "num_partitions": num_partitions}
    folder = cache_dir / prepared.cache_key(settings, located.files)
    graph = prepared.read(folder, partition_id, unpack)
    if graph is None:
        raw = located.read()
        if isinstance(raw, RawGraphs):
            graphs = deal(raw, spec, num_partitions)
        else:
            graphs = _prepare(raw, spec, num_partitions)
        prepared.write(folder, graphs, pack)
        graph = graphs[partition_id]
    return graph


def load_own(path: Path, spec: GraphSpec, cache_dir: Path | None = None) -> ClientGraph:
    """A node's own data, whole: a `.pt` file of a graph, with its own masks where it has them, or of a list of graphs, or
    a folder of graphs in the layout of the TU collection; else under a random split.

    A real node starts a process per message: with a `cache_dir` the prepared graph is kept there (for its user alone),
    and later calls read it back.

    Raises
    ------
    DataError
        See `curvfed.tasks.graphs.data.user_file.read_user_file` and `curvfed.tasks.graphs.data.tu_files.read_tu`.
    """
    path = path.expanduser()
    folder = None
    found = find_files(path) if path.is_dir() else None
    with naming(f"{found[1]}_" if found else ""):
        if cache_dir is not None and path.exists():
            files = raw_files(*found) if found else [path]
            folder = cache_dir / prepared.cache_key(asdict(spec) | {"dataset": "", "data_dir": "", "own": 1}, files)
            if (graph := prepared.read(folder, 0, unpack)) is not None:
                return graph
        raw = read_tu(*found, own=True) if found else read_user_file(path)
    graph = own(raw, spec)
    if folder is not None:
        prepared.write(folder, [graph], pack)
    return graph


def own(raw: RawGraph | RawGraphs, spec: GraphSpec) -> ClientGraph:
    """What a node makes of its own data, whole: under the masks that they have, else under a random split."""
    return own_graphs(raw, spec) if isinstance(raw, RawGraphs) else _own_graph(raw, spec)


def _own_graph(raw: RawGraph, spec: GraphSpec) -> ClientGraph:
    edges = clean_edges(raw.edge_index.numpy(), len(raw.labels))
    masks = _split(raw, np.arange(len(raw.labels)), spec)
    features = normalize_rows(raw.features, spec.normalize)
    return client_graph(features, torch.from_numpy(edges), raw.labels, masks, raw.class_names, raw.metric, "")


def _prepare(raw: RawGraph, spec: GraphSpec, num_partitions: int) -> list[ClientGraph]:
    """Every client's part of the graph."""
    num_nodes = len(raw.labels)
    edges = clean_edges(raw.edge_index.numpy(), num_nodes)
    nodes = largest_component(edges, num_nodes)
    if num_partitions > len(nodes):
        raise DataError(
            f"{num_partitions} clients are more than the {len(nodes)} nodes in the largest connected component of "
            f"{spec.dataset}; every client needs one"
        )
    edges = induced(edges, nodes, num_nodes)
    masks = _split(raw, nodes, spec)
    features = normalize_rows(raw.features[nodes], spec.normalize)
    labels = raw.labels[nodes]
    parts = PARTITIONS[spec.partition](edges, len(nodes), num_partitions, spec.seed)
    whole = np.full(num_nodes, -1)
    whole[nodes] = parts
    partition_digest = membership_digest(whole)

    def client(part: int) -> ClientGraph:
        own = np.flatnonzero(parts == part)
        own_edges = torch.from_numpy(induced(edges, own, len(nodes)))
        return client_graph(
            features[own], own_edges, labels[own], masks[:, own], raw.class_names, raw.metric, partition_digest
        )

    return [client(part) for part in range(num_partitions)]


def _split(raw: RawGraph, nodes: np.ndarray, spec: GraphSpec) -> Tensor:
    """Masks (3, len(nodes)): the data set's own, else random ones over `nodes`."""
    if raw.masks is not None:
        return raw.masks[:, nodes, spec.seed % raw.masks.shape[2]]
    # A stream of its own: the split must not be tied to the random partition of the same seed.
    rng = np.random.default_rng([spec.seed, 1])
    return torch.from_numpy(random_split(len(nodes), spec.train_size, spec.test_size, rng))


def _tree(spec: GraphSpec, partition_id: int, num_partitions: int) -> ClientGraph:
    tree = trees.generate(spec.seed, partition_id)
    rng = np.random.default_rng([spec.seed, 1, partition_id])
    masks = random_split(len(tree.labels), spec.train_size, spec.test_size, rng)
    return client_graph(
        normalize_rows(torch.from_numpy(tree.features), spec.normalize),
        torch.from_numpy(tree.edge_index),
        torch.from_numpy(tree.labels),
        torch.from_numpy(masks),
        trees.CLASS_NAMES,
        "accuracy",
        trees.digest(spec.seed, num_partitions),
    )
