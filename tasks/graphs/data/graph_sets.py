"""Clients of graph classification: a set of graphs is split and dealt out, and each client's
features are made."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from curvfed.tasks import prepared
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.client_graph import ClientGraph, client_graph
from curvfed.tasks.graphs.data.datasets import locate
from curvfed.tasks.graphs.data.graph_spec import GraphSpec, normalize_rows
from curvfed.tasks.graphs.data.partition import Integers, induced, membership_digest, random_parts
from curvfed.tasks.graphs.data.raw import RawGraphs
from curvfed.tasks.graphs.sparse import csr


def load_graph_client(
    names: tuple[str, ...], spec: GraphSpec, partition_id: int, num_partitions: int, cache_dir: Path
) -> ClientGraph:
    """The data of client `partition_id` of `num_partitions`, of one or several sets of graphs.

    Of D data sets client p holds graphs of data set p modulo D (Xie et al., 2021: one data set, one
    client). A data set is split, once over all its graphs, and dealt out at random to the clients
    that hold it. The first call prepares these and keeps them below `cache_dir`; later ones read
    one file. `spec.partition` has no effect.

    Parameters
    ----------
    names : tuple of str
        The data sets, as `curvfed.tasks.graphs.data.tu.graph_dataset_names` gives them.
    spec, partition_id, num_partitions, cache_dir
        As in `curvfed.tasks.graphs.data.clients.load_client`.

    Raises
    ------
    DataError
        Absent or unfit data, more clients than graphs, or a number of clients that is no multiple
        of the data sets'.
    """
    if num_partitions % len(names):
        raise DataError(
            f"{num_partitions} clients cannot be shared out evenly to {len(names)} data sets"
            f" ({', '.join(names)}); their number must be a multiple of {len(names)}"
        )
    share, place = divmod(partition_id, len(names))
    located = locate(names[place], spec.data_dir)
    # A client has no other client's data set: all agree on how graphs are dealt out, not on which
    # graphs these are.
    settings: dict[str, Any] = {
        "datasets": ",".join(Path(name).name for name in names),
        "seed": spec.seed,
        "train_size": spec.train_size,
        "test_size": spec.test_size,
        "normalize": spec.normalize,
        "num_partitions": num_partitions,
    }

    def prepare() -> Iterator[ClientGraph]:
        raw = located.read()
        assert isinstance(raw, RawGraphs)
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
        return deal(
            raw, spec, num_partitions // len(names), digest, names[place] if len(names) > 1 else ""
        )

    return prepared.load(
        ClientGraph, cache_dir / prepared.cache_key(settings, located.files), share, prepare
    )


def deal(
    raw: RawGraphs, spec: GraphSpec, num_clients: int, partition_digest: str = "", space: str = ""
) -> Iterator[ClientGraph]:
    """The clients of one data set: split over all its graphs, then dealt out at random, shares
    differing by one at most.

    Clients of several data sets agree on a `partition_digest`; by default it is the digest of who
    holds which graph.

    Raises
    ------
    DataError
        If there are more clients than graphs.
    """
    num_graphs = len(raw.labels)
    if num_clients > num_graphs:
        raise DataError(
            f"{num_clients} clients are more than the {num_graphs} graphs of"
            f" {space or spec.dataset}; every client needs one"
        )
    masks = spec.split(raw.labels)
    parts = random_parts(np.empty((2, 0), dtype=np.int64), num_graphs, num_clients, spec.seed)
    partition_digest = partition_digest or membership_digest(parts)
    for client in range(num_clients):
        share = np.flatnonzero(parts == client)
        yield replace(
            _client(raw, share, masks[:, share], spec.normalize, partition_digest, space),
            history=history_of(raw),
        )


def own_graphs(raw: RawGraphs, spec: GraphSpec) -> ClientGraph:
    """A node's own graphs, all of them, split at random."""
    whole = _client(raw, np.arange(len(raw.labels)), spec.split(raw.labels), spec.normalize, "", "")
    return replace(whole, history=history_of(raw))


def history_of(raw: RawGraphs) -> str:
    """What of the files is not used, and how many graphs have no class, in words."""
    unknown = int((raw.labels < 0).sum())
    told = (
        [f"{unknown} of {len(raw.labels)} graphs are of unknown class, in no loss and no score"]
        if unknown
        else []
    )
    return "; ".join([*raw.notes, *told])


def _client(
    raw: RawGraphs, graphs: Integers, masks: Tensor, norm: str, partition_digest: str, space: str
) -> ClientGraph:
    """The client that holds the graphs of these numbers, ascending, with masks (3, len(graphs))."""
    position = np.full(len(raw.labels), -1)
    position[graphs] = np.arange(len(graphs))
    owner = position[raw.graph_of_node.numpy()]
    nodes = np.flatnonzero(owner >= 0)
    owner = owner[nodes]
    train = masks[0] if masks[0].any() else torch.ones(len(graphs), dtype=torch.bool)
    return client_graph(
        _features(raw, torch.from_numpy(nodes), train[torch.from_numpy(owner)], norm),
        torch.from_numpy(induced(raw.edge_index.numpy(), nodes, len(raw.graph_of_node))),
        raw.labels[graphs],
        masks,
        raw.class_names,
        "accuracy",
        partition_digest,
        torch.from_numpy(owner),
        space,
    )


def _features(raw: RawGraphs, nodes: Tensor, known: Tensor, norm: str) -> Tensor:
    """The feature rows of `nodes`, (n, A + num_codes), CSR where there are codes; the `known` rows
    scale measurements."""
    attributes = raw.attributes[nodes]
    codes = raw.codes[nodes]
    if raw.measured:
        attributes = standardize(attributes, known)
    # The norm of a row is the norm of its non-zero entries.
    entries = normalize_rows(torch.cat([attributes, torch.ones(codes.shape)], dim=1), norm)
    if not raw.num_codes:
        return entries
    width = attributes.shape[1]
    columns = torch.cat([torch.arange(width).expand(len(nodes), -1), width + codes], dim=1)
    crow = torch.arange(len(nodes) + 1) * entries.shape[1]
    return csr(crow, columns.flatten(), entries.flatten(), width + raw.num_codes)


def standardize(attributes: Tensor, known: Tensor) -> Tensor:
    """Columns of mean 0 and standard deviation 1 over the `known` rows; a column that is constant
    there becomes 0.

    Parameters
    ----------
    attributes : Tensor, (N, A), float32, finite
    known : Tensor, (N,), bool
        At least one.

    Returns
    -------
    Tensor, (N, A), float32
        Finite: clipped to the range of float32.
    """
    rows = attributes[known].double()
    mean = rows.mean(dim=0)
    spread = (rows - mean).square().mean(dim=0).sqrt()
    # Exactly 0 in a constant column: float64 holds the sum of many equal float32.
    scaled = torch.where(spread > 0, (attributes - mean) / torch.where(spread > 0, spread, 1), 0)
    largest = torch.finfo(torch.float32).max
    return scaled.clamp(-largest, largest).float()
