"""Curvatures of a client's graph that take seconds: the constant one that fits its distances best,
and the mean Ollivier-Ricci curvature."""

import json
import logging
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from curvfed.extensions.curvature.distortion import fit
from curvfed.extensions.curvature.ollivier import ollivier_ricci
from curvfed.geometry.arrays import Floats
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.data.partition import components, largest
from curvfed.tasks.stored_files import UNSEALED, check_whole, sealed, write_atomically

DIMENSIONS = 5
"""Dimension of the space that is fitted."""

NODES = 300
"""Maximum number of nodes, from the graph's largest component, in a fit of distances."""


def fitted_curvature(graph: ClientGraph, cache_dir: Path | None = None) -> float:
    """The curvature, at most 0, at which the distances of a graph's nodes are distorted least; 0
    too if a sphere fits best, or if there are too few connected nodes.

    Parameters
    ----------
    graph : ClientGraph
    cache_dir : Path, optional
        Folder that stores it by the digest of the data: a fit takes seconds, and a real node starts
        a process per message.

    Raises
    ------
    DataError
        If the data are a set of graphs.
    """
    if graph.graph_of_node is not None:
        raise DataError(
            'flatland.curvature-init = "fit": the data are graphs; allowed are nodes of one graph',
            key="not-a-graph",
        )
    name = f"stress-{DIMENSIONS}-{NODES}-{graph.digest}.json"
    path = None if cache_dir is None else cache_dir / name
    return cached_number(path, lambda: _fitted(graph))


def _fitted(graph: ClientGraph) -> float:
    distances, _ = sampled_distances(graph, NODES)
    if len(distances) <= DIMENSIONS:
        return 0.0
    return min(fit(distances, DIMENSIONS).curvature, 0.0)


def sampled_distances(graph: ClientGraph, max_nodes: int, seed: int = 0) -> tuple[Floats, int]:
    """Numbers of edges between nodes of the largest connected component.

    Parameters
    ----------
    graph : ClientGraph
    max_nodes : int
        Of a larger component, this number of nodes is drawn uniformly.
    seed : int

    Returns
    -------
    distances : array (m, m), float64
        Distances in the whole component.
    size : int
        Number of nodes of the component.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    num_nodes = len(graph.labels)
    edges = graph.edge_index.numpy()
    nodes = largest(components(edges, num_nodes))
    entries = np.ones(edges.shape[1], np.int8)
    adjacency = csr_array((entries, tuple(edges)), shape=(num_nodes, num_nodes))
    chosen = nodes
    if len(nodes) > max_nodes:
        chosen = np.sort(np.random.default_rng(seed).choice(nodes, max_nodes, replace=False))
    distances = shortest_path(adjacency, directed=False, unweighted=True, indices=chosen)
    return distances[:, chosen], len(nodes)


IDLENESS = 0.5
"""Idleness of the lazy random walk in Ollivier's curvature: half of the mass stays at its node."""

GRAPHS_AT_A_TIME = 100
"""Graphs of a set in one piece: the work per edge grows with the number of nodes in a piece."""

log = logging.getLogger("curvfed")


def ollivier(graph: ClientGraph, cache_dir: Path | None = None) -> float:
    """Mean Ollivier-Ricci curvature over the edges; 0 without edges.

    Parameters
    ----------
    graph : ClientGraph
    cache_dir : Path, optional
        As in `fitted_curvature`.
    """
    path = None
    if cache_dir is not None:
        path = cache_dir / f"ollivier-{IDLENESS}-{graph.digest}.json"
    return cached_number(path, lambda: _mean_ollivier(graph))


def cached_number(path: Path | None, compute: Callable[[], float]) -> float:
    """The number stored in a file; if missing, it is computed and stored."""
    if path is not None and (stored := _read(path)) is not None:
        return stored
    value = compute()
    if path is not None:
        _write(path, value)
    return value


def _mean_ollivier(graph: ClientGraph) -> float:
    total = 0.0
    for edge_index, num_nodes in _pieces(graph):
        total += float(ollivier_ricci(edge_index, num_nodes, IDLENESS).double().sum())
    return total / max(graph.edge_index.shape[1], 1)


def _pieces(graph: ClientGraph) -> Iterator[tuple[Tensor, int]]:
    """Edges and number of nodes; a set of graphs in pieces of `GRAPHS_AT_A_TIME`."""
    if graph.graph_of_node is None:
        if graph.edge_index.shape[1]:
            yield graph.edge_index, len(graph.features)
        return
    of_edge = graph.graph_of_node[graph.edge_index[0]]
    for first in range(0, len(graph.labels), GRAPHS_AT_A_TIME):
        limits = torch.tensor([first, first + GRAPHS_AT_A_TIME])
        start, end = torch.searchsorted(graph.graph_of_node, limits).tolist()
        low, high = torch.searchsorted(of_edge, limits).tolist()
        if high > low:
            yield graph.edge_index[:, low:high] - start, end - start


def _read(path: Path) -> float | None:
    try:
        data = path.read_bytes()
        check_whole(data)
        value = float(json.loads(data)[-1])
        return value if math.isfinite(value) else None
    except (OSError, ValueError):
        return None


def _write(path: Path, value: float) -> None:
    """Store the value. If the folder cannot be written, the next process computes it again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, sealed(json.dumps([UNSEALED, value]).encode()), private=True)
    except OSError as error:
        log.warning("the curvature of a graph cannot be kept in %s: %s", path.parent, error)
