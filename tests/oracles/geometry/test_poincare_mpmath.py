"""The Poincaré functions against 60 digits (mpmath), at the error bounds that the docstrings state,
against geoopt, and against the Lorentz model.

The oracle is the textbook's formulas. It reads the very numbers that the function gets, so that
what is measured is the error of the function alone.
"""

import math

import geoopt.manifolds.stereographic.math as geoopt_ball
import mpmath
import pytest
import torch
from digits import SPACES, direction, dot, exact, norm
from mpmath import mpf
from tiers import only

from curvfed.geometry import lorentz, normal_coordinates, poincare

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


@pytest.mark.parametrize(("dim", "num"), [(2, 25), (20, 25), (1000, 8)])
def test_float32_distance_to_five_parts_in_a_million_up_to_radius_10(dim, num):
    generator = torch.Generator().manual_seed(5)
    for curvature in CURVATURES:
        oracle, R = Oracle(curvature), 1 / math.sqrt(-curvature)
        u = torch.stack([direction(dim, generator) for _ in range(num)])
        x = (R * torch.linspace(0, 5, num, dtype=F64).tanh().unsqueeze(-1) * u).to(torch.float32)
        matrix = poincare.cdist(x, x, curvature)
        row_by_row = poincare.dist(x[:, None], x, curvature)
        points = [exact(point) for point in x]
        for i in range(num):
            for j in range(i):
                expected = oracle.dist(points[i], points[j])
                for value in (matrix[i, j], matrix[j, i], row_by_row[i, j]):
                    assert (
                        abs(mpf(value.item()) / expected - 1)
                        <= 8 * torch.finfo(torch.float32).eps
                        < 5e-6
                    )


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
    with mpmath.workdps(1000):  # 1 − tanh²(500) = 1e-434
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


def test_float32_distance_of_features_from_prototypes_to_five_parts_in_a_million():
    # Features as a network gives them, prototypes of norm 0.9.
    generator = torch.Generator().manual_seed(7)
    prototypes = torch.stack([1.472 * direction(20, generator) for _ in range(10)]).to(
        torch.float32
    )
    features = torch.stack([direction(20, generator) for _ in range(30)])
    features = (features * torch.linspace(0, 80, 30, dtype=F64).unsqueeze(-1)).to(torch.float32)
    computed = normal_coordinates.cdist(features, prototypes, -1.0)
    with mpmath.workdps(200):
        oracle = Oracle(-1.0)
        for row, feature in zip(computed, features, strict=True):
            x = oracle.exp0(exact(feature))
            for value, prototype in zip(exact(row), prototypes, strict=True):
                assert abs(value / oracle.dist(x, oracle.exp0(exact(prototype))) - 1) <= 5e-6


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


@pytest.mark.parametrize("curvature", [-0.3, -1.0, -2.5])
def test_geoopt_agrees_in_float64(curvature):
    # The tolerance is for geoopt, which computes 1 − |c|‖x‖² of intermediate points.
    generator = torch.Generator().manual_seed(4)
    k = torch.tensor(curvature, dtype=F64)
    v = torch.randn(2, 200, 6, generator=generator, dtype=F64) * 0.25 / math.sqrt(-curvature)
    x, y = poincare.exp0(v, curvature)
    condition = torch.cosh(4 * v.norm(dim=-1).max() * math.sqrt(-curvature)).item() ** 2
    close = dict.fromkeys(("rtol", "atol"), 64 * condition * torch.finfo(F64).eps)
    torch.testing.assert_close(x, geoopt_ball.expmap0(v[0], k=k), **close)
    torch.testing.assert_close(poincare.log0(x, curvature), geoopt_ball.logmap0(x, k=k), **close)
    torch.testing.assert_close(
        poincare.mobius_add(x, y, curvature), geoopt_ball.mobius_add(x, y, k=k), **close
    )
    torch.testing.assert_close(poincare.dist(x, y, curvature), geoopt_ball.dist(x, y, k=k), **close)
    tangent = poincare.log(x, y, curvature)
    torch.testing.assert_close(tangent, geoopt_ball.logmap(x, y, k=k), **close)
    torch.testing.assert_close(
        poincare.exp(x, tangent, curvature), geoopt_ball.expmap(x, tangent, k=k), **close
    )


@pytest.mark.parametrize("curvature", [-0.3, -1.0, -2.5])
@pytest.mark.parametrize("radius", [1e-3, 1.0, 5.0])
def test_the_lorentz_model_is_the_same_space(curvature, radius):
    generator = torch.Generator().manual_seed(8)
    R = 1 / math.sqrt(-curvature)
    v = torch.randn(2, 200, 5, generator=generator, dtype=F64)
    v = (
        v
        / v.norm(dim=-1, keepdim=True)
        * torch.rand(2, 200, 1, generator=generator, dtype=F64)
        * radius
        * R
    )

    def ball(point):
        """Stereographic projection from (−R, 0)."""
        return point[..., 1:] / (1 + point[..., :1] / R)

    # A tangent vector at the origin is twice as long in the ball's coordinates.
    x, y = poincare.exp0(v / 2, curvature)
    a, b = lorentz.exp0(v, curvature)
    eps = torch.finfo(F64).eps
    torch.testing.assert_close(x, ball(a), rtol=32 * (1 + radius) * eps, atol=0)
    # Coordinates rounded at radius r say eps·sinh(r) of the point.
    moved = 64 * math.cosh(radius) * eps
    distance = lorentz.dist(a, b, curvature)
    torch.testing.assert_close(
        poincare.dist(x, y, curvature), distance, rtol=moved, atol=moved * R * math.tanh(radius)
    )
    torch.testing.assert_close(
        normal_coordinates.cdist(v[0] / 2, v[1] / 2, curvature).diagonal(),
        distance,
        rtol=moved,
        atol=moved,
    )
    # The same geodesic, and beyond its end.
    for share in (0.5, 1.2):
        expected = ball(lorentz.exp(a, share * lorentz.log(a, b, curvature), curvature))
        reached = poincare.exp(x, share * poincare.log(x, y, curvature), curvature)
        torch.testing.assert_close(
            reached, expected, rtol=0, atol=moved * math.cosh(2.4 * radius) * R
        )
