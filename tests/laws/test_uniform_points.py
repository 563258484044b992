"""The built-in sampler: its law in hyperbolic area, its hyperplane, the margin."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import kstest

from curvfed.tasks.generated import MIN_SIDE, Hyperplane, two_classes, uniform_points

EPS = np.finfo(np.float64).eps
CURVATURES = [-1.0, -0.0015, -4.0]
LEAST_P = 1e-3
"""Seeds are fixed: a test passes always or never."""


def hyperbolic_norm(points: np.ndarray, curvature: float) -> np.ndarray:
    """Distance from the origin where the disc is scaled to curvature −1."""
    return 2 * np.arctanh(math.sqrt(-curvature) * np.hypot(*points.T))


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("share", [0.05, 0.95, 0.9995])
def test_density_is_that_of_hyperbolic_area(curvature, share):
    radius = share / math.sqrt(-curvature)
    points = uniform_points(4000, radius, curvature, np.random.default_rng([5, int(1e4 * share)]))
    assert np.hypot(*points.T).max() <= radius * (1 + 4 * EPS)
    # A disc of hyperbolic radius r has the area 4π sinh²(r/2).
    area = (np.sinh(hyperbolic_norm(points, curvature) / 2) / math.sinh(math.atanh(share))) ** 2
    angle = np.arctan2(*points.T[::-1]) % (2 * np.pi) / (2 * np.pi)
    for values in (area, angle, area[angle < 0.25], angle[area > 0.75]):
        assert kstest(values, "uniform").pvalue > LEAST_P
    assert angle.min() < 0.003
    assert angle.max() > 0.997
    # The same test tells the Euclidean law, and angles of at most one radian, apart.
    assert kstest(angle * 2 * np.pi % 1 / (2 * np.pi), "uniform").pvalue < 1e-9
    if share > 0.9:
        assert kstest((np.hypot(*points.T) / radius) ** 2, "uniform").pvalue < 1e-9


def exact_distance(hyperplane: Hyperplane, point: np.ndarray) -> mpmath.mpf:
    """On the hyperboloid: sinh d is the Lorentz product of the point and the unit normal."""
    root = mpmath.sqrt(-mpmath.mpf(hyperplane.curvature))
    p, w = (
        [mpmath.mpf(float(value)) for value in pair]
        for pair in (hyperplane.reference, hyperplane.normal)
    )
    p, x = [root * value for value in p], [root * mpmath.mpf(float(value)) for value in point]
    room_p, room_x = (1 - mpmath.fdot(vector, vector) for vector in (p, x))
    lifted = [(2 - room_x) / room_x, *(2 * value / room_x for value in x)]
    # The derivative of the lift at p, along w.
    slope = 4 * mpmath.fdot(p, w) / room_p**2
    normal = [slope, *(2 * wi / room_p + slope * pi for wi, pi in zip(w, p))]
    size = 2 * mpmath.sqrt(mpmath.fdot(w, w)) / room_p
    product = (mpmath.fdot(lifted[1:], normal[1:]) - lifted[0] * normal[0]) / size
    return mpmath.asinh(product) / root


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("reference", [0.0, 0.5, 0.999])
def test_distance_to_a_hyperplane(curvature, reference):
    rng = np.random.default_rng([6, int(1e3 * reference)])
    unit = 1 / math.sqrt(-curvature)
    with mpmath.workdps(60):
        for _ in range(20):
            to_p, to_w, length = *(2 * np.pi * rng.random(2)), 10.0 ** rng.uniform(-3, 3)
            p = unit * reference * np.array([math.cos(to_p), math.sin(to_p)])
            hyperplane = Hyperplane(
                tuple(p), (length * math.cos(to_w), length * math.sin(to_w)), curvature
            )
            gap = 10.0 ** rng.uniform(-12, -0.01, size=10)
            angle = 2 * np.pi * rng.random(10)
            points = unit * (1 - gap)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
            points = np.concatenate(
                [points, p + 1e-9 * unit * (1 - reference) * points, [p, [0.0, 0.0]]]
            )
            distances = hyperplane.distance(points)
            reach = np.exp(hyperbolic_norm(points, curvature) + hyperbolic_norm(p[None], curvature))
            for distance, point, bound in zip(distances, points, EPS * reach * unit, strict=True):
                assert abs(distance - exact_distance(hyperplane, point)) <= bound


@pytest.mark.parametrize("curvature", CURVATURES)
def test_two_classes(curvature):
    radius = 0.95 / math.sqrt(-curvature)
    margin = 0.3 / math.sqrt(-curvature)
    points, labels, hyperplane = two_classes(2000, radius, 0.5, margin, curvature, seed=3)
    assert math.hypot(*hyperplane.reference) == pytest.approx(0.5 * radius, rel=4 * EPS)
    assert hyperplane.distance(np.array(hyperplane.reference)) == pytest.approx(0, abs=EPS)
    distance = hyperplane.distance(points)
    assert ((distance > 0) == (labels == 1)).all()
    assert (np.abs(distance) >= margin).all()
    assert np.bincount(labels).min() >= MIN_SIDE * 2000
    # What is removed is what lay nearer, no more: without a margin all points are there, in the
    # same order.
    everything, sides, same = two_classes(2000, radius, 0.5, 0.0, curvature, seed=3)
    assert same == hyperplane
    is_far = np.abs(hyperplane.distance(everything)) >= margin
    assert len(everything) == 2000
    assert 0 < is_far.sum() < 2000
    assert (everything[is_far] == points).all()
    assert (sides[is_far] == labels).all()


def test_the_seed_draws():
    first, repeated, reseeded = (
        two_classes(300, 0.95, 0.5, 0.1, -1.0, seed)[0] for seed in (0, 0, 1)
    )
    assert (first == repeated).all()
    assert first.shape != reseeded.shape or (first != reseeded).any()


def test_directions_of_the_hyperplane_are_uniform():
    planes = [two_classes(40, 0.95, 0.2, 0.0, -1.0, seed)[2] for seed in range(300)]
    for pairs in ([plane.reference for plane in planes], [plane.normal for plane in planes]):
        angle = np.arctan2(*np.array(pairs).T[::-1]) % (2 * np.pi) / (2 * np.pi)
        assert kstest(angle, "uniform").pvalue > LEAST_P
