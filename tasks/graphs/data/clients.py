"""The graph data of one client: its part of a public data set, its generated tree, or its own file
or folder."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from curvfed.tasks import prepared
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.client_graph import ClientGraph, client_graph
from curvfed.tasks.graphs.data.graph_spec import GraphSpec, normalize_rows
from curvfed.tasks.graphs.data.own_split import PARTS, VALIDATION, WORDS
from curvfed.tasks.graphs.data.partition import (
    PARTITIONS,
    Integers,
    clean_edges,
    components,
    induced,
    largest,
    mean_weights,
    membership_digest,
)
from curvfed.tasks.graphs.data.raw import RawGraph, RawGraphs
from curvfed.tasks.graphs.sparse import select_rows
from curvfed.tasks.history import logged


def load_client(
    spec: GraphSpec, partition_id: int, num_partitions: int, cache_dir: Path
) -> ClientGraph:
    """The data of client `partition_id` of `num_partitions`.

    The first call prepares every client and keeps them below `cache_dir`; later ones read one file.
    Graphs are cleaned, split (once, over all clients) and partitioned; edges between clients are
    dropped. Public ones are cut to their largest connected component before (the protocol of
    FED-PUB, Baek et al. 2023); a user's own keeps all its nodes. What was done is logged with
    client 0.

    Raises
    ------
    DataError
        Absent or unfit data, more clients than nodes, or a `partition_id` out of range.
    """
    prepared.check_partition(partition_id, num_partitions)
    if spec.dataset.lower() == "trees":
        return _tree(spec, partition_id, num_partitions)
    # What reads files is imported where there are some.
    from curvfed.tasks.graphs.data.datasets import locate
    from curvfed.tasks.graphs.data.graph_sets import deal, load_graph_client
    from curvfed.tasks.graphs.data.tu import graph_dataset_names

    if (names := graph_dataset_names(spec.dataset)) is not None:
        return logged(
            spec.dataset,
            load_graph_client(names, spec, partition_id, num_partitions, cache_dir),
            partition_id,
        )
    located = locate(spec.dataset, spec.data_dir)

    def prepare() -> Iterable[ClientGraph]:
        raw = located.read()
        return (
            deal(raw, spec, num_partitions)
            if isinstance(raw, RawGraphs)
            else _parts(raw, spec, num_partitions)
        )

    settings = asdict(spec) | {
        "dataset": spec.dataset.lower(),
        "data_dir": "",
        "num_partitions": num_partitions,
    }
    folder = cache_dir / prepared.cache_key(settings, located.files)
    return logged(
        spec.dataset, prepared.load(ClientGraph, folder, partition_id, prepare), partition_id
    )


def load_own(path: Path, spec: GraphSpec, cache_dir: Path | None = None) -> ClientGraph:
    """A node's own data, whole: a `.pt` file of a graph or of a list of graphs, or a folder in the
    TU collection's layout.

    A graph in a file is split by its own masks where it has them, all else at random. A real node
    starts a process per message: with a `cache_dir` the prepared graph is kept there (for its user
    alone), and later calls read it.

    Raises
    ------
    DataError
        See `curvfed.tasks.graphs.data.user_file.read_user_file` and
        `curvfed.tasks.graphs.data.tu_files.read_tu`.
    """
    from curvfed.tasks.graphs.data.datasets import locate_own

    located = locate_own(path.expanduser())
    if cache_dir is None or not path.expanduser().exists():
        return own(located.read(), spec)
    folder = cache_dir / prepared.cache_key(
        asdict(spec) | {"dataset": "", "data_dir": "", "own": 1}, located.files
    )
    return logged(
        str(path), prepared.load(ClientGraph, folder, 0, lambda: [own(located.read(), spec)])
    )


def own(raw: RawGraph | RawGraphs, spec: GraphSpec) -> ClientGraph:
    """A node's own data, whole: split by its own masks where it has them, else at random."""
    if isinstance(raw, RawGraphs):
        from curvfed.tasks.graphs.data.graph_sets import own_graphs

        return own_graphs(raw, spec)
    edges = torch.from_numpy(clean_edges(raw.edge_index.numpy(), len(raw.labels)))
    masks = _split(raw, np.arange(len(raw.labels)), spec)
    features = normalize_rows(raw.features, spec.normalize)
    weights = _weights(raw, edges.numpy())
    made = client_graph(
        features, edges, raw.labels, masks, raw.class_names, raw.metric, "", edge_weights=weights
    )
    return replace(_in_batches(made, spec), history=_drawn(raw, spec))


def _in_batches(graph: ClientGraph, spec: GraphSpec) -> ClientGraph:
    """The graph, with clusters if it has more nodes than a batch."""
    if not spec.batch_size:
        return graph
    from curvfed.tasks.graphs.data.clusters import clustered

    return clustered(graph, spec)


def _parts(raw: RawGraph, spec: GraphSpec, num_partitions: int) -> Iterator[ClientGraph]:
    """Every client's part of the graph."""
    from curvfed.tasks.graphs.data.sources import SOURCES

    num_nodes = len(raw.labels)
    edges = clean_edges(raw.edge_index.numpy(), num_nodes)
    component = components(edges, num_nodes)
    nodes = np.arange(num_nodes)
    kept = f"all {num_nodes} nodes"
    if spec.dataset.lower() in SOURCES:
        nodes = largest(component)
        kept = f"{len(nodes)} of {num_nodes} nodes, the largest connected component"
    if num_partitions > len(nodes):
        raise DataError(
            f"{num_partitions} clients are more than the {len(nodes)} nodes of {spec.dataset};"
            " every client needs one"
        )
    edges = induced(edges, nodes, num_nodes)
    component = component[nodes]
    masks = _split(raw, nodes, spec)
    features = normalize_rows(select_rows(raw.features, torch.from_numpy(nodes)), spec.normalize)
    labels = raw.labels[nodes]
    parts = PARTITIONS[spec.partition](edges, len(nodes), num_partitions, spec.seed)
    owner_of_node = np.full(num_nodes, -1)
    owner_of_node[nodes] = parts
    digest = membership_digest(owner_of_node)
    dropped = edges[0][parts[edges[0]] != parts[edges[1]]]
    drawn = _drawn(raw, spec)
    history = (
        f"{drawn}{'; ' if drawn else ''}{kept}, dealt to {num_partitions} clients;"
        f" {len(np.unique(component[dropped]))} of {len(np.unique(component))} connected components"
        f" are cut, {len(dropped) // 2} of {edges.shape[1] // 2} edges run between clients and are"
        " dropped"
    )
    for part in range(num_partitions):
        own = np.flatnonzero(parts == part)
        own_edges = torch.from_numpy(induced(edges, own, len(nodes)))
        weights = _weights(raw, nodes[own][own_edges.numpy()])
        made = client_graph(
            select_rows(features, torch.from_numpy(own)),
            *(own_edges, labels[own], masks[:, own], raw.class_names, raw.metric, digest),
            edge_weights=weights,
        )
        yield replace(
            _in_batches(made, spec), history=history, numbers=torch.from_numpy(nodes[own])
        )


def _split(raw: RawGraph, nodes: np.ndarray, spec: GraphSpec) -> Tensor:
    """Masks (3, len(nodes)): the data set's own, else random ones."""
    if raw.split is None:
        return spec.split(raw.labels[nodes])
    return spec.completed(replace(raw.split, masks=raw.split.masks[:, nodes]), raw.labels[nodes])


def _weights(raw: RawGraph, edges: Integers) -> Tensor | None:
    """The weights of clean edges between nodes of the whole graph."""
    if raw.edge_weights is None:
        return None
    return torch.from_numpy(
        mean_weights(raw.edge_index.numpy(), raw.edge_weights.numpy(), edges, len(raw.labels))
    )


def _drawn(raw: RawGraph, spec: GraphSpec) -> str:
    """What of a graph's file is used, and what was drawn, in words."""
    told = list(raw.notes)
    if unknown := int((raw.labels < 0).sum()):
        told.append(
            f"{unknown} of {len(raw.labels)} nodes are of unknown class, in no loss and no score"
        )
    if raw.split is None:
        told.append("it has no split, so one is drawn by the seed")
    else:
        told.append(raw.split.told(spec.seed))
        sizes = _split(raw, np.arange(len(raw.labels)), spec).sum(dim=1)
        source = (
            "the training nodes" if raw.split.absent == (VALIDATION,) else "the nodes in no part"
        )
        told += [
            f"no {PARTS[part]}_mask, so {sizes[part]} of {source} are drawn for {WORDS[part]}"
            for part in raw.split.absent
        ]
    if raw.edge_weights is not None:
        told.append(
            "convolutions by the normalised adjacency use the weights of the edges, all else"
            " ignores them"
        )
    if 0 < spec.batch_size < len(raw.labels):
        told.append(
            f"clients with more than batch-size = {spec.batch_size} nodes take some clusters of"
            " theirs at a time, and their scores are near those of the whole graph, not equal"
        )
    return "; ".join(told)


def _tree(spec: GraphSpec, partition_id: int, num_partitions: int) -> ClientGraph:
    from curvfed.tasks.graphs.data import trees

    tree = trees.generate(spec.seed, partition_id)
    made = client_graph(
        normalize_rows(torch.from_numpy(tree.features), spec.normalize),
        torch.from_numpy(tree.edge_index),
        torch.from_numpy(tree.labels),
        spec.split(torch.from_numpy(tree.labels), partition_id),
        trees.CLASS_NAMES,
        "accuracy",
        trees.digest(spec.seed, num_partitions),
    )
    return _in_batches(made, spec)
