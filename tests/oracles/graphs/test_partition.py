"""Partitioning against sets, networkx, and what a partition must satisfy."""

import networkx as nx
import numpy as np
import pytest
from graph_fixtures import planted
from hypothesis import given
from hypothesis import strategies as st

from curvfed.tasks.graphs.data.partition import (
    clean_edges,
    components,
    fill_empty,
    induced,
    largest,
    louvain_parts,
    membership_digest,
    metis_parts,
    random_parts,
    random_split,
)

NODES = 12
EDGE_LISTS = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=40)


def as_array(pairs):
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2).T


def planted_component():
    graph = planted()
    edges = clean_edges(as_array(graph.edges), len(graph.labels))
    nodes = largest(components(edges, len(graph.labels)))
    return induced(edges, nodes, len(graph.labels)), len(nodes)


@given(EDGE_LISTS)
def test_clean_edges_are_the_symmetric_set(pairs):
    edges = clean_edges(np.array(pairs, dtype=np.int64).reshape(-1, 2).T, NODES)
    expected = {(i, j) for i, j in pairs if i != j} | {(j, i) for i, j in pairs if i != j}
    assert list(map(tuple, edges.T)) == sorted(expected)


@given(EDGE_LISTS)
def test_largest_component_is_that_of_networkx(pairs):
    graph = nx.Graph(pairs)
    graph.add_nodes_from(range(NODES))
    sets = sorted(map(sorted, nx.connected_components(graph)))
    expected = max(sets, key=len)  # the first of several
    assert largest(components(clean_edges(as_array(pairs), NODES), NODES)).tolist() == expected


@given(EDGE_LISTS, st.sets(st.integers(0, NODES - 1), min_size=1))
def test_induced_keeps_the_edges_inside(pairs, chosen):
    edges, nodes = clean_edges(as_array(pairs), NODES), sorted(chosen)
    inside = induced(edges, np.array(nodes), NODES)
    expected = [
        (nodes.index(i), nodes.index(j)) for i, j in edges.T.tolist() if i in chosen and j in chosen
    ]
    assert list(map(tuple, inside.T)) == expected


@pytest.mark.parametrize("num_parts", [1, 2, 3, 7, 20])
def test_metis_parts_are_whole_balanced_and_cut_little(num_parts):
    edges, num_nodes = planted_component()
    parts = metis_parts(edges, num_nodes, num_parts, seed=0)
    sizes = np.bincount(parts, minlength=num_parts)
    assert len(parts) == num_nodes
    assert len(sizes) == num_parts
    assert sizes.min() > 0
    assert sizes.max() <= 1.05 * num_nodes / num_parts + 1
    # A random partition cuts 1 - 1/k of the edges.
    assert (parts[edges[0]] != parts[edges[1]]).mean() <= 0.75 * (1 - 1 / num_parts)


def test_metis_depends_on_the_seed_alone():
    edges, num_nodes = planted_component()
    digests = [membership_digest(metis_parts(edges, num_nodes, 10, seed)) for seed in (0, 1, 2, 0)]
    assert digests[0] == digests[3]
    assert len(set(digests)) == 3


@pytest.mark.parametrize("num_nodes", [1, 2, 3, 10, 60])
@pytest.mark.parametrize("shape", ["path", "star"])
def test_metis_parts_are_never_empty(num_nodes, shape):
    children = np.arange(1, num_nodes)
    edges = clean_edges(
        np.stack([children - 1 if shape == "path" else 0 * children, children]), num_nodes
    )
    for num_parts in {1, (num_nodes + 1) // 2, num_nodes - 1 or 1, num_nodes}:
        parts = metis_parts(edges, num_nodes, num_parts, seed=0)
        assert sorted(set(parts.tolist())) == list(range(num_parts))


@given(EDGE_LISTS, st.integers(1, NODES), st.sampled_from([1, 10]))
def test_components_are_dealt_whole_unless_they_fill_more_than_a_part(pairs, num_parts, copies):
    """Any graph, repeated: no node is lost, no part empty, none twice an equal share."""
    num_nodes, pairs = (
        NODES * copies,
        [(i + NODES * copy, j + NODES * copy) for i, j in pairs for copy in range(copies)],
    )
    parts = metis_parts(clean_edges(as_array(pairs), num_nodes), num_nodes, num_parts, seed=0)
    sizes = np.bincount(parts, minlength=num_parts)
    assert (len(parts), len(sizes)) == (num_nodes, num_parts)
    assert sizes.min() > 0
    assert sizes.max() <= 2 * num_nodes / num_parts + 1
    graph = nx.Graph(pairs)
    graph.add_nodes_from(range(num_nodes))
    for component in nx.connected_components(graph):
        if len(component) <= num_nodes / num_parts:
            assert len(set(parts[sorted(component)].tolist())) == 1


@pytest.mark.parametrize(("num_parts", "cut"), [(3, 0), (6, 0), (12, 6)])
def test_louvain_keeps_communities_together_that_fit_into_a_part(num_parts, cut):
    """Six cliques of ten nodes in a ring; twelve parts have half of a clique each."""
    cliques = nx.ring_of_cliques(6, 10)
    edges = clean_edges(np.array(cliques.edges).T, 60)
    parts = louvain_parts(edges, 60, num_parts, seed=0)
    assert np.bincount(parts).tolist() == [60 // num_parts] * num_parts
    owners = [set(parts[10 * clique : 10 * clique + 10].tolist()) for clique in range(6)]
    assert sum(len(parts_of_clique) > 1 for parts_of_clique in owners) == cut
    assert (louvain_parts(edges, 60, num_parts, seed=0) == parts).all()


@given(st.lists(st.integers(0, 5), min_size=6, max_size=20))
def test_fill_empty_moves_no_more_than_needed(parts):
    before = np.array(parts)
    after = fill_empty(before, 6)
    assert set(after.tolist()) == set(range(6))
    assert (before != after).sum() == 6 - len(set(parts))


@given(st.integers(1, 50), st.data(), st.integers(0, 5))
def test_random_parts_differ_by_one_node_at_most(num_nodes, data, seed):
    num_parts = data.draw(st.integers(1, num_nodes))
    parts = random_parts(np.zeros((2, 0), dtype=np.int64), num_nodes, num_parts, seed)
    sizes = np.bincount(parts, minlength=num_parts)
    assert len(sizes) == num_parts
    assert sizes.max() - sizes.min() <= 1


@given(st.integers(0, 60), st.floats(0, 1), st.floats(0, 1), st.integers(0, 5))
def test_random_split_covers_every_node_once(num_nodes, train_size, share, seed):
    test_size = share * (1 - train_size)
    masks = random_split(num_nodes, train_size, test_size, np.random.default_rng(seed))
    assert masks.shape == (3, num_nodes)
    assert (masks.sum(axis=0) == 1).all()
    assert masks[0].sum() == round(train_size * num_nodes)
    assert abs(masks[2].sum() - test_size * num_nodes) <= 1


def test_membership_digest_sees_every_node():
    parts = np.arange(5) % 2
    assert membership_digest(parts) == membership_digest(parts.astype(np.int32))
    assert membership_digest(parts) != membership_digest(parts[::-1] + 1)
    assert membership_digest(parts) != membership_digest(np.append(parts, 0))
