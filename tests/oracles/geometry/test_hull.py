"""Hyperbolic hulls against exact rational arithmetic, the scan of the literature, isometries, and
areas at 40 digits.

On rational coordinates the Klein map is rational too, so an exact hull is one of fractions. Sets of
few points on a coarse grid have corners and edges that no rounding can confuse; for those near the
boundary the bound of the docstring holds.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf
from textbook import graham_scan, sample

from curvfed.geometry.hull import convex_hull, from_klein, points_within, thin, to_klein
from curvfed.strategies.hull.depth import hull_depths

CURVATURES = [-1.0, -0.0015, -0.0071, -4.0]
EPS = 2.0**-52


def disc(curvature):
    return 1 / math.sqrt(-curvature)


def klein(point, curvature):
    x, y = (Fraction(float(value)) for value in point)
    factor = 2 / (1 + Fraction(-curvature) * (x * x + y * y))
    return factor * x, factor * y


def cross(a, b, c):
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def exact_hull(points, curvature):
    """Gift wrapping over fractions, with the order and first indices of the contract."""
    places = [klein(point, curvature) for point in points]
    first = {place: index for index, place in reversed(list(enumerate(places)))}
    start = corner = min(first, key=lambda place: tuple(points[first[place]]))
    if start != min(first):  # leftmost in the disc need not be so here, nor even a corner
        start = corner = min(first)
    corners = []
    while True:
        corners.append(first[corner])
        ahead = None
        for place in first:
            if place == corner:
                continue
            turn = -1 if ahead is None else cross(corner, ahead, place)
            farther = turn == 0 and abs(place[0] - corner[0]) + abs(place[1] - corner[1]) > abs(
                ahead[0] - corner[0]
            ) + abs(ahead[1] - corner[1])
            if turn < 0 or farther:
                ahead = place
        if ahead is None or ahead == start:
            break
        corner = ahead
    turned = min(range(len(corners)), key=lambda i: tuple(points[corners[i]]))
    return corners[turned:] + corners[:turned]


@st.composite
def grid_sets(draw, max_num):
    """Equal points, points on one diameter and symmetric ones come up all the time."""
    cells = st.tuples(st.integers(-5, 5), st.integers(-5, 5))
    points = np.array(draw(st.lists(cells, max_size=max_num)), dtype=float).reshape(-1, 2)
    curvature = draw(st.sampled_from(CURVATURES))
    return points / 8 * disc(curvature), curvature


@given(grid_sets(max_num=40))
def test_equals_the_exact_hull(case):
    points, curvature = case
    # Scaling by 1/√|c| rounds, and may move a point off a diameter: the exact hull is that of the
    # unrounded ones.
    unit = np.round(points / disc(curvature) * 8) / 8
    corners = convex_hull(points, curvature)
    assert corners.dtype == np.intp
    assert corners.tolist() == (exact_hull(unit, -1.0) if len(points) else [])


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("num", [3, 30, 150])
def test_equals_the_exact_hull_and_the_scan_on_random_points(num, curvature):
    for seed in range(4):
        rng = np.random.default_rng([num, seed])
        points = (
            sample(num)[rng.permutation(num)]
            if seed == 0
            else rng.standard_normal((num, 2)) * 0.1 + 0.3
        )
        points = points[np.hypot(*points.T) < 0.99] * disc(curvature)
        corners = convex_hull(points, curvature).tolist()
        assert corners == exact_hull(points, curvature)
        assert set(corners) == set(graham_scan(points, curvature))


SHAPES = {
    "disc": lambda rng, num: sample(num)[rng.permutation(num)],
    "cluster": lambda rng, num: 0.5 + rng.uniform(-0.1, 0.1, (num, 2)),
    "speck": lambda rng, num: 0.5 + rng.uniform(-1e-9, 1e-9, (num, 2)),
    "sliver": lambda rng, num: np.stack(
        [rng.uniform(-0.5, 0.5, num), rng.uniform(0, 1e-9, num)], axis=1
    ),
    "upright": lambda rng, num: np.stack(
        [rng.uniform(0, 1e-9, num), rng.uniform(-0.5, 0.5, num)], axis=1
    ),
    "circle": (
        lambda rng, num: 0.5 * np.exp(0.05j * rng.integers(0, 120, num)).view(float).reshape(-1, 2)
    ),
    "sorted": lambda rng, num: (
        np.sort(rng.uniform(-0.5, 0.5, num))[:, None] * [1, 1] + rng.uniform(0, 0.1, (num, 2))
    ),
    "few places": lambda rng, num: rng.integers(-3, 4, (num, 2)) / 8,
    "two places": lambda rng, num: rng.integers(0, 2, (num, 1)) / 8 * [1, 3],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_many_points(shape):
    """From 2,000 points on only a part of them decides what the rest is held against."""
    for seed in range(3):
        points = SHAPES[shape](np.random.default_rng(seed), 5000)
        corners = convex_hull(points, -1.0)
        # An independent answer in float64: gift wrapping over all points in the Klein model.
        x, y = (2 * points / (1 + (points**2).sum(axis=1, keepdims=True))).T
        expected, current = [], int(np.lexsort((y, x))[0])
        while not expected or current != expected[0]:
            expected.append(current)
            ahead = int(((x != x[current]) | (y != y[current])).argmax())
            while True:
                turn = (x[ahead] - x[current]) * (y - y[current]) - (y[ahead] - y[current]) * (
                    x - x[current]
                )
                turn[np.abs(turn) <= 1e-24] = 0  # the same place, or the same edge
                along = (x - x[current]) * (x[ahead] - x[current]) + (y - y[current]) * (
                    y[ahead] - y[current]
                )
                right = np.flatnonzero(turn < 0)
                beyond = np.flatnonzero((turn == 0) & (along > along[ahead]))
                if not right.size + beyond.size:
                    break
                ahead = int(
                    right[turn[right].argmin()] if right.size else beyond[along[beyond].argmax()]
                )
            current = int(((x == x[ahead]) & (y == y[ahead])).argmax())
        turned = min(range(len(expected)), key=lambda i: tuple(points[expected[i]]))
        assert corners.tolist() == expected[turned:] + expected[:turned]


def moved(points, shift, angle, curvature):
    """An isometry: a rotation, then the Möbius translation by `shift`."""
    scale = disc(curvature)
    z, a = (points[:, 0] + 1j * points[:, 1]) * np.exp(1j * angle) / scale, complex(*shift)
    return scale * np.ascontiguousarray((z + a) / (1 + a.conjugate() * z)).view(float).reshape(
        -1, 2
    )


@pytest.mark.parametrize("radius", [0.0, 1e-300, 1e-6, 0.5, 2.0, 6.0, 17.0])
def test_the_klein_model_and_back(radius):
    angles = np.random.default_rng(0).uniform(0, 2 * math.pi, 50)
    points = math.tanh(radius / 2) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    mapped = to_klein(points)
    with mpmath.workdps(60):
        for point, mapped_point, back in zip(points, mapped, from_klein(mapped), strict=True):
            for value, place in zip(mapped_point, klein(point, -1.0), strict=True):
                assert abs(Fraction(float(value)) - place) <= 4 * EPS * abs(place)
            x, y = (mpf(float(value)) for value in mapped_point)
            root = mpmath.sqrt(1 - x * x - y * y)
            for value, place in zip(back, (x / (1 + root), y / (1 + root)), strict=True):
                assert abs(mpf(float(value)) - place) <= 4 * EPS / root * abs(place)


def test_rounding_in_the_klein_model_does_not_leave_the_disc():
    angles = np.linspace(0, 6, 50)
    boundary = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    np.testing.assert_allclose(from_klein(boundary * (1 + 2 * EPS)), boundary, rtol=0, atol=4 * EPS)


def geodesic(a, b, shares):
    """Points on the geodesic of curvature −1 through two points: Klein lines, rounded once."""
    with mpmath.workdps(30):
        ends = [
            [2 * mpf(float(v)) / (1 + mpf(float(p[0])) ** 2 + mpf(float(p[1])) ** 2) for v in p]
            for p in (a, b)
        ]
        points = []
        for share in shares:
            x, y = (u + mpf(float(share)) * (v - u) for u, v in zip(*ends, strict=True))
            factor = 1 / (1 + mpmath.sqrt(1 - x * x - y * y))
            points.append([float(factor * x), float(factor * y)])
    return np.array(points)


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("num", [3, 4, 50, 2500])
def test_points_on_one_geodesic_have_two_ends(num, curvature):
    rng = np.random.default_rng(num)
    for seed in range(3):
        ends = rng.uniform(-0.6, 0.6, (2, 2)) if seed else np.array([[0.3, 0.1], [-0.6, -0.2]])
        points = geodesic(*ends, np.append(rng.permutation(np.linspace(0, 1, num)), [0, 1])) * disc(
            curvature
        )
        both = [int((points == point).all(axis=1).argmax()) for point in points[-2:]]
        corners = convex_hull(points, curvature).tolist()
        assert sorted(corners) == sorted(both)
        assert tuple(points[corners[0]]) <= tuple(points[corners[1]])


@pytest.mark.parametrize("num", [1, 10, 1000])
def test_points_on_an_edge_are_not_extreme(num):
    rng = np.random.default_rng(0)
    for _ in range(5):
        corners = rng.uniform(-0.65, 0.65, (3, 2))
        edges = [
            geodesic(corners[i - 1], corners[i], rng.uniform(0.02, 0.98, num)) for i in range(3)
        ]
        points = np.concatenate([*edges, corners, corners])
        assert sorted(convex_hull(points, -1.0)) == [3 * num, 3 * num + 1, 3 * num + 2]


@pytest.mark.parametrize("axis", [0, 1])
def test_points_on_an_axis(axis):
    points = np.zeros((9, 2))
    points[:, axis] = [0.1, -0.2, 0.0, -0.2, 0.3, -0.0, 0.3, 1e-300, -1e-300]
    np.testing.assert_array_equal(convex_hull(points, -1.0), [1, 4])


def test_few_points():
    for num in (1, 2, 3, 100, 5000):
        same = np.tile([[0.1, -0.3]], (num, 1))
        np.testing.assert_array_equal(convex_hull(same, -1.0), [0])
    assert convex_hull(np.empty((0, 2)), -1.0).tolist() == []
    assert convex_hull(np.empty((0, 2)), -1.0).dtype == np.intp
    assert convex_hull([[0, 0]], -1.0).tolist() == [0]
    assert convex_hull([[0.5, 0], [0.0, -0.0]], -1.0).tolist() == [1, 0]
    assert convex_hull([[0, 0.5], [0, -0.5], [0, 0.5], [0, -0.5]], -1.0).tolist() == [1, 0]
    assert convex_hull([[0, 0.5], [0, -0.5], [-0.5, 0], [0.5, 0]], -1.0).tolist() == [2, 1, 3, 0]


def test_float32_points_are_read_exactly():
    points = sample(1000).astype(np.float32)
    np.testing.assert_array_equal(
        convex_hull(points, -1.0), convex_hull(points.astype(np.float64), -1.0)
    )


def above_edge(p, a, b):
    """Distance of p from the geodesic through a and b: sinh is det(P, A, B)/sinh d(A, B)."""
    P, A, B = (
        mpmath.matrix([1 + x * x + y * y, 2 * x, 2 * y]) / (1 - x * x - y * y)
        for x, y in ((mpf(float(u)), mpf(float(v))) for u, v in (p, a, b))
    )
    base = mpmath.matrix([[*P], [*A], [*B]])
    inner = A[0] * B[0] - A[1] * B[1] - A[2] * B[2]
    return mpmath.asinh(mpmath.det(base) / mpmath.sqrt(inner * inner - 1))


@pytest.mark.parametrize("radius", [5, 10, 14, 17])
def test_the_limit_near_the_boundary(radius):
    """What is left out, or a wrong corner inside, errs by no more than is promised."""
    rng = np.random.default_rng(radius)
    bound = 8 * EPS * math.cosh(radius) ** 2
    wrong = 0
    for seed in range(8):
        # A small set that an isometry has carried out to the radius, with points near its edges.
        shape = sample(8, 0.2) * (1 if seed % 2 else 0.02)
        edges = [
            geodesic(shape[i], shape[j], rng.uniform(0, 1, 5))
            for i, j in rng.integers(0, 8, (6, 2))
            if i != j
        ]
        near = np.concatenate(edges)
        shape = np.concatenate(
            [
                shape,
                near
                + rng.choice([-1, 1], near.shape) * bound * 10 ** rng.uniform(-3, 0, near.shape),
            ]
        )
        points = moved(
            shape,
            np.array([math.cos(seed), math.sin(seed)]) * math.tanh((radius - 0.9) / 2),
            seed,
            -1.0,
        )
        hull, exact = convex_hull(points, -1.0).tolist(), exact_hull(points, -1.0)
        wrong += hull != exact
        with mpmath.workdps(60):
            for index in set(exact) - set(hull):
                assert min(outside(points[index], points[hull])) >= -bound
            for index in set(hull) - set(exact):
                assert min(outside(points[index], points[exact])) <= bound
    assert wrong  # the bound is no formality


def outside(point, corners):
    if len(corners) == 1:
        return [mpf(0)]
    return [above_edge(point, corners[i - 1], corners[i]) for i in range(len(corners))]


def test_where_float64_ends_points_are_refused():
    near = math.sqrt(1 - 1.01e-7)
    assert convex_hull([[near, 0], [0, near], [-near, 0]], -1.0).tolist() == [2, 0, 1]
    with pytest.raises(
        ValueError, match=r"of 3 points 0 are not finite, 0 lie on or outside .* and 1 within 5e-8"
    ):
        convex_hull([[math.sqrt(1 - 0.99e-7), 0], [0, near], [-near, 0]], -1.0)


@pytest.mark.parametrize(
    "call", [convex_hull, lambda points, curvature: thin(points, curvature, 1)]
)
def test_what_is_refused(call):
    with pytest.raises(ValueError, match="of 4 points 2 are not finite, 0 lie on or outside"):
        call([[0, 0], [math.nan, 0], [0, 0.1], [0.1, math.nan]], -1.0)
    with pytest.raises(ValueError, match="of 2 points 1 are not finite, 1 lie on or outside"):
        call([[0, 0], [math.inf, 0]], -1.0)
    with pytest.raises(
        ValueError,
        match="0 are not finite, 3 lie on or outside the boundary of the disc of curvature -4",
    ):
        call([[0.5, 0], [0, 0], [0.4, 0.4], [1e200, 0]], -4.0)
    for shape in ((2,), (2, 3), (1, 2, 2), (0,)):
        with pytest.raises(ValueError, match=r"it must be \(n, 2\)"):
            call(np.zeros(shape), -1.0)
    for curvature in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="negative, finite"):
            call(np.zeros((3, 2)), curvature)


def test_an_error_tells_no_coordinate():
    with pytest.raises(ValueError, match="outside") as error:
        convex_hull([[1.2345, 0.1], [0.0271828, 0.0]], -1.0)
    assert "2345" not in str(error.value)
    assert "2718" not in str(error.value)


def triangle_area(*corners):
    """π minus the angles, these by the law of cosines, in units of 1/|c| of a disc of radius 1."""
    points = [[mpf(float(value)) for value in corner] for corner in corners]

    def cosh(p, q):
        apart = (p[0] - q[0]) ** 2 + (p[1] - q[1]) ** 2
        return 1 + 2 * apart / ((1 - p[0] ** 2 - p[1] ** 2) * (1 - q[0] ** 2 - q[1] ** 2))

    sides = [cosh(points[i - 2], points[i - 1]) for i in range(3)]
    total = mpf(0)
    for i in range(3):
        a, b, c = sides[i], sides[i - 1], sides[i - 2]
        total += mpmath.acos((b * c - a) / mpmath.sqrt((b * b - 1) * (c * c - 1)))
    return mpmath.pi - total


def greedy(points, cap):
    chosen = list(range(len(points)))
    while len(chosen) > cap:
        areas = [
            triangle_area(*(points[chosen[j % len(chosen)]] for j in (i - 1, i, i + 1)))
            for i in range(len(chosen))
        ]
        chosen.pop(min(range(len(chosen)), key=areas.__getitem__))
    return chosen


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize(
    ("width", "shift"), [(0.95, 0), (0.3, 0.9), (1e-5, 0.0), (1e-4, 0.7), (0.5, 1 - 1e-6)]
)
def test_thinning_loses_the_least_area(curvature, width, shift):
    """Also of specks, whose triangles' angles add up to π but for 1e-12."""
    points = moved(sample(60, 0.9) * width, (shift, 0.0), 1.0, -1.0)
    corners = points[convex_hull(points, -1.0)]
    with mpmath.workdps(60):
        for cap in (3, len(corners) // 2, len(corners) - 1):
            assert thin(corners * disc(curvature), curvature, cap).tolist() == greedy(corners, cap)


@pytest.mark.parametrize("cap", [1, 2, 3, 4, 10, 1000])
def test_a_thinned_hull_is_a_hull_within(cap):
    points = sample(2500)
    corners = points[convex_hull(points, -1.0)]
    chosen = thin(corners, -1.0, cap)
    assert chosen.size == min(cap, len(corners))
    assert (np.diff(chosen) > 0).all()
    assert chosen.dtype == np.intp
    assert set(convex_hull(corners[chosen], -1.0)) == set(range(chosen.size))


def test_the_last_two_are_the_farthest_apart_of_three():
    points = np.array([[-0.1, 0.0], [0.0, -0.8], [0.7, 0.0]])  # 1 and 2 are
    for turn in range(3):
        rolled = np.roll(points, turn, axis=0)
        expected = sorted([(1 + turn) % 3, (2 + turn) % 3])
        assert thin(rolled, -1.0, 2).tolist() == expected
        assert thin(rolled, -1.0, 1).tolist() == expected[:1]
    assert thin(points[:2], -1.0, 1).tolist() == [0]
    assert thin(points[:2], -1.0, 2).tolist() == [0, 1]
    assert thin(points[:1], -1.0, 1).tolist() == [0]
    assert thin(np.empty((0, 2)), -1.0, 1).tolist() == []


@pytest.mark.parametrize("cap", [0, -3])
def test_a_cap_below_one_is_refused(cap):
    with pytest.raises(ValueError, match=f"a cap of {cap} corners; it must be at least 1"):
        thin(np.zeros((2, 2)), -1.0, cap)


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize(("width", "shift"), [(0.9, 0), (0.5, 0.9), (1e-4, 0.7), (1e-9, 0.5)])
def test_drawn_points_lie_within_the_hull(curvature, width, shift):
    points = moved(sample(60, 0.9) * width, (shift, 0.0), 1.0, -1.0)
    corners = points[thin(points[convex_hull(points, -1.0)], -1.0, 8)]
    drawn = points_within(corners * disc(curvature), curvature, 300, np.random.default_rng(0))
    assert drawn.shape == (300, 2)
    assert drawn.dtype == np.float64
    straight = to_klein(corners[convex_hull(corners, -1.0)])
    depths = hull_depths([straight], to_klein(drawn / disc(curvature)))
    assert depths.min() >= -64 * EPS
    assert len(np.unique(drawn, axis=0)) > 250


def test_drawn_points_depend_on_the_generator_alone_and_move_with_the_hull():
    corners = sample(30, 0.6)
    corners = corners[convex_hull(corners, -1.0)]
    drawn = points_within(corners, -1.0, 100, np.random.default_rng(3))
    np.testing.assert_array_equal(
        drawn, points_within(corners, -1.0, 100, np.random.default_rng(3))
    )
    assert (drawn != points_within(corners, -1.0, 100, np.random.default_rng(4))).any()
    np.testing.assert_array_equal(
        drawn,
        points_within(corners.astype(np.float64).tolist(), -1.0, 100, np.random.default_rng(3)),
    )
    image = points_within(
        moved(corners, (0.5, -0.6), 2.0, -1.0), -1.0, 100, np.random.default_rng(3)
    )
    np.testing.assert_allclose(image, moved(drawn, (0.5, -0.6), 2.0, -1.0), rtol=0, atol=1e-13)
    scaled = points_within(corners * disc(-0.0071), -0.0071, 100, np.random.default_rng(3))
    np.testing.assert_allclose(scaled, drawn * disc(-0.0071), rtol=1e-13)


def test_points_drawn_within_hulls_of_one_and_two_points():
    rng = np.random.default_rng(0)
    for corners in ([[0.3, -0.4]], [[0.3, -0.4]] * 3, [[0.0, 0.0]]):
        np.testing.assert_allclose(
            points_within(corners, -1.0, 5, rng), np.tile(corners[0], (5, 1)), rtol=0, atol=8 * EPS
        )
    ends = np.array([[0.3, 0.8], [-0.5, 0.1]])
    for corners in (ends, ends[[0, 0, 1, 1]]):
        drawn = to_klein(points_within(corners, -1.0, 200, rng))
        assert abs(hull_depths([to_klein(ends)], drawn)).max() <= 16 * EPS
        along = (drawn - drawn.mean(axis=0)) @ (ends[0] - ends[1])
        assert (along > 0).mean() == pytest.approx(0.5, abs=0.15)
    assert points_within(ends, -1.0, 0, rng).shape == (0, 2)
    with pytest.raises(ValueError, match="0 corners; at least 1"):
        points_within(np.empty((0, 2)), -1.0, 5, rng)
    with pytest.raises(ValueError, match="outside the boundary"):
        points_within([[1.0, 0.2]], -1.0, 5, rng)
