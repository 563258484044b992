"""Laws of the distortion of distances: one solver for all curvatures, without a step at 0, and
never worse than an embedding in closed form."""

import functools
import math

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.linalg import eigh
from scipy.spatial.distance import pdist, squareform
from tiers import only

from curvfed.extensions.curvature.distortion import Fit, curvature_range, distortion, fit
from curvfed.geometry import poincare

GRAPHS = {
    "grid": nx.grid_2d_graph(5, 5),
    "tree": nx.random_labeled_tree(30, seed=0),
    "cycle": nx.cycle_graph(20),
    "random": nx.gnp_random_graph(30, 0.15, seed=1),
    "communities": nx.connected_caveman_graph(5, 6),
}

every_graph = pytest.mark.parametrize("name", GRAPHS)


def paths(name: str) -> np.ndarray:
    return np.asarray(nx.floyd_warshall_numpy(GRAPHS[name]))


@functools.cache
def search(name: str, dim: int) -> Fit:
    return fit(paths(name), dim)


def closed_form(distances: np.ndarray, dim: int, curvature: float) -> torch.Tensor:
    """Points of the ball by the eigenvectors of cosh(d) (Keller-Ressel & Nargang, 2020)."""
    values, vectors = eigh(np.cosh(np.sqrt(-curvature) * distances))
    time = np.abs(vectors[:, -1]) * np.sqrt(values[-1])
    space = vectors[:, :dim] * np.sqrt(np.maximum(-values[:dim], 0))
    nearest = min(1.0, time.min())
    radius = np.minimum(np.sqrt((time - nearest) / (time + nearest)), 1 - 1e-12)
    length = np.maximum(np.linalg.norm(space, axis=1), 1e-300)
    return torch.from_numpy(space * (radius / length)[:, None] / np.sqrt(-curvature))


@every_graph
def test_distortion_goes_to_that_of_flat_space_with_the_curvature(name):
    """First order: the differences over the curvature have one limit from both sides."""
    dim = 2
    distances = paths(name)
    flat = distortion(distances, dim, 0.0)
    slopes = {}
    for size in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
        for curvature in (-size, size):
            slopes[curvature] = (distortion(distances, dim, curvature) - flat) / curvature
    unit = distances.max() ** 2
    limit = slopes[1e-5]
    bound = 3 * abs(limit) + 0.01 * unit
    assert all(abs(slope) <= bound for slope in slopes.values())
    for curvature in (-1e-5, -1e-6, 1e-6):
        assert slopes[curvature] == pytest.approx(limit, rel=0.01, abs=1e-4 * unit)


@every_graph
def test_the_curve_of_a_search_has_no_step_at_0(name):
    curve = search(name, 2).curve
    near = [error for curvature, error in curve.items() if abs(curvature) <= 1.1 * 2**-10]
    assert len(near) >= 3
    assert max(near) - min(near) <= 0.01


@pytest.mark.parametrize(
    ("name", "dim"), only([*((name, 2) for name in GRAPHS), ("tree", 5)], lambda case: case[1] == 2)
)
def test_no_distortion_exceeds_that_of_a_closed_form(name, dim):
    distances = paths(name)
    pairs = squareform(distances)
    length = np.linalg.norm(pairs)
    squares = distances**2
    centring = np.eye(len(distances)) - 1 / len(distances)
    values, vectors = eigh(-centring @ squares @ centring / 2)
    scaled = pdist(vectors[:, -dim:] * np.sqrt(np.maximum(values[-dim:], 0)))
    scaled *= scaled @ pairs / (scaled @ scaled)
    best = search(name, dim)
    classical = np.linalg.norm(scaled - pairs) / length
    assert max(distortion(distances, dim, 0.0), best.flat) <= (1 + 1e-9) * classical
    low, _ = curvature_range(distances)
    for curvature in (low, low / 10, low / 100, -1e-3):
        points = closed_form(distances, dim, curvature)
        embedded = squareform(poincare.cdist(points, points, curvature).numpy(), checks=False)
        closed = np.linalg.norm(embedded - pairs) / length
        assert distortion(distances, dim, curvature) <= closed
        if curvature in best.curve:
            assert best.curve[curvature] <= closed


@every_graph
def test_a_search_finds_what_a_single_descent_finds(name):
    distances = paths(name)
    best = search(name, 3)
    for curvature in (best.curvature, 0.0):
        alone = distortion(distances, 3, curvature)
        assert best.curve[curvature] == pytest.approx(alone, abs=0.001)
    assert math.isclose(best.distortion, min(best.curve.values()), abs_tol=0.001)
