"""The graph of one client: a part of a graph, a generated tree, or a graph of its own."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.client_graph import ClientGraph, client_graph
from curvfed.tasks.graphs.data.graph_spec import GraphSpec, normalize_rows
from curvfed.tasks.graphs.data.own_split import PURPOSES, ROLES, VALIDATION
from curvfed.tasks.graphs.data.partition import (
    PARTITIONS,
    Integers,
    clean_edges,
    components,
    induced,
    largest,
    mean_weights,
    membership_digest,
    metis_parts,
)
from curvfed.tasks.graphs.data.raw import RawGraph
from curvfed.tasks.graphs.sparse import select_rows

CLUSTERS_PER_BATCH = 8
"""Each pass draws several clusters anew, so that in time every edge is in a batch (Section 3.2)."""


def own_graph(raw: RawGraph, spec: GraphSpec) -> ClientGraph:
    """A node's own graph, split by its masks or at random."""
    edges = torch.from_numpy(clean_edges(raw.edge_index.numpy(), len(raw.labels)))
    masks = _split(raw, np.arange(len(raw.labels)), spec)
    features = normalize_rows(raw.features, spec.normalize)
    weights = _weights(raw, edges.numpy())
    graph = client_graph(
        features=features,
        edge_index=edges,
        labels=raw.labels,
        masks=masks,
        class_names=raw.class_names,
        metric=raw.metric,
        partition_digest="",
        edge_weights=weights,
    )
    return replace(clustered(graph, spec), history=_history(raw, spec))


def clustered(graph: ClientGraph, spec: GraphSpec) -> ClientGraph:
    """Add METIS parts as clusters, `CLUSTERS_PER_BATCH` to a batch, if the graph has more nodes
    than a batch (Cluster-GCN, Chiang et al., KDD 2019).

    Equal graphs, seeds and batch sizes give equal clusters.
    """
    num_nodes = len(graph.features)
    if not 0 < spec.batch_size < num_nodes:
        return graph
    num_clusters = min(CLUSTERS_PER_BATCH * -(-num_nodes // spec.batch_size), num_nodes)
    parts = metis_parts(graph.edge_index.numpy(), num_nodes, num_clusters, spec.seed)
    return replace(graph, clusters=torch.from_numpy(parts))


def partition_graph(raw: RawGraph, spec: GraphSpec, num_partitions: int) -> Iterator[ClientGraph]:
    """Each client's part of the graph."""
    from curvfed.tasks.graphs.data.sources import SOURCES

    num_nodes = len(raw.labels)
    edges = clean_edges(raw.edge_index.numpy(), num_nodes)
    component = components(edges, num_nodes)
    nodes = np.arange(num_nodes)
    extent = f"all {num_nodes} nodes"
    if spec.dataset.lower() in SOURCES:
        nodes = largest(component)
        extent = f"{len(nodes)} of {num_nodes} nodes, the largest connected component"
    if num_partitions > len(nodes):
        raise DataError(
            f"{num_partitions} clients are more than the {len(nodes)} nodes of {spec.dataset};"
            " every client needs one",
            key="too-many-clients",
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
    num_cut = len(np.unique(component[dropped]))
    steps = [
        f"{extent}, partitioned among {num_partitions} clients",
        f"{num_cut} of {len(np.unique(component))} connected components are cut,"
        f" {len(dropped) // 2} of {edges.shape[1] // 2} edges run between clients and are dropped",
    ]
    history = "; ".join(filter(None, [_history(raw, spec), *steps]))
    for partition in range(num_partitions):
        members = np.flatnonzero(parts == partition)
        inner_edges = torch.from_numpy(induced(edges, members, len(nodes)))
        graph = client_graph(
            features=select_rows(features, torch.from_numpy(members)),
            edge_index=inner_edges,
            labels=labels[members],
            masks=masks[:, members],
            class_names=raw.class_names,
            metric=raw.metric,
            partition_digest=digest,
            edge_weights=_weights(raw, nodes[members][inner_edges.numpy()]),
        )
        numbers = torch.from_numpy(nodes[members])
        yield replace(clustered(graph, spec), history=history, numbers=numbers)


def _split(raw: RawGraph, nodes: np.ndarray, spec: GraphSpec) -> Tensor:
    """Masks (3, len(nodes)): those of the data set, or random ones."""
    if raw.split is None:
        return spec.split(raw.labels[nodes])
    return spec.completed(replace(raw.split, masks=raw.split.masks[:, nodes]), raw.labels[nodes])


def _weights(raw: RawGraph, edges: Integers) -> Tensor | None:
    """The weights of clean edges, given by nodes of the whole graph."""
    if raw.edge_weights is None:
        return None
    return torch.from_numpy(
        mean_weights(raw.edge_index.numpy(), raw.edge_weights.numpy(), edges, len(raw.labels))
    )


def _history(raw: RawGraph, spec: GraphSpec) -> str:
    """How a file is used and how its graph is split, in words."""
    steps = list(raw.notes)
    num_unknown = int((raw.labels < 0).sum())
    if num_unknown:
        steps.append(
            f"{num_unknown} of {len(raw.labels)} nodes have no known class; losses and scores"
            " leave them out"
        )
    if raw.split is None:
        steps.append("it has no split, so the seed draws one")
    else:
        steps.append(raw.split.describe(spec.seed))
        sizes = _split(raw, np.arange(len(raw.labels)), spec).sum(dim=1)
        source = "the nodes in no part"
        if raw.split.absent == (VALIDATION,):
            source = "the training nodes"
        steps += [
            f"no {ROLES[role]}_mask, so {sizes[role]} of {source} are drawn for {PURPOSES[role]}"
            for role in raw.split.absent
        ]
    if raw.edge_weights is not None:
        steps.append(
            "convolutions by the normalised adjacency use the weights of the edges, all else"
            " ignores them"
        )
    if 0 < spec.batch_size < len(raw.labels):
        steps.append(
            f"clients with more than batch-size = {spec.batch_size} nodes train on some clusters"
            " at a time; their scores approximate those of the whole graph"
        )
    return "; ".join(steps)


def tree(spec: GraphSpec, partition_id: int, num_partitions: int) -> ClientGraph:
    """A client's generated tree."""
    from curvfed.tasks.graphs.data import trees

    drawn = trees.generate(spec.seed, partition_id)
    labels = torch.from_numpy(drawn.labels)
    graph = client_graph(
        features=normalize_rows(torch.from_numpy(drawn.features), spec.normalize),
        edge_index=torch.from_numpy(drawn.edge_index),
        labels=labels,
        masks=spec.split(labels, partition_id),
        class_names=trees.CLASS_NAMES,
        metric="accuracy",
        partition_digest=trees.digest(spec.seed, num_partitions),
    )
    return clustered(graph, spec)
