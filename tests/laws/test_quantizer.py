"""Laws of the quantiser: bins come back, points are as near their centres as promised."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import assume, example, given
from hypothesis import strategies as st
from mpmath import mpf
from scipy.stats import kstest
from tiers import examples

from curvfed.geometry import poincare
from curvfed.geometry.quantizer import MOST_BINS, MOST_SECTORS, PoincareQuantizer
from curvfed.tasks.generated import uniform_points

CURVATURES = [-1.0, -0.0015, -0.0071, -4.0]


def quantizer(epsilon, share, curvature):
    """Radius and epsilon in units of the disc's, so that curvature only scales."""
    scale = 1 / math.sqrt(-curvature)
    return PoincareQuantizer(epsilon * scale, share * scale, curvature)


QUANTIZERS = [
    quantizer(epsilon, share, curvature)
    for curvature in CURVATURES
    for epsilon, share in [
        (20, 0.95),
        (3, 0.5),
        (1, 0.95),
        (0.1, 0.9),
        (0.01, 0.9995),
        (1e-6, 0.9),
        (1e-4, 1e-3),
    ]
]
# At the bounds: rings of 1e9 near the middle; sectors close to 2^48, most of them as near the
# boundary as float64 reads.
EXTREME = [
    quantizer(4e-9, 0.6, -1.0),
    quantizer(1, 1 - 1.1e-13, -1.0),
    quantizer(30, 1 - 2e-15, -4.0),
]


def bins_of(grid, seed, num=2000):
    """Bins of all kinds: the first and the last, both ends of rings, and some at random."""
    rng = np.random.default_rng(seed)
    sectors = grid.num_sectors
    rings = [int(ring) for ring in rng.integers(0, grid.num_rings, num)]
    edges = [
        ring * sectors + step
        for ring in rings[:100]
        for step in (1, sectors, (sectors + 1) // 2, sectors // 2 + 1)
    ]
    inner = [ring * sectors + int(rng.integers(0, sectors)) + 1 for ring in rings]
    return np.array([1, grid.num_bins, *edges, *inner], dtype=np.uint64)


@pytest.mark.parametrize("grid", QUANTIZERS + EXTREME, ids=str)
def test_every_bin_comes_back(grid):
    bins = bins_of(grid, 0)
    encoded = grid.encode(grid.decode(bins))
    assert encoded.dtype == np.uint64
    np.testing.assert_array_equal(encoded, bins)


@pytest.mark.parametrize("grid", QUANTIZERS + EXTREME, ids=str)
def test_bins_of_equal_area(grid):
    """Every bin comes back; points of equal density by area fill all rings alike, and are within the
    stated distance of their centres."""
    grid = replace(grid, equal_area=True)
    bins = bins_of(grid, 0)
    np.testing.assert_array_equal(grid.encode(grid.decode(bins)), bins)
    points = uniform_points(4000, grid.radius, grid.curvature, np.random.default_rng(0))
    encoded = grid.encode(points)
    rings = (encoded - np.uint64(1)) // np.uint64(grid.num_sectors)
    assert kstest((rings.astype(float) + 0.5) / grid.num_rings, "uniform").statistic < (
        0.03 + 0.5 / grid.num_rings
    )
    scale = 1 / math.sqrt(-grid.curvature)
    outermost = math.sinh(math.atanh(grid.radius / scale))
    width = 2 * scale * math.asinh(outermost / math.sqrt(grid.num_rings))
    bound = math.sqrt(2) * max(grid.epsilon / 2, width)
    for point, centre in zip(points[:200], grid.decode(encoded[:200]), strict=True):
        assert dist(point, centre, grid.curvature) <= bound


@given(st.floats(-3, 1), st.floats(0.05, 6), st.sampled_from(CURVATURES), st.integers(1, 10**9))
def test_rings_of_equal_area_have_the_papers_borders(log_epsilon, reach, curvature, chosen):
    """Eqs. 15, 17 and 18: the borders of a ring, in 40 digits, enclose the same area as every
    other, and the centre of a bin halves it."""
    grid = replace(quantizer(10**log_epsilon, math.tanh(reach), curvature), equal_area=True)
    ring = chosen % grid.num_rings
    with mpmath.workdps(40):
        scale = 1 / mpmath.sqrt(-mpf(curvature))
        unit = mpf(grid.radius) / scale
        outermost = unit / mpmath.sqrt(1 - unit**2)  # sinh(R_H/2s)

        def border(share):
            return 2 * scale * mpmath.asinh(mpmath.sqrt(share) * outermost)

        def area(hyperbolic_radius):
            return 4 * mpmath.pi * scale**2 * mpmath.sinh(hyperbolic_radius / (2 * scale)) ** 2

        borders = [border(mpf(ring + part) / grid.num_rings) for part in (0, mpf(1) / 2, 1)]
        inner, centre, outer = borders
        whole = area(border(mpf(1)))
        assert mpmath.almosteq(area(outer) - area(inner), whole / grid.num_rings, rel_eps=1e-30)
        assert mpmath.almosteq(area(outer) - area(centre), area(centre) - area(inner), 1e-30)
        width = outer - inner
        places = [inner + width / 1000, outer - width / 1000, centre]
        norms = [float(scale * mpmath.tanh(place / (2 * scale))) for place in places]
    assume(norms[0] < norms[2] < norms[1])  # rings near the rim may be narrower than float64
    expected = np.full(3, ring * grid.num_sectors + 1, np.uint64)
    bins = grid.encode(np.stack([norms, np.zeros(3)], axis=1))
    np.testing.assert_array_equal(bins, expected)
    decoded = np.hypot(*grid.decode(bins[2:])[0])
    assert decoded == pytest.approx(norms[2], rel=1e-12)


@given(st.floats(-9, 2), st.floats(1e-3, 16), st.sampled_from(CURVATURES), st.integers(0, 2**62))
@examples(400)
def test_any_bin_of_any_quantizer_comes_back(log_epsilon, reach, curvature, chosen):
    sectors = 4 * math.pi * math.sinh(2 * reach) / 10**log_epsilon
    assume(
        sectors < 0.99 * MOST_SECTORS
        and sectors * (4 * reach / 10**log_epsilon + 1) < 0.99 * MOST_BINS
    )
    grid = quantizer(10**log_epsilon, math.tanh(reach), curvature)
    bins = np.array(
        [chosen % grid.num_bins + 1, grid.num_bins - chosen % grid.num_bins], dtype=np.uint64
    )
    np.testing.assert_array_equal(grid.encode(grid.decode(bins)), bins)


def dist(x, y, curvature):
    """At 40 digits."""
    with mpmath.workdps(40):
        k = -mpf(curvature)
        square = [mpmath.fsum(mpf(float(c)) ** 2 for c in p) for p in (x, y)]
        apart = mpmath.fsum((mpf(float(a)) - mpf(float(b))) ** 2 for a, b in zip(x, y, strict=True))
        root = mpmath.sqrt(k * apart / ((1 - k * square[0]) * (1 - k * square[1])))
        return float(2 * mpmath.asinh(root) / mpmath.sqrt(k))


def corners(grid, bins, inwards=1e-6):
    """The corners of bins, a little inside them, in the paper's own formulas."""
    scale = 1 / math.sqrt(-grid.curvature)
    reach = scale * math.log((scale + grid.radius) / (scale - grid.radius))
    rings, sectors = (
        math.ceil(2 * reach / grid.epsilon),
        math.ceil(4 * math.pi * scale * math.sinh(reach / scale) / grid.epsilon),
    )
    assert grid.num_bins == rings * sectors
    for bin_ in bins.tolist():
        ring, sector = divmod(bin_ - 1, sectors)
        for radial in (inwards, 1 - inwards):
            for turn in (inwards, 1 - inwards):
                h, angle = (ring + radial) / rings * reach, (sector + turn) / sectors * 2 * math.pi
                norm = scale * (math.exp(h / scale) - 1) / (math.exp(h / scale) + 1)
                yield bin_, (norm * math.cos(angle), norm * math.sin(angle))


@pytest.mark.parametrize("grid", [grid for grid in QUANTIZERS if grid.num_sectors < 1e6], ids=str)
def test_corners_of_a_bin_are_in_it_and_near_its_centre(grid):
    bins = bins_of(grid, 1, num=20)
    numbers, points = zip(*corners(grid, bins), strict=True)
    np.testing.assert_array_equal(grid.encode(points), numbers)
    centres = grid.decode(np.array(numbers))
    apart = [dist(x, y, grid.curvature) for x, y in zip(points, centres, strict=True)]
    assert max(apart) <= grid.epsilon / math.sqrt(8)
    if grid.num_rings > 50:
        # the bound is no looser than it must be
        assert max(apart) > 0.95 * grid.epsilon / math.sqrt(8)


@pytest.mark.parametrize("grid", QUANTIZERS, ids=str)
def test_any_point_is_near_its_centre_and_any_two_of_a_bin_near_each_other(grid):
    rng = np.random.default_rng(2)
    norm = grid.radius * np.append(1 - 10 ** rng.uniform(-9, 0, 3000), [0, 1, 1])
    angle = rng.uniform(-7, 7, norm.size)
    points = norm[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    bins = grid.encode(points)
    assert bins.min() >= 1
    assert int(bins.max()) <= grid.num_bins
    # Rounding coordinates near the boundary moves a point by eps·cosh².
    rounding = 8 * 2.0**-52 / (1 + grid.curvature * grid.radius**2) / math.sqrt(-grid.curvature)
    centres = torch.from_numpy(grid.decode(bins))
    apart = poincare.dist(torch.from_numpy(points), centres, grid.curvature)
    assert apart.max() <= grid.epsilon / math.sqrt(8) + rounding
    order = np.argsort(bins, kind="stable")
    same = np.flatnonzero(bins[order[1:]] == bins[order[:-1]])
    first, second = torch.from_numpy(points[order[same]]), torch.from_numpy(points[order[same + 1]])
    assert (
        poincare.dist(first, second, grid.curvature) <= grid.epsilon / math.sqrt(2) + rounding
    ).all()


def test_numbers_go_ring_by_ring_and_counter_clockwise():
    grid = PoincareQuantizer(0.7, 0.8, -1.0)
    sectors = grid.num_sectors
    radius, angle = np.hypot(*grid.decode(np.arange(1, grid.num_bins + 1)).T), None
    np.testing.assert_allclose(radius, np.repeat(radius[::sectors], sectors), rtol=1e-14)
    assert (np.diff(radius[::sectors]) > 0).all()
    for ring in range(grid.num_rings):
        x, y = grid.decode(np.arange(1, sectors + 1) + ring * sectors).T
        angle = np.arctan2(y, x) % (2 * math.pi)
        np.testing.assert_allclose(
            angle, (np.arange(sectors) + 0.5) / sectors * 2 * math.pi, rtol=1e-13
        )


@pytest.mark.parametrize("grid", [*QUANTIZERS, *EXTREME], ids=str)
def test_the_origin_and_the_axes(grid):
    last = (grid.num_rings - 1) * grid.num_sectors
    for zero in ([0.0, 0.0], [-0.0, 0.0], [0.0, -0.0], [-0.0, -0.0]):
        assert grid.encode([zero]) == 1
    assert grid.encode([[grid.radius, 0.0]]) == grid.encode([[grid.radius, -0.0]]) == last + 1
    # An angle of −1e-17 is the last sector's, not one beyond it.
    assert grid.encode([[grid.radius, -1e-17 * grid.radius]]) == grid.num_bins
    # an angle that may become 0
    assert grid.encode([[grid.radius, -5e-324]]) in (grid.num_bins, last + 1)
    assert (
        grid.encode([[-grid.radius, 0.0]])
        == grid.encode([[-grid.radius, -0.0]])
        == last + grid.num_sectors // 2 + 1
    )


def test_a_border_belongs_to_the_bin_beyond_it():
    grid = PoincareQuantizer(0.5, math.tanh(1.0), -1.0)  # a hyperbolic radius of 2: 8 rings of 1/4
    assert grid.num_rings in (8, 9)  # 2·2/0.5 up to rounding
    borders = np.tanh(np.arange(grid.num_rings) * (2.0 / grid.num_rings) / 2)
    for shift, expected in ((1 + 1e-13, 0), (1 - 1e-13, -1)):
        rings = (
            grid.encode(np.stack([borders[1:] * shift, 0 * borders[1:]], axis=1)) - 1
        ) // grid.num_sectors
        np.testing.assert_array_equal(rings, np.arange(1, grid.num_rings) + expected)
    diagonal = PoincareQuantizer(100, 0.9, -1.0)
    assert diagonal.num_sectors % 4 or diagonal.encode([[0, 0.5]]) == diagonal.num_sectors // 4 + 1


@given(
    st.lists(st.tuples(st.floats(0, 0.99999), st.floats(-4, 4)), max_size=20),
    st.sampled_from([*QUANTIZERS, *EXTREME]),
)
@example([(0.99, 1.0)], QUANTIZERS[0])
def test_clamped_points_have_a_bin(polar, grid):
    scale = 1 / math.sqrt(-grid.curvature)
    points = np.array([[r * math.cos(a), r * math.sin(a)] for r, a in polar]).reshape(-1, 2) * scale
    clamped, moved = grid.clamp(points)
    assert moved == (clamped != points).any(axis=1).sum()
    assert (np.hypot(*clamped.T) <= grid.radius * (1 + 1e-15)).all()
    grid.encode(clamped)
    repeated, moved = grid.clamp(clamped)
    assert moved == 0
    np.testing.assert_array_equal(repeated, clamped)
    inside = np.hypot(*points.T) <= grid.radius
    np.testing.assert_array_equal(clamped[inside], points[inside])
    np.testing.assert_allclose(np.hypot(*clamped[~inside].T), grid.radius, rtol=1e-15)
    # On the same ray: no sine, a positive cosine.
    np.testing.assert_allclose(
        np.linalg.det(np.stack([clamped, points], axis=1)), 0, atol=1e-15 * scale**2
    )
    assert ((clamped * points).sum(axis=1) >= 0).all()


def test_float32_points_and_small_integer_bins_are_read_exactly():
    grid = PoincareQuantizer(1e-6, 0.9, -1.0)
    points = np.random.default_rng(0).uniform(-0.6, 0.6, (100, 2)).astype(np.float32)
    np.testing.assert_array_equal(grid.encode(points), grid.encode(points.astype(np.float64)))
    for dtype in (np.int8, np.uint8, np.int32, np.int64):
        np.testing.assert_array_equal(
            grid.decode(np.array([1, 100], dtype=dtype)), grid.decode([1, 100])
        )


@pytest.mark.parametrize(
    ("radius", "curvature"),
    [
        (0, -1.0),
        (-0.5, -1.0),
        (1, -1.0),
        (0.5, -4.0),
        (2, -1.0),
        (math.nan, -1.0),
        (math.inf, -1.0),
    ],
)
def test_the_radius_must_lie_in_the_disc(radius, curvature):
    with pytest.raises(ValueError, match=f"radius {radius}; it must be > 0 and < 1/√"):
        PoincareQuantizer(0.1, radius, curvature)


@pytest.mark.parametrize(
    ("epsilon", "radius", "reason"),
    [
        (1e-9, 0.9, "2\\^62 bins"),
        (2e-9, 0.6, "2\\^62 bins"),
        (1e-300, 0.5, "2\\^48 sectors"),
        (5e-324, 0.5, "2\\^48 sectors"),
        (1, 1 - 1e-15, "2\\^48 sectors"),
        (1e-3, 1 - 1e-12, "2\\^48 sectors"),
    ],
)
def test_too_many_bins(epsilon, radius, reason):
    with pytest.raises(ValueError, match=reason):
        PoincareQuantizer(epsilon, radius, -1.0)


def test_points_that_are_refused():
    grid = PoincareQuantizer(0.1, 0.5, -1.0)
    with pytest.raises(ValueError, match=r"2 of 3 points lie beyond the radius 0\.5"):
        grid.encode([[0.1, 0.1], [0.51, 0.0], [0.0, 7.0]])
    with pytest.raises(ValueError, match="1 of 2 points lie on or outside the boundary"):
        grid.clamp([[0.1, 0.1], [0.0, 1.0]])
    for call in (grid.encode, grid.clamp):
        with pytest.raises(ValueError, match="1 of 2 points are not finite"):
            call([[0.1, 0.1], [math.nan, 0.0]])
        with pytest.raises(ValueError, match=r"shape \(2, 3\); it must be \(n, 2\)"):
            call(np.zeros((2, 3)))


def test_bins_that_are_refused():
    grid = PoincareQuantizer(0.1, 0.5, -1.0)
    for wrong in (
        [0, 1],
        [-1, 1],
        [grid.num_bins + 1, 1],
        np.array([2**64 - 1, 1], dtype=np.uint64),
    ):
        with pytest.raises(ValueError, match=f"1 of 2 bins are not in 1..{grid.num_bins}"):
            grid.decode(wrong)
    for wrong in ([1.0], [[1]], ["1"], 1):
        with pytest.raises(ValueError, match="they must be \\(n,\\) integers"):
            grid.decode(wrong)
