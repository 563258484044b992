"""Lemmas and identities of the paper on hulls: Section 4 and its Appendices A, D and E."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from curvfed.geometry import poincare
from curvfed.geometry.hull import convex_hull, from_klein, to_klein
from curvfed.geometry.quantizer import PoincareQuantizer
from curvfed.tasks.generated import uniform_points

RADIUS = 0.95
SEEDS = st.integers(0, 2**32 - 1)


def drawn(num, seed):
    return uniform_points(num, RADIUS, -1.0, np.random.default_rng(seed))


def logs(base, points):
    """Eq. 1: (2,) and (n, 2) -> (n, 2)."""
    bases = torch.from_numpy(base).expand(len(points), 2)
    return poincare.log(bases, torch.from_numpy(points), -1.0).numpy()


@given(seed=SEEDS, clients=st.integers(1, 5))
def test_the_hull_of_all_is_that_of_the_clients_hulls(seed, clients):
    """Section 4: CH(∪ Xᵢ) = CH(∪ CH(Xᵢ))."""
    parts = [drawn(20, [seed, client]) for client in range(clients)]
    points = np.concatenate(parts)
    corners = np.concatenate([part[convex_hull(part, -1.0)] for part in parts])
    np.testing.assert_array_equal(
        corners[convex_hull(corners, -1.0)], points[convex_hull(points, -1.0)]
    )


@given(seed=SEEDS)
def test_all_points_lie_on_one_side_of_the_geodesic_at_the_farthest(seed):
    """Lemma A.2."""
    points = drawn(30, seed)
    farthest = points[np.hypot(*points.T).argmax()]
    others = points[(points != farthest).any(axis=1)]
    inward = logs(farthest, np.zeros((1, 2)))[0]
    assert (logs(farthest, others) @ inward > 0).all()


def turn(first, second, third):
    """The sign of Algorithm 2."""
    ahead, aside = logs(first, np.stack([second, third]))
    return np.sign(ahead[0] * aside[1] - ahead[1] * aside[0])


@given(seed=SEEDS)
def test_a_point_is_in_a_triangle_if_all_turns_agree(seed):
    """Lemma A.3, beside the hull of the four."""
    points = drawn(4, seed)
    first, second, third, last = points
    signs = {turn(first, second, last), turn(second, third, last), turn(third, first, last)}
    is_inside = 3 not in convex_hull(points, -1.0)
    assert (len(signs) == 1) == is_inside


def area(corners):
    """Of a hyperbolic polygon (m, 2), counter-clockwise: π(m − 2) minus its angles."""
    angles = 0.0
    for index, corner in enumerate(corners):
        ends = np.stack([corners[index - 1], corners[(index + 1) % len(corners)]])
        before, after = logs(corner, ends)
        cross = after[0] * before[1] - after[1] * before[0]
        angles += math.atan2(cross, after @ before)
    return math.pi * (len(corners) - 2) - angles


@pytest.mark.parametrize("epsilon", [None, 0.05, 0.5])
def test_corners_are_no_more_than_the_area_outside_allows(epsilon):
    """Lemmas D.1 and E.1: at most N f(N/2) corners, f the share of the disc outside the hull."""
    number, sets = 120, 60
    quantizer = None
    if epsilon:
        quantizer = PoincareQuantizer(epsilon, RADIUS * (1 + 1e-9), -1.0)
    whole = 4 * math.pi * math.sinh(math.atanh(RADIUS)) ** 2
    corners = []
    shares = []
    for seed in range(sets):
        points = drawn(number, seed)
        if quantizer:
            points = quantizer.decode(quantizer.encode(points))
        half = points[: number // 2]
        corners.append(len(convex_hull(points, -1.0)))
        shares.append(1 - area(half[convex_hull(half, -1.0)]) / whole)
    bound = number * np.mean(shares)
    error = np.std(corners) / sets**0.5 + number * np.std(shares) / sets**0.5
    assert np.mean(corners) < bound - 3 * error


@pytest.mark.parametrize("radius", [0.2, 0.6, 0.95])
def test_a_geodesic_between_two_points_of_a_circle_comes_in_by_the_square_of_the_angle(radius):
    """Lemma D.2, whose coefficient is 8, not 2: (r² + s²) θ² / (8 (s²/r − r))."""
    angle = 1e-3
    ends = radius * np.array([[math.cos(angle), math.sin(angle)], [1.0, 0.0]])
    middle = from_klein(to_klein(ends).mean(axis=0, keepdims=True))
    come_in = radius - np.hypot(*middle[0])
    coefficient = (radius**2 + 1) / (8 * (1 / radius - radius))
    assert come_in == pytest.approx(coefficient * angle**2, rel=1e-3)
