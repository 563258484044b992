"""The graph of one client: a part of a graph, a generated tree, or a graph of its own."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
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

NUM_TOPICS = 6
TOPIC_NAMES = tuple(str(topic) for topic in range(NUM_TOPICS))
NUM_WORDS = 300
TOPIC_WORDS = 50
WORDS_PER_NODE = 12
ON_TOPIC = 0.25
DRIFT = 0.25
CONCENTRATION = 2.0
FEWEST_NODES = 150
MOST_NODES = 300
LEAST_BRANCHING = 2.0
MOST_BRANCHING = 8.0
MOST_SIBLING_LINKS = 0.2
GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True, eq=False)
class Tree:
    """features (N, NUM_WORDS) float32 of 0 and 1; edge_index (2, E) int64, clean; labels (N,)
    int64; branching."""

    features: NDArray[np.float32]
    edge_index: NDArray[np.int64]
    labels: NDArray[np.int64]
    branching: float


def generate_tree(seed: int, client: int) -> Tree:
    """The graph of client number `client`, 0 or more, in the data set `trees`: a hierarchy whose
    branching differs from client to client. The same arguments give the same graph.

    The graph is a random tree of 150 to 300 nodes, the branching between 2 (deep) and 8 (flat),
    with a few siblings linked, so that there are triangles. Mean Forman-Ricci curvature is
    therefore about -2 at some clients and -7 at others.

    A node's label is one of `NUM_TOPICS` topics. A child has its parent's topic, or, with
    probability `DRIFT`, one drawn from the client's own distribution of topics (Dirichlet), so that
    clients differ in which topics they hold. A node's features are the words it uses: a few of its
    topic's words, which all clients share, among frequent words without meaning. The words alone,
    or the few labelled nodes of one client alone, predict a topic poorly: neighbours help, and so
    do other clients. Ten clients, a fifth of the nodes labelled, mean over seeds 0-2: majority
    class 41%, words alone 53%, a GCN of width 64 at each client 73%, the same GCN under FedAvg 78%.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(client + 1,)))
    # Multiples of the golden ratio are spread evenly over the unit interval, whatever the number of
    # clients.
    spread = (np.random.default_rng(seed).random() + client * GOLDEN) % 1
    branching = LEAST_BRANCHING + (MOST_BRANCHING - LEAST_BRANCHING) * spread
    num_nodes = int(rng.integers(FEWEST_NODES, MOST_NODES + 1))
    parents = _grow(num_nodes, branching, rng)
    labels = _topics(parents, rng)
    return Tree(_words(labels, seed, rng), _tree_edges(parents, rng), labels, branching)


def tree_digest(seed: int, num_clients: int) -> str:
    """SHA-256 of the settings that determine all clients' graphs."""
    return hashlib.sha256(f"trees {seed} {num_clients}".encode()).hexdigest()


def _grow(num_nodes: int, branching: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Parents, level by level: each node has one child or more, `branching` on average; the root is
    its own parent."""
    parents = np.zeros(num_nodes, dtype=np.int64)
    num_made = 1
    node = 0
    while num_made < num_nodes:
        children = 1 + rng.poisson(branching - 1)
        parents[num_made : num_made + children] = node
        num_made = num_made + children
        node = node + 1
    return parents


def _topics(parents: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    shares = rng.dirichlet(np.full(NUM_TOPICS, CONCENTRATION))
    fresh = rng.choice(NUM_TOPICS, size=len(parents), p=shares)
    drifts = rng.random(len(parents)) < DRIFT
    drifts |= parents == 0  # the root's children start subtrees of their own
    topics = fresh.copy()
    for node in np.flatnonzero(~drifts):  # ascending: a parent comes before its children
        topics[node] = topics[parents[node]]
    return topics


def _tree_edges(parents: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """The edges of the tree, and links between neighbouring siblings at a rate of the client's
    own.
    """
    nodes = np.arange(1, len(parents))
    siblings = nodes[1:][parents[2:] == parents[1:-1]]
    linked = siblings[rng.random(len(siblings)) < rng.uniform(0, MOST_SIBLING_LINKS)]
    links = np.stack([np.concatenate([nodes, linked]), np.concatenate([parents[1:], linked - 1])])
    return clean_edges(links, len(parents))


def _words(labels: NDArray[np.int64], seed: int, rng: np.random.Generator) -> NDArray[np.float32]:
    shared = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
    vocabulary = np.stack(
        [shared.choice(NUM_WORDS, TOPIC_WORDS, replace=False) for _ in range(NUM_TOPICS)]
    )
    frequency = 1 / np.arange(1, NUM_WORDS + 1)
    shape = (len(labels), WORDS_PER_NODE)
    common = rng.choice(NUM_WORDS, size=shape, p=shared.permutation(frequency / frequency.sum()))
    topical = vocabulary[labels[:, None], rng.integers(TOPIC_WORDS, size=shape)]
    features = np.zeros((len(labels), NUM_WORDS), dtype=np.float32)
    np.put_along_axis(features, np.where(rng.random(shape) < ON_TOPIC, topical, common), 1, axis=1)
    return features


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
    drawn = generate_tree(spec.seed, partition_id)
    labels = torch.from_numpy(drawn.labels)
    graph = client_graph(
        features=normalize_rows(torch.from_numpy(drawn.features), spec.normalize),
        edge_index=torch.from_numpy(drawn.edge_index),
        labels=labels,
        masks=spec.split(labels, partition_id),
        class_names=TOPIC_NAMES,
        metric="accuracy",
        partition_digest=tree_digest(spec.seed, num_partitions),
    )
    return clustered(graph, spec)
