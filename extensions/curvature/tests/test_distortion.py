"""Stress against mpmath; distortion and best curvature against points of a known space."""

import itertools
import math

import mpmath
import networkx as nx
import numpy as np
import pytest
import torch
from mpmath import mpf
from scipy.spatial.distance import pdist, squareform
from tiers import only

from curvfed.extensions.curvature.distortion import (
    LONGEST,
    RESOLUTION,
    curvature_range,
    distortion,
    fit,
    stress,
)
from curvfed.geometry import poincare

NODES = 25
EPS = np.finfo(np.float64).eps


def mp_distance(point: list, target: list, curvature: float):
    """The law of cosines in half angles."""
    root = mpmath.sqrt(mpf(abs(curvature)))

    def sine(length):
        if curvature == 0:
            return length
        return (mpmath.sinh if curvature < 0 else mpmath.sin)(root * length) / root

    radius = mpmath.sqrt(sum(x**2 for x in point))
    far = mpmath.sqrt(sum(x**2 for x in target))
    chord = sum((x / radius - y / far) ** 2 for x, y in zip(point, target, strict=True))
    square = sine((radius - far) / 2) ** 2 + sine(radius) * sine(far) * chord / 4
    half = mpmath.sqrt(square)
    if curvature == 0:
        return 2 * half
    return 2 * (mpmath.asinh if curvature < 0 else mpmath.asin)(root * half) / root


def mp_stress(points: list, pairs: list, curvature: float):
    return sum(
        (mp_distance(points[first], points[second], curvature) - mpf(distance)) ** 2
        for (first, second), distance in zip(
            itertools.combinations(range(len(points)), 2), pairs, strict=True
        )
    )


@pytest.mark.parametrize(
    "curvature", [-1.0, -0.2, -1e-3, -1e-9, -1e-60, 0.0, 1e-60, 1e-9, 1e-3, 0.2, 0.5]
)
@pytest.mark.parametrize("seed", range(3))
def test_stress_and_its_gradient_are_those_of_mpmath(curvature, seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(4, 3))
    pairs = rng.uniform(0.5, 3, size=6)
    value, gradient = stress(points, pairs, curvature)
    with mpmath.workdps(50):
        exact = [[mpf(float(x)) for x in point] for point in points]
        reference = float(mp_stress(exact, pairs, curvature))
        assert value == pytest.approx(reference, rel=50 * EPS)
        slopes = np.empty_like(points)
        step = mpf(10) ** -20
        for place in np.ndindex(points.shape):
            ends = []
            for change in (step, -step):
                moved = [list(point) for point in exact]
                moved[place[0]][place[1]] += change
                ends.append(mp_stress(moved, pairs, curvature))
            slopes[place] = float((ends[0] - ends[1]) / (2 * step))
    np.testing.assert_allclose(gradient, slopes, atol=200 * EPS * np.abs(slopes).max(), rtol=0)


def test_points_far_away_and_at_one_place_have_a_finite_stress():
    points = np.array([[1e6, 0.0], [-1e6, 1.0], [0.0, 0.0], [0.0, 0.0], [0.5, 0.0]])
    pairs = np.ones(10)
    for curvature in (-1e3, -1.0, 0.0, 1.0):
        value, gradient = stress(points, pairs, curvature)
        assert math.isfinite(value)
        assert np.isfinite(gradient).all()


def hyperbolic(curvature: float, dim: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    tangent = torch.from_numpy(rng.normal(size=(NODES, dim)) / math.sqrt(-4 * curvature))
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


@pytest.mark.parametrize("dim", [2, 5])
@pytest.mark.parametrize("seed", only([0, 1], (0).__eq__))
@pytest.mark.parametrize("curvature", [-5.0, -0.2, 0.3, 4.0])
def test_the_curvature_of_points_is_recovered(curvature, dim, seed):
    make = hyperbolic if curvature < 0 else spherical
    distances = make(curvature, dim, seed)
    assert distortion(distances, dim, curvature) <= 1e-5
    best = fit(distances, dim)
    assert best.curvature == pytest.approx(curvature, rel=0.1)
    assert best.distortion == min(best.hyperbolic, best.spherical) < best.flat
    assert best.flat == max(best.hyperbolic, best.spherical)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 40.0])
def test_flat_points_are_flat_at_any_scale(scale):
    points = scale * np.random.default_rng(0).normal(size=(NODES, 3))
    distances = squareform(pdist(points))
    assert distortion(distances, 3, 0.0) <= 1e-5
    best = fit(distances, 3)
    assert best.curvature == 0
    assert best.curve[0.0] == best.flat == best.distortion <= RESOLUTION


def paths(graph: nx.Graph) -> np.ndarray:
    """Lengths of the shortest paths."""
    return np.asarray(nx.floyd_warshall_numpy(graph))


@pytest.mark.parametrize("dim", [2, 5])
def test_trees_are_hyperbolic(dim):
    for tree in (nx.balanced_tree(2, 4), nx.random_labeled_tree(40, seed=0)):
        best = fit(paths(tree), dim)
        assert best.curvature < -0.5
        assert best.distortion < min(0.05, best.flat / 2)
        assert best.spherical == best.flat


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_a_cycle_is_a_circle(dim):
    best = fit(paths(nx.cycle_graph(24)), dim)
    assert best.curvature == pytest.approx((2 * math.pi / 24) ** 2, rel=0.05)
    assert best.distortion < RESOLUTION
    assert best.hyperbolic == pytest.approx(best.flat)
    assert best.flat > 0.1


def test_no_curvature_is_fitted_where_no_space_has_room():
    distances = 1e4 * hyperbolic(-1.0, 2, 0)
    low, high = curvature_range(distances)
    assert low == pytest.approx(-((LONGEST / distances.max()) ** 2))
    for curvature in (1.01 * low, 1.01 * high, -16.0, 16.0):
        assert math.isinf(distortion(distances, 2, curvature))
    best = fit(distances, 2)
    assert [*best.curve] == sorted(best.curve)
    assert (min(best.curve), max(best.curve)) == (low, high)
    assert all(0 <= error <= 1 for error in best.curve.values())
