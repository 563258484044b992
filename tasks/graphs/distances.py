"""Distances between nodes of a client's graph."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, shortest_path

from curvfed.tasks.graphs.data.client_graph import ClientGraph


def sampled_distances(
    graph: ClientGraph, max_nodes: int, seed: int = 0
) -> tuple[NDArray[np.float64], int]:
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
    num_nodes = len(graph.labels)
    rows, columns = graph.edge_index.numpy()
    ones = np.ones(len(rows), np.int8)
    adjacency = csr_array((ones, (rows, columns)), shape=(num_nodes, num_nodes))
    _, component = connected_components(adjacency, directed=False)
    nodes = np.flatnonzero(component == np.bincount(component).argmax())
    chosen = nodes
    if len(nodes) > max_nodes:
        chosen = np.sort(np.random.default_rng(seed).choice(nodes, max_nodes, replace=False))
    distances = shortest_path(adjacency, directed=False, unweighted=True, indices=chosen)
    return distances[:, chosen], len(nodes)
