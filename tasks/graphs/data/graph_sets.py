"""Clients of graph classification: split a set of graphs, partition it, and compute each client's
features."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.client_graph import ClientGraph, client_graph
from curvfed.tasks.graphs.data.graph_spec import GraphSpec, normalize_rows
from curvfed.tasks.graphs.data.partition import Integers, induced, membership_digest, random_parts
from curvfed.tasks.graphs.data.raw import RawGraphs
from curvfed.tasks.graphs.sparse import csr


def partition_graphs(
    raw: RawGraphs, spec: GraphSpec, num_clients: int, partition_digest: str = "", space: str = ""
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
            f"{num_clients} clients are more than the {num_graphs} graphs of"
            f" {space or spec.dataset}; every client needs one",
            key="too-many-clients",
        )
    masks = spec.split_graphs(raw.split, raw.labels)
    parts = random_parts(np.empty((2, 0), dtype=np.int64), num_graphs, num_clients, spec.seed)
    partition_digest = partition_digest or membership_digest(parts)
    for client in range(num_clients):
        graphs = np.flatnonzero(parts == client)
        yield _client(raw, graphs, masks[:, graphs], spec, partition_digest, space)


def own_graphs(raw: RawGraphs, spec: GraphSpec) -> ClientGraph:
    """All of a node's own graphs, split by their own parts, or else at random."""
    masks = spec.split_graphs(raw.split, raw.labels)
    return _client(raw, np.arange(len(raw.labels)), masks, spec)


def _history(raw: RawGraphs, seed: int) -> str:
    """What the run does not use of the files, its split, and how many graphs have no class, in
    words."""
    steps = list(raw.notes)
    if raw.split is not None:
        steps.append(raw.split.describe(seed))
    num_unknown = int((raw.labels < 0).sum())
    if num_unknown:
        steps.append(
            f"{num_unknown} of {len(raw.labels)} graphs have no known class; losses and scores"
            " leave them out"
        )
    return "; ".join(steps)


def _client(
    raw: RawGraphs,
    graphs: Integers,
    masks: Tensor,
    spec: GraphSpec,
    partition_digest: str = "",
    space: str = "",
) -> ClientGraph:
    """The client with the graphs of these numbers, ascending, and masks (3, len(graphs))."""
    position = np.full(len(raw.labels), -1)
    position[graphs] = np.arange(len(graphs))
    owner = position[raw.graph_of_node.numpy()]
    nodes = np.flatnonzero(owner >= 0)
    owner = owner[nodes]
    train = masks[0] if masks[0].any() else torch.ones(len(graphs), dtype=torch.bool)
    edges = induced(raw.edge_index.numpy(), nodes, len(raw.graph_of_node))
    graph_of_node = torch.from_numpy(owner)
    client = client_graph(
        features=_features(raw, torch.from_numpy(nodes), train[graph_of_node], spec.normalize),
        edge_index=torch.from_numpy(edges),
        labels=raw.labels[graphs],
        masks=masks,
        class_names=raw.class_names,
        metric=raw.metric,
        partition_digest=partition_digest,
        graph_of_node=graph_of_node,
        space=space,
    )
    return replace(client, history=_history(raw, spec.seed))


def _features(raw: RawGraphs, nodes: Tensor, reference: Tensor, norm: str) -> Tensor:
    """The feature rows of `nodes`, (n, A + num_codes), CSR if there are codes; the `reference`
    nodes set the scale of measurements."""
    attributes = raw.attributes[nodes]
    codes = raw.codes[nodes]
    if raw.measured:
        attributes = standardize(attributes, reference)
    # The norm of a row is the norm of its non-zero entries.
    entries = normalize_rows(torch.cat([attributes, torch.ones(codes.shape)], dim=1), norm)
    if not raw.num_codes:
        return entries
    width = attributes.shape[1]
    columns = torch.cat([torch.arange(width).expand(len(nodes), -1), width + codes], dim=1)
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
    scaled = torch.where(spread > 0, (attributes - mean) / torch.where(spread > 0, spread, 1), 0)
    largest = torch.finfo(torch.float32).max
    return scaled.clamp(-largest, largest).float()
