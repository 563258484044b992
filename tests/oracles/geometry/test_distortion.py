"""Distortion and best curvature against distances of points whose space is known, and δ against
its definition."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform

from curvfed.geometry import poincare
from curvfed.geometry.distortion import GRID, distortion, fit, hyperbolicity

NODES = 25


def hyperbolic(curvature: float, dim: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    tangent = torch.from_numpy(rng.normal(size=(NODES, dim)) / math.sqrt(-curvature))
    points = poincare.exp0(tangent, curvature)
    distances = poincare.cdist(points, points, curvature).numpy()
    np.fill_diagonal(distances, 0)
    return (distances + distances.T) / 2


def spherical(curvature: float, dim: int, seed: int) -> np.ndarray:
    points = np.random.default_rng(seed).normal(size=(NODES, dim + 1))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    distances = np.arccos(np.clip(points @ points.T, -1, 1)) / math.sqrt(curvature)
    np.fill_diagonal(distances, 0)
    return distances


@pytest.mark.parametrize("dim", [1, 2, 5])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("curvature", [-5.0, -0.2, 0.3, 4.0])
def test_the_curvature_of_points_is_recovered(curvature, dim, seed):
    make = hyperbolic if curvature < 0 else spherical
    distances = make(curvature, dim, seed)
    assert distortion(distances, dim, curvature) <= 1e-6
    if dim > 1:  # a line has no curvature
        best = fit(distances, dim)
        assert best.curvature == pytest.approx(curvature, rel=0.1)
        assert best.distortion < best.flat
        other = best.spherical if curvature < 0 else best.hyperbolic
        assert best.distortion < other


@pytest.mark.parametrize("scale", [1e-3, 1.0, 40.0])
def test_flat_points_are_flat_at_any_scale(scale):
    points = scale * np.random.default_rng(0).normal(size=(NODES, 3))
    distances = squareform(pdist(points))
    assert distortion(distances, 3, 0.0) <= 1e-10
    best = fit(distances, 3)
    assert best.curvature == 0
    assert best.curve[0.0] == best.flat == best.distortion


def test_a_cycle_is_a_circle_and_a_tree_is_hyperbolic():
    steps = np.arange(24)
    apart = abs(steps - steps[:, None])
    best = fit(np.minimum(apart, 24 - apart), 1)
    assert best.curvature == pytest.approx((2 * math.pi / 24) ** 2, rel=0.05)
    tree = np.full((31, 31), np.inf)
    np.fill_diagonal(tree, 0)
    for node in range(1, 31):
        parent = (node - 1) // 2
        tree[node, :node] = tree[parent, :node] + 1
        tree[:node, node] = tree[node, :node]
    assert fit(tree, 2).curvature < 0
    assert hyperbolicity(tree, 1000) == (0, 0)


def test_no_curvature_is_fitted_where_no_space_has_room():
    distances = 1e4 * hyperbolic(-1.0, 2, 0)
    assert math.isinf(distortion(distances, 2, -GRID[-1]))
    assert math.isinf(distortion(distances, 2, GRID[-1]))
    best = fit(distances, 2)
    assert math.isfinite(best.distortion)
    assert all(math.isfinite(error) for error in best.curve.values())


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
