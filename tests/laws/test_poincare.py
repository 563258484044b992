"""Laws of the Poincaré ball, for many curvatures and dimensions, in float32 and float64.

Tolerances are the bounds of the docstrings, added up along the law. Where a law needs its own
arithmetic (norms of tangent vectors), that is done in float64.
"""

import itertools
import math

import pytest
import torch
from hyperbolic_worlds import DTYPES, F64, World, assert_below, law, radii, worlds
from hypothesis import given
from hypothesis import strategies as st

from curvfed.geometry import normal_coordinates, poincare


class PoincareWorld(World):
    """Its points and their conditions."""

    space = poincare
    stretch = 2

    def square(self, x):
        return -self.curvature * x.to(F64).square().sum(-1)

    def cosh(self, x):
        """cosh r of points."""
        return (1 + self.square(x)) / (1 - self.square(x))

    def sinh(self, x):
        return 2 * self.square(x).sqrt() / (1 - self.square(x))

    def kappa(self, *points):
        """The docstrings' factor: cosh²(r/2) of the farthest point for float64, else 1."""
        return (
            torch.stack([1 / (1 - self.square(x)) for x in points])
            .amax(0)
            .mul(2.0**-52 / self.eps)
            .clamp(min=1)
        )

    def length(self, x, v):
        """Riemannian norm of tangent vectors at x."""
        return 2 / (1 - self.square(x)) * v.to(F64).norm(dim=-1)


@law
@given(worlds(PoincareWorld), radii)
def test_log0_and_exp0_are_inverse(world, radius):
    v = world.vectors(20, radius)
    x = poincare.exp0(v, world.curvature)
    back = poincare.log0(x, world.curvature)
    # artanh stretches a relative error by sinh(r)/r, tanh shrinks it by as much.
    stretch = world.sinh(x) * world.R / (2 * v.to(F64).norm(dim=-1))
    assert_below(
        (back - v).abs(), (8 * (stretch + world.kappa(x)) * world.eps).unsqueeze(-1) * v.abs()
    )
    returned = poincare.exp0(back, world.curvature)
    assert_below((returned - x).abs(), 8 * (1 + world.kappa(x).unsqueeze(-1)) * world.eps * x.abs())


@law
@given(worlds(PoincareWorld), radii, radii)
def test_exp_and_log_are_inverse(world, x_radius, y_radius):
    x, y = world.points(20, x_radius), world.points(20, y_radius)
    v = poincare.log(x, y, world.curvature)
    n = world.length(x, v) / world.R
    reached = poincare.exp(x, v, world.curvature)
    # An error of v, relative to it, is carried along by sinh(n)/n.
    bound = 16 * world.kappa(x, y) * (n.cosh() + world.cosh(y)) * world.eps * world.R
    assert_below(poincare.dist(reached.to(F64), y.to(F64), world.curvature), bound)


@law
@given(worlds(PoincareWorld), radii)
def test_distance_is_a_metric(world, radius):
    x, y, z = world.points(20, radius), world.points(20, radius), world.points(20, radius)
    xy, yx, yz, xz = (
        poincare.dist(*pair, world.curvature) for pair in ((x, y), (y, x), (y, z), (x, z))
    )
    assert (xy > 0).all()
    assert torch.equal(xy, yx)
    assert torch.equal(poincare.dist(x, x, world.curvature), torch.zeros(20, dtype=world.dtype))
    bound = 8 * world.kappa(x, y, z) * world.eps * (xy + yz + xz).to(F64)
    assert_below(xz.to(F64) - xy.to(F64) - yz.to(F64), bound)


@law
@given(worlds(PoincareWorld), st.sampled_from([1e-6, 1e-2, 1.0, 3.0]))
def test_mobius_addition_is_a_gyrogroup(world, radius):
    x, y, z = world.points(20, radius), world.points(20, radius), world.points(20, radius)
    c, zero = world.curvature, torch.zeros_like(x)

    def add(a, b):
        return poincare.mobius_add(a, b, c)

    assert_below((add(zero, x) - x).abs(), 4 * world.eps * x.abs())
    assert_below((add(x, zero) - x).norm(dim=-1), 8 * world.kappa(x) * world.eps * x.norm(dim=-1))
    assert torch.equal(add(x, -x), zero)
    xy, yx, xz = add(x, y), add(y, x), add(x, z)
    kappa = world.kappa(x, y, z, xy, xz)
    # Not commutative, but for a rotation.
    assert_below(
        (xy.norm(dim=-1) - yx.norm(dim=-1)).abs(), 20 * kappa * world.eps * xy.norm(dim=-1)
    )
    # Left cancellation. An error of norm eps‖p‖ at p is one of eps·sinh(r) in distance.
    moved = 8 * kappa * (world.sinh(xy) + world.sinh(y)) * world.eps * world.R
    assert_below(poincare.dist(add(-x, xy), y, c), 2 * moved)
    # A translation is an isometry, and the distance is the radius of −x ⊕ y.
    distance = poincare.dist(y, z, c)
    moved = 16 * kappa * (world.sinh(xy) + world.sinh(xz)) * world.eps * world.R
    assert_below(
        (poincare.dist(xy, xz, c) - distance).abs(), moved + 16 * kappa * world.eps * distance
    )
    difference = add(-y, z)
    moved = 16 * kappa * world.sinh(difference) * world.eps * world.R
    assert_below(
        (poincare.dist(zero, difference, c) - distance).abs(),
        moved + 16 * kappa * world.eps * distance,
    )


@law
@given(worlds(PoincareWorld), radii)
def test_cdist_is_dist_of_all_pairs(world, radius):
    x, y = world.points(7, radius), world.points(5, radius)
    all_pairs = poincare.dist(x[:, None], y, world.curvature)
    matrix = poincare.cdist(x, y, world.curvature)
    kappa = torch.maximum(world.kappa(x)[:, None], world.kappa(y))
    assert_below((matrix - all_pairs).abs(), 16 * kappa * world.eps * all_pairs)
    same = poincare.cdist(x, x, world.curvature)
    assert torch.equal(same.diagonal(), torch.zeros(7, dtype=world.dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("curvature", [-1.0, -0.25, -1.7])
@pytest.mark.parametrize("dim", [1, 3, 1000])
def test_project_leaves_the_inside_and_brings_the_rest_back(dtype, curvature, dim):
    eps, R = torch.finfo(dtype).eps, 1 / math.sqrt(-curvature)
    u = torch.randn(50, dim, generator=torch.Generator().manual_seed(0), dtype=F64)
    u = u / u.norm(dim=-1, keepdim=True)
    inside = (u * (1 - 14 * eps) * R).to(dtype)
    assert torch.equal(poincare.project(inside, curvature), inside)
    for length in (1 - 8 * eps, 1.0, 1.5, 1e30):
        x = (u * length * R).to(dtype)
        y = poincare.project(x, curvature)
        assert torch.equal(poincare.project(y, curvature), y)
        assert_below((y.to(F64).norm(dim=-1) / R - (1 - 16 * eps)).abs(), 3 * eps)
        assert_below((y - x / length).abs(), 20 * eps * y.abs())
    assert torch.equal(poincare.project(0 * u, curvature), 0 * u)


@pytest.mark.parametrize(
    ("dtype", "limit"), [(torch.float32, 13.86), (torch.float64, 33.96)], ids=str
)
def test_exp0_stops_at_the_limit(dtype, limit):
    v = torch.tensor([[6.0, -8.0], [60.0, -80.0], [6e8, -8e8]], dtype=dtype) * (
        3 if dtype == F64 else 1
    )
    x = poincare.exp0(v, -0.25)
    direction = torch.tensor([0.6, -0.8], dtype=dtype)
    torch.testing.assert_close(
        x[1:] / 2, direction.expand(2, 2), rtol=20 * torch.finfo(dtype).eps, atol=0
    )
    radius = poincare.dist(x, 0 * x, -0.25) / 2
    assert radius.tolist() == pytest.approx(
        [10.0 if dtype == torch.float32 else 30.0, limit, limit], abs=0.1
    )
    # Normal coordinates see farther, without a limit.
    far = normal_coordinates.cdist(v, v[:1], -0.25)
    assert far[1:, 0].tolist() == pytest.approx(
        (2 * (v[1:].norm(dim=-1) - v[0].norm())).tolist(), rel=1e-2
    )


def per_set(curvature):
    """For `cdist` a curvature belongs to a set of points, for the other functions to a point."""
    return (
        curvature.unsqueeze(-1)
        if isinstance(curvature, torch.Tensor) and curvature.ndim
        else curvature
    )


CALLS = {
    "project": lambda x, v, c: poincare.project(x, c),
    "exp0": lambda x, v, c: poincare.exp0(v, c),
    "log0": lambda x, v, c: poincare.log0(x, c),
    "mobius_add": lambda x, v, c: poincare.mobius_add(x, poincare.exp0(v, c), c),
    "exp": lambda x, v, c: poincare.exp(x, v, c),
    "log": lambda x, v, c: poincare.log(x, poincare.exp0(v, c), c),
    "dist": lambda x, v, c: poincare.dist(x, poincare.exp0(v, c), c),
    "cdist": lambda x, v, c: poincare.cdist(x, poincare.exp0(v, per_set(c)), c),
    "normal": lambda x, v, c: normal_coordinates.cdist(v, x, c),
    "normal, the other way": lambda x, v, c: normal_coordinates.cdist(x, v, c),
    "normal, its own points": lambda x, v, c: normal_coordinates.cdist(
        v, 1.5 * v.roll(1, -2) + 0 * x, c
    ),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


def assert_value_and_gradient_are_finite(call, x, v, curvature):
    curvature = torch.tensor(curvature, dtype=x.dtype, requires_grad=True)
    x, v = x.requires_grad_(), v.requires_grad_()
    value = call(x, v, curvature)
    gradients = torch.autograd.grad(
        value.sum(), (x, v, curvature), allow_unused=True, materialize_grads=True
    )
    for tensor in (value, *gradients):
        assert tensor.isfinite().all(), (x, v)


@every_call
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_value_and_gradient_are_finite(call, dtype):
    start = torch.tensor([[0.6, 0.8, 0.0]], dtype=dtype)
    partners = (start, 0 * start, start * (1 + 1e-6), -start, start.roll(1, -1))
    radii = (0.0, 1e-30, 1e-12, 1e-6, 1.0, 10.0, 39.0, 80.0, 1000.0)
    for radius, partner in itertools.product(radii, partners):
        x = poincare.exp0(radius * start, -0.7)
        assert_value_and_gradient_are_finite(call, x, radius * partner, -0.7)
    for length in (1.0, 1.5, 1e6):  # no points of the ball
        x, v = torch.tensor([[[length, 0.0, 0.0]], [[0.0, 0.7, 0.0]]], dtype=dtype)
        assert_value_and_gradient_are_finite(call, x, v, -1.0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("radius", [0.0, 1e-12, 1e-6, 1e-3, 1.0, 10.0])
def test_gradient_of_the_distance_has_unit_length(dtype, radius):
    curvature, unit = -1.5, torch.tensor([0.3, -0.4, 1.2], dtype=dtype) / 1.3
    x = poincare.exp0(radius / 2 / math.sqrt(1.5) * unit.roll(1), curvature).requires_grad_()
    target = poincare.exp0(unit, curvature)
    all_pairs = poincare.cdist(x[None], target[None], curvature)[0, 0]
    for distance in (poincare.dist(x, target, curvature), all_pairs):
        (gradient,) = torch.autograd.grad(distance, x)
        square = 1.5 * x.detach().to(F64).square().sum()
        # It is against the logarithm, and 2/(1 − |c|‖x‖²) times as long as a vector of unit length.
        direction = poincare.log(x.detach().to(F64), target.to(F64), curvature)
        expected = -2 / (1 - square) * direction / direction.norm()
        error = (gradient.to(F64) - expected).norm() / expected.norm()
        assert error <= 64 * torch.finfo(dtype).eps * (1 / (1 - square) if dtype == F64 else 1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("radius", [0.0, 1e-6, 2.0])
def test_gradients_at_equal_points_and_of_no_step_are_identities(dtype, radius):
    x = poincare.exp0(radius / 2 * torch.tensor([0.6, 0.0, -0.8], dtype=dtype), -1.5)
    identity = torch.eye(3, dtype=dtype)
    log = torch.autograd.functional.jacobian(lambda y: poincare.log(x, y, -1.5), x)
    exp = torch.autograd.functional.jacobian(lambda v: poincare.exp(x, v, -1.5), 0 * x)
    for jacobian in (log, exp):
        torch.testing.assert_close(jacobian, identity, rtol=0, atol=16 * torch.finfo(dtype).eps)


@every_call
def test_no_points_give_no_values(call):
    for shape in ((0, 3), (2, 0, 3)):
        value = call(torch.zeros(shape), torch.zeros(shape), -1.0)
        assert value.numel() == 0
        assert value.shape[:-1] == shape[: value.ndim - 1]
