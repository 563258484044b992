"""Gromov's δ against its definition."""

import doctest
import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform

from curvfed.extensions.curvature.commands import hyperbolicity as module
from curvfed.extensions.curvature.commands.hyperbolicity import hyperbolicity


@given(st.integers(0, 1000))
def test_delta_is_that_of_the_four_point_condition(seed):
    points = np.random.default_rng(seed).normal(size=(5, 2))
    distances = squareform(pdist(points))
    deltas = []
    for a, b, c, d in itertools.product(range(5), repeat=4):
        sums = sorted(
            [
                distances[a, b] + distances[c, d],
                distances[a, c] + distances[b, d],
                distances[a, d] + distances[b, c],
            ]
        )
        deltas.append((sums[2] - sums[1]) / 2)
    mean, largest = hyperbolicity(distances, 20_000)
    assert largest == pytest.approx(max(deltas), abs=1e-12)
    assert mean == pytest.approx(np.mean(deltas), rel=0.1)


def test_delta_of_a_tree_is_0():
    lengths = nx.floyd_warshall_numpy(nx.balanced_tree(2, 4))
    assert hyperbolicity(lengths, 1000) == (0, 0)


def test_the_example_is_true():
    outcome = doctest.testmod(module)
    assert outcome.attempted == 2
    assert outcome.failed == 0
