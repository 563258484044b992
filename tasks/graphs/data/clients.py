"""The data of one client: a part of a graph, a generated tree, a graph of its own, or a part of a
set of graphs."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from curvfed.geometry.arrays import Integers
from curvfed.tasks import plugins
from curvfed.tasks.amounts import amount, be
from curvfed.tasks.errors import DataError
from curvfed.tasks.generated import TOPIC_NAMES, generate_tree, tree_digest
from curvfed.tasks.graphs.data.client_graph import ClientGraph, client_graph
from curvfed.tasks.graphs.data.graph_spec import (
    PURPOSES,
    ROLES,
    VALIDATION,
    GraphSpec,
    normalize_rows,
)
from curvfed.tasks.graphs.data.partition import (
    PARTITIONS,
    clean_edges,
    components,
    induced,
    largest,
    masks_of,
    mean_weights,
    membership_digest,
    random_parts,
)
from curvfed.tasks.graphs.data.raw import RawGraph, RawGraphs
from curvfed.tasks.graphs.sparse import csr, select_rows
from curvfed.tasks.kinds import KINDS, UNKNOWN_HINT
from curvfed.tasks.record_split import RecordSplit
from curvfed.tasks.registry import source_of


def own_graph(
    raw: RawGraph, spec: GraphSpec, record_split: RecordSplit | None = None
) -> ClientGraph:
    """A node's own graph, split by its masks, or else by its records or at random."""
    edges = clean_edges(raw.edge_index.numpy(), len(raw.labels))
    masks = _masks(raw, spec, record_split)
    graph = client_graph(
        features=normalize_rows(raw.features, spec.normalize),
        edge_index=torch.from_numpy(edges),
        labels=raw.labels,
        masks=masks,
        class_names=raw.class_names,
        metric=raw.metric,
        edge_weights=_weights(raw, edges),
    )
    history = _history(raw, spec, masks, record_split)
    digest = _split_digest(raw, masks, record_split)
    return replace(clustered(graph, spec), history=history, split_digest=digest)


def _masks(
    raw: RawGraph | RawGraphs, spec: GraphSpec, record_split: RecordSplit | None = None
) -> Tensor:
    """Masks (3, n) of the nodes or graphs: those of the file, or else by the records or at
    random."""
    if raw.split is not None:
        return spec.completed(raw.split, raw.labels, record_split, lambda: raw.records)
    if record_split is None:
        return spec.split(raw.labels)
    masks = torch.from_numpy(masks_of(record_split.parts(raw.records)))
    return masks & (raw.labels >= 0)


def _split_digest(
    raw: RawGraph | RawGraphs, masks: Tensor, record_split: RecordSplit | None
) -> str:
    if record_split is None:
        return ""
    parts = torch.arange(1, 4) @ masks.long()  # 0: in no part
    return record_split.digest(raw.records, parts.numpy(), raw.context())


def clustered(graph: ClientGraph, spec: GraphSpec) -> ClientGraph:
    """The graph, with clusters for the batches if it has more nodes than a batch.

    Raises
    ------
    DataError
        If no package cuts a graph into clusters.
    """
    num_nodes = len(graph.features)
    if not 0 < spec.batch_size < num_nodes:
        return graph
    if "cut" not in plugins.additions(plugins.GRAPH_TASKS):
        raise DataError(
            f"batch-size is {spec.batch_size}, a client has {num_nodes} nodes; allowed here is 0,"
            f" all nodes in a step{plugins.absent_hint(plugins.GRAPH_TASKS)}",
            key="node-batches",
        )
    clusters: Tensor = plugins.addition(plugins.GRAPH_TASKS, "cut")(graph, spec)
    return replace(graph, clusters=clusters)


def partition_graph(raw: RawGraph, spec: GraphSpec, num_partitions: int) -> Iterator[ClientGraph]:
    """Each client's part of the graph."""
    num_nodes = len(raw.labels)
    edges = clean_edges(raw.edge_index.numpy(), num_nodes)
    component = components(edges, num_nodes)
    nodes = np.arange(num_nodes)
    extent = f"all {amount(num_nodes, 'node')}"
    if source_of(spec.dataset) is not None:
        nodes = largest(component)
        extent = f"{len(nodes)} of {amount(num_nodes, 'node')}, the largest connected component"
    if num_partitions > len(nodes):
        raise DataError(
            f"{num_partitions} clients are more than {amount(len(nodes), 'node')} of"
            f" {spec.dataset}; every client needs one",
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
    num_components = len(np.unique(component))
    num_edges = edges.shape[1] // 2
    steps = [
        f"{extent}, partitioned among {amount(num_partitions, 'client')}",
        f"connected components cut: {num_cut} of {num_components};"
        f" edges between clients, which are dropped: {len(dropped) // 2} of {num_edges}",
    ]
    history = "; ".join(filter(None, [_history(raw, spec, _masks(raw, spec)), *steps]))
    for partition in range(num_partitions):
        members = np.flatnonzero(parts == partition)
        inner_edges = torch.from_numpy(induced(edges, members, len(nodes)))
        weights = _weights(raw, nodes[members][inner_edges.numpy()])
        graph = client_graph(
            features=select_rows(features, torch.from_numpy(members)),
            edge_index=inner_edges,
            labels=labels[members],
            masks=masks[:, members],
            class_names=raw.class_names,
            metric=raw.metric,
            partition_digest=digest,
            edge_weights=weights,
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


def _history(
    raw: RawGraph, spec: GraphSpec, masks: Tensor, record_split: RecordSplit | None = None
) -> str:
    """How a file is used and how its graph is split, in words."""
    steps = [*raw.notes, *_unknown(raw, "nodes")]
    if raw.split is None:
        drawer = "the seed" if record_split is None else "a hash of each node"
        # A public data set may have a split, which is not that of the papers on federations.
        is_public = bool(spec.dataset) and source_of(spec.dataset) is not None
        reason = "" if is_public else ", as the file has none"
        steps.append(f"{drawer} draws the split{reason}")
    else:
        steps.append(raw.split.describe(_number(spec, record_split)))
        sizes = masks.sum(dim=1).tolist()
        source = "the nodes in no part"
        if raw.split.absent == (VALIDATION,):
            source = "the training nodes"
        steps += [
            f"no {ROLES[role]}_mask, so {sizes[role]} of {source} {be(sizes[role])} drawn for"
            f" {PURPOSES[role]}"
            for role in raw.split.absent
        ]
    if raw.edge_weights is not None:
        networks = ", ".join(KINDS["nodes"].models)
        steps.append(
            f"the edges have weights, which the networks {networks} use; another package's network"
            " uses them if it multiplies by the adjacency"
        )
    if 0 < spec.batch_size < len(raw.labels):
        steps.append(
            f"clients with more than batch-size = {spec.batch_size} nodes train on some clusters"
            " at a time; their scores approximate those of the whole graph"
        )
    return "; ".join(steps)


def _number(spec: GraphSpec, record_split: RecordSplit | None) -> int:
    """The number of the split in a file with several."""
    return spec.seed if record_split is None else record_split.number


def tree(spec: GraphSpec, partition_id: int, num_partitions: int) -> ClientGraph:
    """A client's generated tree."""
    drawn = generate_tree(spec.seed, partition_id)
    labels = torch.from_numpy(drawn.labels)
    words = torch.from_numpy(drawn.features)
    graph = client_graph(
        features=normalize_rows(words, spec.normalize),
        edge_index=torch.from_numpy(drawn.edge_index),
        labels=labels,
        masks=spec.split(labels, partition_id),
        class_names=TOPIC_NAMES,
        partition_digest=tree_digest(spec.seed, num_partitions),
    )
    return clustered(graph, spec)


def partition_graphs(
    raw: RawGraphs,
    spec: GraphSpec,
    num_clients: int,
    partition_digest: str = "",
    space: str = "",
    record_split: RecordSplit | None = None,
) -> Iterator[ClientGraph]:
    """Split all graphs of one data set and partition them at random; the clients' numbers of graphs
    differ by at most one.

    Clients of several data sets agree on a `partition_digest`; the default is the digest of each
    graph's client.

    Raises
    ------
    DataError
        If there are more clients than graphs.
    """
    num_graphs = len(raw.labels)
    if num_clients > num_graphs:
        raise DataError(
            f"{num_clients} clients are more than {amount(num_graphs, 'graph')} of"
            f" {space or spec.dataset}; every client needs one",
            key="too-many-clients",
        )
    masks = _masks(raw, spec, record_split)
    parts = random_parts(np.empty((2, 0), dtype=np.int64), num_graphs, num_clients, spec.seed)
    partition_digest = partition_digest or membership_digest(parts)
    for client in range(num_clients):
        graphs = np.flatnonzero(parts == client)
        number = _number(spec, record_split)
        client_masks = masks[:, graphs]
        yield _graphs_of_client(
            raw, graphs, client_masks, spec, number, partition_digest=partition_digest, space=space
        )


def own_graphs(
    raw: RawGraphs, spec: GraphSpec, record_split: RecordSplit | None = None
) -> ClientGraph:
    """All of a node's own graphs, split by their own parts, or else by their records or at
    random."""
    masks = _masks(raw, spec, record_split)
    graphs = np.arange(len(raw.labels))
    client = _graphs_of_client(raw, graphs, masks, spec, _number(spec, record_split))
    return replace(client, split_digest=_split_digest(raw, masks, record_split))


def _unknown(raw: RawGraph | RawGraphs, kind: str) -> list[str]:
    num_unknown = int((raw.labels < 0).sum())
    if not num_unknown:
        return []
    hint = f". {UNKNOWN_HINT}" if len(raw.class_names) == 1 else ""
    return [
        f"{num_unknown} of {len(raw.labels)} {kind} have no known class; losses and scores leave"
        f" them out{hint}"
    ]


def _graphs_of_client(
    raw: RawGraphs,
    graphs: Integers,
    masks: Tensor,
    spec: GraphSpec,
    number: int,
    *,
    partition_digest: str = "",
    space: str = "",
) -> ClientGraph:
    """The client with the graphs of these numbers, ascending, and masks (3, len(graphs)), those of
    split `number` of the file."""
    position = np.full(len(raw.labels), -1)
    position[graphs] = np.arange(len(graphs))
    owner = position[raw.graph_of_node.numpy()]
    nodes = np.flatnonzero(owner >= 0)
    owner = owner[nodes]
    if masks[0].any():
        train = masks[0]
    else:
        train = torch.ones(len(graphs), dtype=torch.bool)
    edges = induced(raw.edge_index.numpy(), nodes, len(raw.graph_of_node))
    graph_of_node = torch.from_numpy(owner)
    split_words = [] if raw.split is None else [raw.split.describe(number)]
    steps = [*raw.notes, *split_words, *_unknown(raw, "graphs")]
    features = _features(raw, torch.from_numpy(nodes), train[graph_of_node], spec.normalize)
    return client_graph(
        features=features,
        edge_index=torch.from_numpy(edges),
        labels=raw.labels[graphs],
        masks=masks,
        class_names=raw.class_names,
        metric=raw.metric,
        partition_digest=partition_digest,
        graph_of_node=graph_of_node,
        numbers=torch.from_numpy(graphs),
        space=space,
        history="; ".join(steps),
    )


def _features(raw: RawGraphs, nodes: Tensor, reference: Tensor, norm: str) -> Tensor:
    """The feature rows of `nodes`, (n, A + num_codes), CSR if there are codes; the `reference`
    nodes set the scale of measurements."""
    attributes = raw.attributes[nodes]
    codes = raw.codes[nodes]
    if raw.measured:
        attributes = standardize(attributes, reference)
    # The norm of a row is the norm of its non-zero entries.
    with_codes = torch.cat([attributes, torch.ones(codes.shape)], dim=1)
    entries = normalize_rows(with_codes, norm)
    if not raw.num_codes:
        return entries
    width = attributes.shape[1]
    attribute_columns = torch.arange(width).expand(len(nodes), -1)
    columns = torch.cat([attribute_columns, width + codes], dim=1)
    crow = torch.arange(len(nodes) + 1) * entries.shape[1]
    return csr(crow, columns.flatten(), entries.flatten(), width + raw.num_codes)


def standardize(attributes: Tensor, reference: Tensor) -> Tensor:
    """Scale columns to mean 0 and standard deviation 1 over the `reference` rows; a column that is
    constant there becomes 0.

    Parameters
    ----------
    attributes : Tensor, (N, A), float32, finite
    reference : Tensor, (N,), bool
        At least one is True.

    Returns
    -------
    Tensor, (N, A), float32
        Finite: clipped to the range of float32.
    """
    rows = attributes[reference].double()
    mean = rows.mean(dim=0)
    spread = (rows - mean).square().mean(dim=0).sqrt()
    # Exactly 0 in a constant column: float64 holds the sum of many equal float32.
    divisor = torch.where(spread > 0, spread, 1)
    scaled = torch.where(spread > 0, (attributes - mean) / divisor, 0)
    largest = torch.finfo(torch.float32).max
    return scaled.clamp(-largest, largest).float()
