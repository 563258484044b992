"""The Lorentz functions against 60 digits (mpmath), at the error bounds that the docstrings state,
and against geoopt.

The oracle reads the very numbers that the function gets (space coordinates; time follows from
them), so that what is measured is the error of the function alone.
"""

import math

import mpmath
import pytest
import torch
from digits import SPACES, direction, dot, exact
from mpmath import mpf

from curvfed.geometry import lorentz, safe_math

DTYPES = [torch.float32, torch.float64]
DIMS = [1, 2, 3, 16, 64]


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(60):
        yield


class Oracle:
    """Hyperbolic space over lists of mpf that hold space coordinates."""

    def __init__(self, curvature):
        self.K = 1 / mpf(-curvature)
        self.R = mpmath.sqrt(self.K)

    def time(self, x):
        return mpmath.sqrt(self.K + dot(x, x))

    def cosh_radius(self, x):
        return self.time(x) / self.R

    def dist(self, x, y):
        return self.R * mpmath.acosh(
            max(mpf(1), (self.time(x) * self.time(y) - dot(x, y)) / self.K)
        )

    def norm(self, x, v):
        return mpmath.sqrt(dot(v, v) - (dot(v, x) / self.time(x)) ** 2)

    def exp(self, x, v):
        n = self.norm(x, v) / self.R
        return [mpmath.cosh(n) * a + mpmath.sinh(n) / n * b for a, b in zip(x, v, strict=True)]

    def log(self, x, y):
        n = self.dist(x, y) / self.R
        return [n / mpmath.sinh(n) * (b - mpmath.cosh(n) * a) for a, b in zip(x, y, strict=True)]


def cases(dtype, radius, apart):
    """Pairs of points of `dtype`: the first at r = radius, the second `apart` from it, radially and
    sideways.

    `apart` None stands for the far pairs: another direction, the opposite one, and the origin.
    """
    generator = torch.Generator().manual_seed(0)
    for curvature, dim in SPACES:
        R = 1 / math.sqrt(-curvature)
        u = direction(dim, generator)
        base = torch.cat(
            [
                torch.full((1,), R * math.cosh(radius), dtype=torch.float64),
                R * math.sinh(radius) * u,
            ]
        )
        if apart is None:
            ends = [R * math.sinh(radius) * direction(dim, generator), -base[1:], 0 * u]
        else:
            w = direction(dim, generator)
            sideways = w - (w @ u) * u if dim > 1 else w
            ends = [
                R * math.sinh(radius + apart) * u,
                R * math.sinh(radius - apart) * u,
                base[1:] + R * apart * sideways,
            ]
        for end in ends:
            x, y = (lorentz.lift(space.to(dtype), curvature) for space in (base[1:], end))
            if not torch.equal(x, y):
                yield curvature, x, y


# Distance 1e-6 and radius 10 are the two regimes that the usual acosh form loses; in float32
# numbers at radius 10 are 1e-3 apart, so there the near pairs are at 0.01.
REGIMES = [
    pytest.param(0.0, 1e-6, id="near-at-origin"),
    pytest.param(0.3, 1e-6, id="near"),
    pytest.param(1.0, 1e-3, id="middle"),
    pytest.param(2.0, 1.0, id="apart"),
    pytest.param(10.0, 1e-2, id="near-at-10"),
    pytest.param(10.0, 1.0, id="apart-at-10"),
    pytest.param(10.0, 9.0, id="radial-at-10"),
    pytest.param(1e-6, None, id="across-1e-6"),
    pytest.param(2.0, None, id="across-2"),
    pytest.param(10.0, None, id="across-10"),
]
both_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
all_regimes = pytest.mark.parametrize(("radius", "apart"), REGIMES)


@both_dtypes
@all_regimes
def test_dist(dtype, radius, apart):
    for curvature, x, y in cases(dtype, radius, apart):
        oracle, a, b = Oracle(curvature), exact(x[1:]), exact(y[1:])
        expected = oracle.dist(a, b)
        bound = (
            8
            * min(oracle.cosh_radius(a), oracle.cosh_radius(b))
            * torch.finfo(dtype).eps
            * expected
        )
        assert abs(mpf(lorentz.dist(x, y, curvature).item()) - expected) <= bound, (curvature, x, y)


@both_dtypes
@all_regimes
def test_log(dtype, radius, apart):
    for curvature, x, y in cases(dtype, radius, apart):
        oracle, a, b = Oracle(curvature), exact(x[1:]), exact(y[1:])
        v = exact(lorentz.log(x, y, curvature)[1:])
        error = [p - q for p, q in zip(v, oracle.log(a, b), strict=True)]
        bound = 8 * oracle.cosh_radius(a) * torch.finfo(dtype).eps * oracle.dist(a, b)
        assert oracle.norm(a, error) <= bound, (curvature, x, y)


@both_dtypes
@all_regimes
def test_exp(dtype, radius, apart):
    for curvature, x, y in cases(dtype, radius, apart):
        v = lorentz.log(x, y, curvature)
        oracle, a, step = Oracle(curvature), exact(x[1:]), exact(v[1:])
        n = oracle.norm(a, step) / oracle.R
        error = oracle.dist(exact(lorentz.exp(x, v, curvature)[1:]), oracle.exp(a, step))
        bound = (
            8 * (1 + n) * oracle.cosh_radius(a) * mpmath.cosh(n) * torch.finfo(dtype).eps * oracle.R
        )
        assert error <= bound, (curvature, x, v)


@both_dtypes
@pytest.mark.parametrize("radius", [1e-6, 1e-3, 0.5, 2.0, 10.0, 39.0])
def test_exp0_log0_and_time(dtype, radius):
    eps = torch.finfo(dtype).eps
    generator = torch.Generator().manual_seed(1)
    for curvature, dim in [*SPACES, (-1.0, 1000)]:
        oracle = Oracle(curvature)
        stop = safe_math.max_radius(dtype) + min(math.log(-curvature) / 2, 0)
        v = (direction(dim, generator) * min(radius, stop - 1e-3) / math.sqrt(-curvature)).to(dtype)
        x = lorentz.exp0(v, curvature)
        w = exact(v)
        r = mpmath.sqrt(dot(w, w)) / oracle.R
        expected = [oracle.R * mpmath.cosh(r), *(mpmath.sinh(r) / r * value for value in w)]
        for computed, want in zip(exact(x), expected, strict=True):
            assert abs(computed - want) <= 8 * (1 + r) * eps * abs(want)
        space = exact(x[1:])
        time = lorentz.time_from_space(x[1:], curvature)
        assert abs(mpf(time.item()) - oracle.time(space)) <= 8 * eps * oracle.time(space)
        length = mpmath.sqrt(dot(space, space)) / oracle.R
        for computed, value in zip(exact(lorentz.log0(x, curvature)), space, strict=True):
            want = mpmath.asinh(length) / length * value
            assert abs(computed - want) <= 8 * eps * abs(want)


@both_dtypes
@pytest.mark.parametrize("radius", [1e-3, 1.0, 5.0])
@pytest.mark.parametrize("num", [1, 2, 50])
def test_centroid_and_normalize(dtype, radius, num):
    eps = torch.finfo(dtype).eps
    generator = torch.Generator().manual_seed(2)
    for curvature, dim in SPACES:
        oracle = Oracle(curvature)
        v = torch.randn(num, dim, generator=generator, dtype=torch.float64)
        v *= radius / math.sqrt(-curvature) / v.norm(dim=-1, keepdim=True)
        x = lorentz.exp0(v.to(dtype), curvature)
        weights = torch.rand(num, generator=generator, dtype=dtype) + 0.01
        points, w = [exact(point) for point in x], exact(weights)
        total = [dot(w, coordinate) for coordinate in zip(*points, strict=True)]
        square = total[0] ** 2 - dot(total[1:], total[1:])
        expected = [oracle.R * value / mpmath.sqrt(square) for value in total]
        cosh_2r = 2 * total[0] ** 2 / square - 1
        for computed, want in zip(
            exact(lorentz.centroid(x, weights, curvature)), expected, strict=True
        ):
            assert abs(computed - want) <= 8 * cosh_2r * eps * expected[0]
        # One time-like vector, whatever its scale.
        vector = x[0] * 7
        original = exact(vector)
        square = original[0] ** 2 - dot(original[1:], original[1:])
        cosh_2r = 2 * original[0] ** 2 / square - 1
        for computed, value in zip(
            exact(lorentz.normalize(vector, curvature)), original, strict=True
        ):
            want = oracle.R * value / mpmath.sqrt(square)
            assert abs(computed - want) <= 8 * cosh_2r * eps * abs(want)


@both_dtypes
def test_inner(dtype):
    generator = torch.Generator().manual_seed(3)
    for dim in DIMS:
        x, y = torch.randn(2, dim + 1, generator=generator, dtype=dtype)
        a, b = exact(x), exact(y)
        bound = (
            (dim + 2)
            * torch.finfo(dtype).eps
            * mpmath.fsum(abs(p * q) for p, q in zip(a, b, strict=True))
        )
        assert abs(mpf(lorentz.inner(x, y).item()) - (dot(a[1:], b[1:]) - a[0] * b[0])) <= bound


@both_dtypes
def test_safe_math(dtype):
    eps = torch.finfo(dtype).eps
    x = torch.logspace(-12, math.log10(39), 200, dtype=torch.float64).to(dtype)
    arc = exact(safe_math.asinh_root(x.square()))
    for i, value in enumerate(exact(x.square())):
        if value > torch.finfo(dtype).tiny:
            assert abs(arc[i] / mpmath.asinh(mpmath.sqrt(value)) - 1) <= 4 * eps
    ratio, cosh = map(exact, safe_math.sinhc_cosh(x.double().square(), 40.0))
    big = x.sinh()  # arguments up to sinh(39)
    for i, value in enumerate(exact(x)):
        assert abs(ratio[i] * value / mpmath.sinh(value) - 1) <= (3 + value) * eps
        assert abs(cosh[i] / mpmath.cosh(value) - 1) <= (3 + value) * eps
    asinhc, asinh = exact(safe_math.asinhc(big)), exact(safe_math.asinh(big))
    (slope,) = torch.autograd.grad(safe_math.asinh(big.requires_grad_()).sum(), big)
    big = big.detach()
    forward, back = map(exact, safe_math.arc_factors(big))
    for i, value in enumerate(exact(big)):
        assert abs(asinhc[i] * value / mpmath.asinh(value) - 1) <= 4 * eps
        assert abs(asinh[i] / mpmath.asinh(value) - 1) <= 3 * eps
        assert abs(exact(slope)[i] * mpmath.sqrt(1 + value**2) - 1) <= 4 * eps
        half = mpmath.asinh(mpmath.sqrt(value))
        assert abs(forward[i] * mpmath.sinh(2 * half) / (2 * half) - 1) <= 6 * eps
        assert abs(back[i] / (2 * half * mpmath.tanh(half)) - 1) <= 6 * eps
