"""The Poincaré functions against 60 digits (mpmath), at the error bounds that the docstrings state,
against geoopt, and against the Lorentz model.

The oracle is the textbook's formulas. It reads the very numbers that the function gets, so that
what is measured is the error of the function alone.
"""

import math

import mpmath
import pytest
import torch
from digits import SPACES, direction, dot, exact, norm
from mpmath import mpf
from tiers import only

from curvfed.geometry import normal_coordinates, poincare

DTYPES = [torch.float32, torch.float64]
F64 = torch.float64
CURVATURES = [-1.0, -0.05, -1.5, -4.0]


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(60):
        yield


def minus(a, b):
    return [p - q for p, q in zip(a, b, strict=True)]


class Oracle:
    """The ball over lists of mpf."""

    def __init__(self, curvature):
        self.k = -mpf(curvature)
        self.R = 1 / mpmath.sqrt(self.k)

    def defect(self, x):
        return 1 - self.k * dot(x, x)

    def radius(self, x):
        return 2 * mpmath.atanh(norm(x) / self.R)

    def kappa(self, eps, *points):
        return max(1, mpf(2) ** -52 / eps / min(self.defect(x) for x in points))

    def within_limit(self, eps, *points):
        return all(norm(x) / self.R < 1 - 12 * eps for x in points)

    def add(self, x, y):
        xx, yy, xy = (self.k * dot(a, b) for a, b in ((x, x), (y, y), (x, y)))
        return [
            ((1 + 2 * xy + yy) * a + (1 - xx) * b) / (1 + 2 * xy + xx * yy)
            for a, b in zip(x, y, strict=True)
        ]

    def dist(self, x, y):
        apart = minus(x, y)
        return self.R * mpmath.acosh(
            1 + 2 * self.k * dot(apart, apart) / (self.defect(x) * self.defect(y))
        )

    def exp0(self, v):
        length = norm(v) / self.R
        return [mpmath.tanh(length) / length * value for value in v] if length else v

    def exp(self, x, v):
        return self.add(x, self.exp0([value / self.defect(x) for value in v]))

    def log(self, x, y):
        step = self.add([-value for value in x], y)
        length = norm(step) / self.R
        return [self.defect(x) * mpmath.atanh(length) / length * value for value in step]


def cases(dtype, radius, apart):
    """Pairs of points of `dtype`: the first at r = radius, the second `apart` from it, radially and
    sideways.

    `apart` None stands for the far pairs: another direction, the opposite one, and the origin.
    """
    generator = torch.Generator().manual_seed(0)
    for curvature, dim in SPACES:
        R = 1 / math.sqrt(-curvature)
        u = direction(dim, generator)
        base = R * math.tanh(radius / 2) * u
        if apart is None:
            ends = [R * math.tanh(radius / 2) * direction(dim, generator), -base, 0 * u]
        else:
            w = direction(dim, generator)
            sideways = w - (w @ u) * u if dim > 1 else w
            ends = [
                R * math.tanh((radius + apart) / 2) * u,
                R * math.tanh((radius - apart) / 2) * u,
                base + R * apart / (2 * math.cosh(radius / 2) ** 2) * sideways,
            ]
        for end in ends:
            x, y = (poincare.project(point.to(dtype), curvature) for point in (base, end))
            if not torch.equal(x, y):
                yield curvature, x, y


# In float32 numbers at radius 10 are 1e-3 apart, so there the near pairs are at 0.01.
REGIMES = [
    pytest.param(0.0, 1e-6, id="near-at-origin"),
    pytest.param(0.3, 1e-6, id="near"),
    pytest.param(1.0, 1e-3, id="middle"),
    pytest.param(2.0, 1.0, id="apart"),
    pytest.param(10.0, 1e-2, id="near-at-10"),
    pytest.param(10.0, 1.0, id="apart-at-10"),
    pytest.param(10.0, 9.0, id="radial-at-10"),
    pytest.param(12.0, 1.0, id="apart-at-12"),
    pytest.param(1e-6, None, id="across-1e-6"),
    pytest.param(2.0, None, id="across-2"),
    pytest.param(10.0, None, id="across-10"),
    pytest.param(13.8, None, id="across-the-float32-ball"),
]
both_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
all_regimes = pytest.mark.parametrize(("radius", "apart"), REGIMES)


@both_dtypes
@all_regimes
def test_dist_and_cdist(dtype, radius, apart):
    eps = torch.finfo(dtype).eps
    for curvature, x, y in cases(dtype, radius, apart):
        oracle, a, b = Oracle(curvature), exact(x), exact(y)
        expected = oracle.dist(a, b)
        bound = 8 * oracle.kappa(eps, a, b) * eps * expected
        for computed in (
            poincare.dist(x, y, curvature),
            poincare.cdist(x[None], y[None], curvature),
        ):
            assert abs(mpf(computed.item()) - expected) <= bound, (curvature, x, y)


@both_dtypes
@all_regimes
def test_log(dtype, radius, apart):
    eps = torch.finfo(dtype).eps
    for curvature, x, y in cases(dtype, radius, apart):
        oracle, a, b = Oracle(curvature), exact(x), exact(y)
        expected = oracle.log(a, b)
        error = norm(minus(exact(poincare.log(x, y, curvature)), expected))
        assert error <= 8 * oracle.kappa(eps, a, b) * eps * norm(expected), (curvature, x, y)


@both_dtypes
@all_regimes
def test_exp(dtype, radius, apart):
    eps = torch.finfo(dtype).eps
    for curvature, x, y in cases(dtype, radius, apart):
        v = poincare.log(x, y, curvature)
        oracle, a, step = Oracle(curvature), exact(x), exact(v)
        expected = oracle.exp(a, step)
        reached = exact(poincare.exp(x, v, curvature))
        if not oracle.within_limit(eps, expected, reached):
            assert oracle.radius(reached) > 2 * math.atanh(1 - 16 * eps) - 0.1
            continue
        n = 2 * norm(step) / (oracle.defect(a) * oracle.R)
        condition = mpmath.cosh(n) + mpmath.cosh(oracle.radius(expected))
        bound = 8 * oracle.kappa(eps, a, expected) * condition * eps * oracle.R
        assert oracle.dist(reached, expected) <= bound, (curvature, x, v)


@both_dtypes
@all_regimes
def test_mobius_add(dtype, radius, apart):
    eps = torch.finfo(dtype).eps
    compared = 0
    for curvature, x, y in cases(dtype, radius, apart):
        oracle, a, b = Oracle(curvature), exact(x), exact(y)
        for sign in (1, -1):
            expected = oracle.add([sign * value for value in a], b)
            if oracle.within_limit(eps, expected):
                error = norm(minus(exact(poincare.mobius_add(sign * x, y, curvature)), expected))
                bound = 8 * oracle.kappa(eps, a, b, expected) * eps * norm(expected)
                # x ⊕ −x is 0, for the oracle but for its own last digit.
                assert error <= bound + mpf(10) ** -50, (curvature, x, y)
                compared += 1
    assert compared


@both_dtypes
@pytest.mark.parametrize("radius", [1e-6, 1e-3, 0.5, 2.0, 10.0, 13.0])
def test_functions_of_one_point(dtype, radius):
    eps = torch.finfo(dtype).eps
    generator = torch.Generator().manual_seed(1)

    def assert_close(computed, factor, arguments, constant):
        for value, argument in zip(exact(computed), arguments, strict=True):
            assert abs(value - factor * argument) <= constant * eps * abs(factor * argument)

    for curvature, dim in [*SPACES, (-1.0, 1000)]:
        oracle = Oracle(curvature)
        v = (direction(dim, generator) * radius / 2 / math.sqrt(-curvature)).to(dtype)
        x = poincare.exp0(v, curvature)
        arguments = exact(v)
        length = norm(arguments) / oracle.R
        assert_close(x, mpmath.tanh(length) / length, arguments, 8)
        arguments = exact(x)
        length, kappa = norm(arguments) / oracle.R, oracle.kappa(eps, arguments)
        assert_close(
            poincare.log0(x, curvature), mpmath.atanh(length) / length, arguments, 8 * kappa
        )


FAR_APART = {0.0, 1e-6, 2.9, 3.0, 54.0, 1000.0}
"""Either side of the two places where the formula changes, and the ends."""


@both_dtypes
@pytest.mark.parametrize(
    "radius",
    only([0.0, 1e-6, 0.5, 2.9, 3.0, 10.0, 20.0, 54.0, 80.0, 160.0, 1000.0], FAR_APART.__contains__),
)
def test_distances_by_normal_coordinates(dtype, radius):
    eps = torch.finfo(dtype).eps
    generator = torch.Generator().manual_seed(6)
    with mpmath.workdps(100 + int(radius)):  # 1 − tanh²(radius/2) = 4·exp(−radius)
        for curvature in CURVATURES:
            oracle, R = Oracle(curvature), 1 / math.sqrt(-curvature)
            for dim in (1, 2, 20):
                u = direction(dim, generator)
                v = (R * radius / 2 * u).to(dtype)
                x = oracle.exp0(exact(v))
                far = 4.0 * direction(dim, generator)
                ends = (
                    torch.stack([0 * u, 1.5 * u, -1.5 * u, 1.5 * direction(dim, generator), far])
                    * R
                )
                ends = torch.cat([ends.to(dtype), v[None]])
                computed = normal_coordinates.cdist(v[None], ends, curvature)[0]
                assert computed[-1] == 0 or radius > 39
                for value, end in zip(exact(computed)[:-1], ends[:-1], strict=True):
                    y = oracle.exp0(exact(end))
                    expected = oracle.dist(x, y)
                    nearer = min(norm(x), norm(y))
                    cosh = (1 + (nearer / oracle.R) ** 2) / (1 - (nearer / oracle.R) ** 2)
                    bound = 8 * eps * (expected + cosh * oracle.R)
                    assert abs(value - expected) <= bound, (curvature, v, end)


@both_dtypes
@pytest.mark.parametrize("length", [1e-3, 0.7, 2.0, 5.0, 9.5, 30.0])
def test_gradient_by_normal_coordinates(dtype, length):
    w = torch.tensor([0.5, -0.3, 0.2], dtype=dtype)
    v = (length * torch.tensor([0.36, 0.48, -0.8], dtype=F64)).to(dtype).requires_grad_()
    (gradient,) = torch.autograd.grad(normal_coordinates.cdist(v[None], w[None], -1.0).sum(), v)
    arguments = exact(v.detach())
    with mpmath.workdps(120):
        oracle = Oracle(-1.0)
        point = oracle.exp0(exact(w))
        for i, computed in enumerate(exact(gradient)):
            order = tuple(int(i == j) for j in range(3))
            expected = mpmath.diff(
                lambda *w: oracle.dist(oracle.exp0(list(w)), point), tuple(arguments), order
            )
            # The gradient has norm 2 far out and up to 2 near the origin.
            assert abs(computed - expected) <= 64 * torch.finfo(dtype).eps
