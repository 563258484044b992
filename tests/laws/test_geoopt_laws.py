"""The laws that geoopt's own tests of its Lorentz and gyrovector functions check, of our functions
under geoopt's names.

Of its names those that we have, or that are made of ours: `expmap logmap dist mobius_add
mobius_scalar_mul geodesic geodesic_unit proju`. Its curvature of the ball is k, of the hyperboloid
−1/k. Parallel transport we have none.
"""

import itertools

import pytest
import torch

from curvfed.geometry import lorentz, poincare

F64 = torch.float64


class Ball:
    """geoopt's names for the ball of curvature k."""

    def __init__(self, k):
        self.curvature = self.k = k
        self.radius = (-k.detach()).rsqrt()

    def point(self, norms):
        return poincare.project(norms * self.radius.unsqueeze(-1), self.curvature)

    def expmap(self, x, u):
        return poincare.exp(x, u, self.curvature)

    def logmap(self, x, y):
        return poincare.log(x, y, self.curvature)

    def expmap0(self, u):
        return poincare.exp0(u, self.curvature)

    def logmap0(self, x):
        return poincare.log0(x, self.curvature)

    def dist(self, x, y):
        return poincare.dist(x, y, self.curvature)

    def norm(self, x, u):
        return 2 * u.norm(dim=-1) / (1 + self.curvature * x.square().sum(-1))

    def mobius_add(self, x, y):
        return poincare.mobius_add(x, y, self.curvature)

    def mobius_scalar_mul(self, r, x):
        return self.expmap0(r * self.logmap0(x))

    def origin(self, x):
        return torch.zeros_like(x)


class Hyperboloid(Ball):
    """geoopt's names for the hyperboloid of squared radius k."""

    def __init__(self, k):
        self.k, self.curvature, self.radius = k, -1 / k, k.detach().sqrt()

    def point(self, norms):
        return lorentz.lift(norms * self.radius.unsqueeze(-1), self.curvature)

    def expmap(self, x, u):
        return lorentz.exp(x, u, self.curvature)

    def logmap(self, x, y):
        return lorentz.log(x, y, self.curvature)

    def expmap0(self, u):
        return lorentz.exp0(u, self.curvature)

    def logmap0(self, x):
        return lorentz.log0(x, self.curvature)

    def dist(self, x, y):
        return lorentz.dist(x, y, self.curvature)

    def norm(self, x, u):
        return lorentz.inner(u, u).clamp(min=0).sqrt()

    def proju(self, x, u):
        """A vector less its part along x."""
        return u - self.curvature * lorentz.inner(x, u, keepdim=True) * x

    def origin(self, x):
        return lorentz.project(torch.zeros_like(x), self.curvature)


@pytest.fixture(params=[torch.float32, F64], ids=str)
def dtype(request):
    return request.param


@pytest.fixture(params=[0, 1, 2])
def seed(request):
    return request.param


@pytest.fixture(params=[Ball, Hyperboloid], ids=["ball", "hyperboloid"])
def space(request, seed, dtype):
    """Of one curvature, of a curvature per point, and of curvatures over many orders of
    magnitude.
    """
    generator = torch.Generator().manual_seed(seed)
    k = (
        torch.tensor(0.7),
        torch.rand(16, generator=generator) + 0.1,
        10.0 ** torch.linspace(-5, 1, 16),
    )[seed].to(dtype)
    return request.param((-k if request.param is Ball else k).requires_grad_())


def some(space, dtype, seed):
    """Points (16, 10) with norms below .9 of the radius."""
    generator = torch.Generator().manual_seed(seed)
    v = torch.randn(16, 10, generator=generator, dtype=F64)
    v = 0.9 * v / v.norm(dim=-1, keepdim=True) * torch.rand(16, 1, generator=generator, dtype=F64)
    return space.point(v.to(dtype)).detach().requires_grad_()


def assert_equal(space, found, expected, factor=1.0):
    """In units of the radius to a hundred roundings; and the gradients of both are finite."""
    unit = space.radius.unsqueeze(-1) if found.ndim > 1 else space.radius
    error = ((found - expected).detach() / unit).abs().max()
    assert error <= factor * 200 * torch.finfo(found.dtype).eps
    wanted = [space.k]
    for gradient in torch.autograd.grad(
        found.sum() + expected.sum(), wanted, allow_unused=True, retain_graph=True
    ):
        assert gradient is None or gradient.isfinite().all()


def test_exp_of_log(space, dtype, seed):
    a, b = some(space, dtype, seed), some(space, dtype, seed + 9)
    assert_equal(space, space.expmap(a, space.logmap(a, b)), b)
    assert_equal(space, space.expmap0(space.logmap0(a)), a)
    assert_equal(
        space,
        space.dist(space.origin(a), a),
        space.norm(space.origin(a), space.logmap(space.origin(a), a)),
    )


def test_log_at_the_origin_is_log0(space, dtype, seed):
    a = some(space, dtype, seed)
    found = space.logmap(space.origin(a), a)
    assert_equal(
        space, found[..., 1:] if isinstance(space, Hyperboloid) else found, space.logmap0(a)
    )


def test_segments_of_a_geodesic_are_of_one_length(space, dtype, seed):
    a, b = some(space, dtype, seed), some(space, dtype, seed + 9)
    line = [space.expmap(a, t / 12 * space.logmap(a, b)) for t in range(13)]
    assert_equal(space, line[0], a)
    assert_equal(space, line[12], b)
    for start, end in itertools.pairwise(line):
        assert_equal(space, space.dist(start, end), space.dist(a, b) / 12, 5)


def test_a_geodesic_of_unit_speed(space, dtype, seed):
    a, b = some(space, dtype, seed), some(space, dtype, seed + 9)
    u = space.logmap(a, b)
    u = u / space.norm(a, u).unsqueeze(-1) * space.radius.unsqueeze(-1)
    for t in (0.1, 0.5, 1.0):
        assert_equal(space, space.dist(a, space.expmap(a, t * u)), t * space.radius.expand(16), 5)


def test_a_vector_less_its_part_along_the_point_is_tangent(dtype, seed):
    space = Hyperboloid(torch.tensor(1.7, dtype=dtype, requires_grad=True))
    a, b = some(space, dtype, seed), some(space, dtype, seed + 9)
    assert_equal(space, lorentz.inner(a, space.proju(a, b)), torch.zeros(16, dtype=dtype))


@pytest.fixture
def ball(seed, dtype):
    return Ball((-torch.tensor([0.7, 1.0, 1e-4][seed], dtype=dtype)).requires_grad_())


def test_gyrogroup(ball, dtype, seed):
    a, b = some(ball, dtype, seed), some(ball, dtype, seed + 9)
    zero = torch.zeros_like(a)
    assert_equal(ball, ball.mobius_add(-a, ball.mobius_add(a, b)), b, 20)
    assert_equal(ball, ball.mobius_add(zero, b), b)
    assert_equal(ball, ball.mobius_add(a, zero), a)
    assert_equal(ball, ball.mobius_add(a, -a), zero)
    assert_equal(ball, ball.mobius_add(-b, -a), -ball.mobius_add(b, a), 0)


@pytest.mark.parametrize("n", range(5))
def test_sums_of_a_point_with_itself_are_multiples(ball, dtype, seed, n):
    a = some(ball, dtype, seed)
    total = torch.zeros_like(a)
    for _ in range(n):
        total = ball.mobius_add(a, total)
    assert_equal(ball, total, ball.mobius_scalar_mul(n, a), 5)


def test_multiples(ball, dtype, seed):
    a, (r, s) = some(ball, dtype, seed), (0.6, -0.35)
    sums = ball.mobius_add(ball.mobius_scalar_mul(r, a), ball.mobius_scalar_mul(s, a))
    assert_equal(ball, ball.mobius_scalar_mul(r + s, a), sums)
    assert_equal(
        ball,
        ball.mobius_scalar_mul(r * s, a),
        ball.mobius_scalar_mul(r, ball.mobius_scalar_mul(s, a)),
    )
    direction = ball.mobius_scalar_mul(r, a)
    unit = ball.radius
    assert_equal(
        ball,
        direction / direction.norm(dim=-1, keepdim=True) * unit,
        a / a.norm(dim=-1, keepdim=True) * unit,
    )


@pytest.mark.parametrize("power", [-15, -8, -1, 0])
def test_gradients_by_points_and_curvature_are_finite(dtype, power):
    for sign in (-1, 1):
        for space in (Ball(torch.tensor(-(10.0**power), dtype=dtype).requires_grad_()),):
            v = (sign * 10.0**power * torch.ones(10, dtype=dtype)).requires_grad_()
            for value in (space.expmap0(v), space.logmap0(v), poincare.project(v, space.curvature)):
                for gradient in torch.autograd.grad(value.sum(), (v, space.k), allow_unused=True):
                    assert gradient is None or gradient.isfinite().all()
