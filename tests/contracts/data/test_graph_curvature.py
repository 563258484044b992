"""The curvature of a client's graph, from which its space starts: a value by hand."""

from dataclasses import replace

import pytest
import torch
from graph_fixtures import graph_of

from curvfed.tasks.graphs.ricci import graph_curvature


def test_it_is_the_mean_over_the_edges(tmp_path):
    triangle_and_pair = graph_of(6, [(0, 1), (0, 2), (1, 2), (3, 4)])
    for kind in ("forman", "mlp"):
        assert graph_curvature(triangle_and_pair, kind, tmp_path) == (3 + 3 + 3 + 2) / 4
    assert list(tmp_path.iterdir()) == []


def test_nodes_weigh_their_degree_or_its_inverse(tmp_path):
    """A star of three leaves, and a node without edges."""
    star = graph_of(5, [(0, 1), (0, 2), (0, 3)])
    for weights, expected in (
        ("one", 4 - 3 - 1),
        ("degree", 3 * (2 - 3) + 1 * (2 - 1)),
        ("inverse-degree", (2 - 3) / 3 + (2 - 1)),
    ):
        value = graph_curvature(star, "forman", tmp_path, weights)
        assert value == pytest.approx(expected, rel=1e-6)
        assert graph_curvature(graph_of(2, []), "forman", tmp_path, weights) == 0


def test_the_degree_is_the_sum_of_the_weights_of_edges(tmp_path):
    """A path of two edges of weights 4 and 1."""
    path = replace(graph_of(3, [(0, 1), (1, 2)]), edge_weights=torch.tensor([4.0, 4.0, 1.0, 1.0]))
    # In the middle the other edge has 1/√w of 1 or 1/2.
    heavy = 4 * (2 - 1) + 5 * (2 - 2 * (1 / 2 + 1))
    light = 1 * (2 - 1) + 5 * (2 - 1 * (1 / 2 + 1))
    value = graph_curvature(path, "literal", tmp_path, "degree")
    assert value == pytest.approx((heavy + light) / 2, rel=1e-6)


def test_weights_of_0_of_edges_count_as_none(tmp_path):
    path = graph_of(3, [(0, 1), (1, 2)])
    zero = replace(path, edge_weights=torch.tensor([0.0, 0.0, 1.0, 1.0]))
    values = [graph_curvature(graph, "forman", tmp_path, "degree") for graph in (path, zero)]
    assert values[0] == values[1]
