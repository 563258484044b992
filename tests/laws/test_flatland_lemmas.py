"""Lemmas of FlatLand's Appendix D.1, the first as the errata of studies/README.md have it."""

import math

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from textbook import both_directions

from curvfed.geometry import lorentz
from curvfed.geometry.curvature import forman_ricci


@st.composite
def connected_graphs(draw):
    """A random tree, with random further edges."""
    num_nodes = draw(st.integers(2, 14))
    edges = {(draw(st.integers(0, node - 1)), node) for node in range(1, num_nodes)}
    pairs = [(first, second) for second in range(num_nodes) for first in range(second)]
    edges |= set(draw(st.lists(st.sampled_from(pairs), max_size=10)))
    return nx.Graph(sorted(edges))


def second_difference(graph):
    """V(2) − 2V(1) + V(0) of the mean numbers of nodes within a distance of a node."""
    distances = dict(nx.all_pairs_shortest_path_length(graph, cutoff=2))
    means = []
    for radius in range(3):
        within = [sum(far <= radius for far in row.values()) for row in distances.values()]
        means.append(sum(within) / len(graph))
    return means[2] - 2 * means[1] + means[0]


def by_curvature(graph):
    """−|E|/|V| times the mean Forman-Ricci curvature, without triangles."""
    edges = both_directions(list(graph.edges))
    mean = forman_ricci(edges, len(graph), triangles=False).double().mean().item()
    return -graph.number_of_edges() / len(graph) * mean


@given(graph=connected_graphs())
def test_balls_of_a_graph_grow_at_most_as_its_curvature_says(graph):
    """Lemma 1: short cycles make balls smaller, not larger, and the printed 1 is not there."""
    assert second_difference(graph) <= by_curvature(graph) + 1e-12


@given(graph=connected_graphs().filter(nx.is_tree))
def test_balls_of_a_tree_grow_as_its_curvature_says(graph):
    assert second_difference(graph) == pytest.approx(by_curvature(graph), abs=1e-12)
    assert second_difference(graph) < 1 + by_curvature(graph)


def volume(radius, dim, size):
    """Of a hyperbolic ball at the sectional curvature −size: the areas of its spheres, whose
    Euclidean radius is the space part of a point at that distance."""
    sphere = 2 * math.pi ** (dim / 2) / math.gamma(dim / 2)

    def area(distance):
        tangent = torch.tensor([distance, 0.0], dtype=torch.float64)
        return sphere * lorentz.exp0(tangent, -size)[1].item() ** (dim - 1)

    return quad(area, 0, radius, epsabs=0, epsrel=1e-12)[0]


@pytest.mark.parametrize("dim", [2, 3, 8])
@pytest.mark.parametrize("size", [0.5, 3.0])
def test_volumes_of_small_balls_have_the_lemmas_second_term(dim, size):
    """Lemma 2: Vol(B_ρ) = ω ρ^d (1 + d/(6(d + 2)) (d − 1) K ρ² + O(ρ⁴)), curvature −K."""
    ball = math.pi ** (dim / 2) / math.gamma(dim / 2 + 1)
    for radius in (0.05, 0.1):
        term = volume(radius, dim, size) / (ball * radius**dim) - 1
        expected = dim / (6 * (dim + 2)) * (dim - 1) * size * radius**2
        assert term == pytest.approx(expected, rel=dim * size * radius**2)
