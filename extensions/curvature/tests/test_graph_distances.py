"""Distances in a client's graph against a search of our own."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from curvfed.extensions.curvature.measures import sampled_distances


def graph_of(edges: list[tuple[int, int]], num_nodes: int) -> Any:
    both = [*edges, *((b, a) for a, b in edges)]
    edge_index = torch.tensor(both, dtype=torch.long).reshape(-1, 2).T
    return SimpleNamespace(edge_index=edge_index, labels=torch.zeros(num_nodes))


def search(edges: list[tuple[int, int]], num_nodes: int) -> np.ndarray:
    """All distances, by Floyd and Warshall."""
    distances = np.full((num_nodes, num_nodes), np.inf)
    np.fill_diagonal(distances, 0)
    for a, b in edges:
        distances[a, b] = distances[b, a] = 1
    for middle in range(num_nodes):
        distances = np.minimum(distances, distances[:, [middle]] + distances[middle])
    return distances


@pytest.mark.parametrize("seed", range(5))
def test_distances_of_the_largest_component(seed):
    rng = np.random.default_rng(seed)
    num_nodes = 30
    edges = sorted({tuple(sorted(pair)) for pair in rng.integers(num_nodes, size=(32, 2)).tolist()})
    edges = [(a, b) for a, b in edges if a != b]
    expected = search(edges, num_nodes)
    sizes = np.isfinite(expected).sum(axis=1)
    nodes = np.flatnonzero(np.isfinite(expected[sizes.argmax()]))
    distances, size = sampled_distances(graph_of(edges, num_nodes), 100)
    assert size == len(nodes) == sizes.max()
    np.testing.assert_array_equal(distances, expected[np.ix_(nodes, nodes)])
    sample, size = sampled_distances(graph_of(edges, num_nodes), 6, seed)
    assert (len(sample), size) == (6, len(nodes))
    # Paths lead through nodes that were not drawn.
    assert np.isfinite(sample).all()
    assert set(sample.ravel()) <= set(expected[np.isfinite(expected)])


def test_a_graph_without_edges():
    distances, size = sampled_distances(graph_of([], 4), 10)
    assert size == 1
    np.testing.assert_array_equal(distances, [[0.0]])
