"""Laws of the Lorentz model, for many curvatures and dimensions, in float32 and float64.

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

from curvfed.geometry import lorentz
from curvfed.geometry.safe_math import max_radius


class LorentzWorld(World):
    """Its points and their conditions."""

    space = lorentz

    def cosh(self, x):
        """cosh r of points: the condition of most functions."""
        return (1 + (x[..., 1:].to(F64) / self.R).square().sum(-1)).sqrt()

    def tangent_norm(self, x, v):
        """Minkowski norm of tangent vectors at x, split so that nothing cancels."""
        space, v = x[..., 1:].to(F64), v[..., 1:].to(F64)
        unit = space / space.norm(dim=-1, keepdim=True).clamp(min=1e-300)
        along = (v * unit).sum(-1, keepdim=True)
        across = (v - along * unit).norm(dim=-1)
        return (across.square() + (along.squeeze(-1) / self.cosh(x)).square()).sqrt()


@law
@given(worlds(LorentzWorld), radii)
def test_exp0_is_on_the_manifold(world, radius):
    x = world.points(20, radius)
    K = world.R**2
    off = (lorentz.inner(x.to(F64), x.to(F64)) + K).abs() / K
    assert_below(off, 32 * (1 + radius) * world.eps * world.cosh(x) ** 2)
    assert (x[:, 0] > 0).all()


@law
@given(worlds(LorentzWorld), radii)
def test_log0_and_exp0_are_inverse(world, radius):
    v = world.vectors(20, radius)
    back = lorentz.log0(lorentz.exp0(v, world.curvature), world.curvature)
    # asinh shrinks a relative error; exp0 stretches it by at most 1 + r.
    assert_below((back - v).abs(), 8 * (2 + radius) * world.eps * v.abs())
    x = lorentz.exp0(v, world.curvature)
    returned = lorentz.exp0(lorentz.log0(x, world.curvature), world.curvature)
    assert_below((returned - x).abs(), 16 * (1 + radius) * world.eps * x.abs())


@law
@given(worlds(LorentzWorld), radii, radii)
def test_exp_and_log_are_inverse(world, x_radius, y_radius):
    x, y = world.points(20, x_radius), world.points(20, y_radius)
    v = lorentz.log(x, y, world.curvature)
    n = world.tangent_norm(x, v) / world.R
    bound = 16 * (1 + n) * world.cosh(x) * n.cosh() * world.eps * world.R
    reached = lorentz.exp(x, v, world.curvature)
    measured = lorentz.dist(reached.to(F64), y.to(F64), world.curvature)
    assert_below(measured, bound)
    # The way back: an error at y shrinks on the way to x, and reading `reached` in adds log's own.
    returned = lorentz.log(x, reached, world.curvature)
    assert_below(
        world.tangent_norm(x, returned - v), bound + 8 * world.cosh(x) * world.eps * n * world.R
    )


@law
@given(worlds(LorentzWorld), radii)
def test_distance_is_a_metric(world, radius):
    x, y, z = world.points(20, radius), world.points(20, radius), world.points(20, radius)

    def dist(a, b):
        value = lorentz.dist(a, b, world.curvature)
        bound = 8 * torch.minimum(world.cosh(a), world.cosh(b)) * world.eps * value
        return value.to(F64), bound

    (xy, xy_bound), (yx, _), (yz, yz_bound), (xz, xz_bound) = (
        dist(x, y),
        dist(y, x),
        dist(y, z),
        dist(x, z),
    )
    assert (xy > 0).all()
    assert torch.equal(dist(x, x)[0], torch.zeros(20, dtype=F64))
    assert_below((xy - yx).abs(), 2 * xy_bound)
    assert_below(xz - xy - yz, xy_bound + yz_bound + xz_bound)


@law
@given(worlds(LorentzWorld), radii)
def test_project_recomputes_the_time_and_is_idempotent(world, radius):
    x = world.points(20, radius)
    broken = torch.cat([torch.full_like(x[:, :1], math.nan), x[:, 1:]], dim=-1)
    mended = lorentz.project(broken, world.curvature)
    assert_below((mended - x).abs(), 16 * (1 + radius) * world.eps * x.abs())
    assert torch.equal(lorentz.project(mended, world.curvature), mended)
    assert torch.equal(lorentz.lift(x[:, 1:], world.curvature), mended)


@law
@given(worlds(LorentzWorld), st.sampled_from([1e-6, 1.0, 5.0]), st.integers(1, 8))
def test_centroid(world, radius, num):
    x = world.points(num, radius)
    weights = torch.rand(3, num, generator=world.generator, dtype=world.dtype) + 0.01
    center = lorentz.centroid(x, weights, world.curvature)
    assert center.shape == (3, world.dim + 1)
    condition = 2 * world.cosh(center).square() - 1
    K = world.R**2
    # On the manifold whatever rounding did to the sum.
    off = (lorentz.inner(center.to(F64), center.to(F64)) + K).abs() / K
    assert_below(off, 32 * world.eps * world.cosh(center) ** 2)
    # A vector of weights is a matrix of one row; the scale of the weights and the order of the
    # points are free.
    order = torch.randperm(num, generator=world.generator)
    tolerance = (16 * condition * world.eps * center[:, 0]).unsqueeze(-1)
    for alternative in (
        torch.stack([lorentz.centroid(x, row, world.curvature) for row in weights]),
        lorentz.centroid(x, weights * 1e-6, world.curvature),
        lorentz.centroid(x[order], weights[:, order], world.curvature),
    ):
        assert_below((alternative - center).abs(), tolerance)
    # Of one point, or of the same point many times, the point.
    same = lorentz.centroid(x[:1].expand(num, -1), weights[0], world.curvature)
    condition = 2 * world.cosh(x[0]).square() - 1
    assert_below((same - x[0]).abs(), 16 * condition * world.eps * x[0, 0])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("curvature", [-1.0, -0.3])
def test_a_sum_that_is_not_time_like_becomes_a_far_point_in_its_direction(dtype, curvature):
    sums = torch.tensor(
        [[1.0, 3.0, 4.0], [5.0, 3.0, 4.0], [0.0, 3.0, 4.0], [-1.0, 3.0, 4.0], [0.0, 0.0, 0.0]],
        dtype=dtype,
    ).requires_grad_()
    points = lorentz.normalize(sums, curvature)
    (gradient,) = torch.autograd.grad(points.sum(), sums)
    assert gradient.isfinite().all()
    radius = lorentz.log0(points, curvature).norm(dim=-1) * math.sqrt(-curvature)
    limit = -0.5 * math.log(torch.finfo(dtype).eps)
    tolerance = 16 * torch.finfo(dtype).eps * limit
    assert radius[:4].tolist() == pytest.approx(4 * [limit], rel=tolerance)
    direction = points[:4, 1:] / points[:4, 1:].norm(dim=-1, keepdim=True)
    torch.testing.assert_close(direction, torch.tensor([[0.6, 0.8]], dtype=dtype).expand(4, 2))
    assert points[4].tolist() == pytest.approx([1 / math.sqrt(-curvature), 0, 0], rel=tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_exp0_stops_at_the_largest_radius(dtype):
    v = torch.tensor([[6e3, -8e3], [6e8, -8e8]], dtype=dtype)
    x = lorentz.exp0(v, -0.25)
    radius = max_radius(dtype) - math.log(2)
    expected = 2 * radius * torch.tensor([[0.6, -0.8]], dtype=dtype).expand(2, 2)
    tolerance = 8 * (2 + max_radius(dtype)) * torch.finfo(dtype).eps
    torch.testing.assert_close(lorentz.log0(x, -0.25), expected, rtol=tolerance, atol=0)


CALLS = {
    "exp0": lambda x, v, c: lorentz.exp0(v[..., 1:], c),
    "log0": lambda x, v, c: lorentz.log0(x, c),
    "exp": lambda x, v, c: lorentz.exp(x, v, c),
    "log": lambda x, v, c: lorentz.log(x, lorentz.exp0(v[..., 1:], c), c),
    "dist": lambda x, v, c: lorentz.dist(x, lorentz.exp0(v[..., 1:], c), c),
    "project": lambda x, v, c: lorentz.project(x, c),
    "time_from_space": lambda x, v, c: lorentz.time_from_space(v[..., 1:], c),
    "normalize": lambda x, v, c: lorentz.normalize(x + v, c),
    "centroid": lambda x, v, c: lorentz.centroid(x, v[..., :1].T.abs() + 1, c),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


@every_call
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_value_and_gradient_are_finite(call, dtype):
    curvature = torch.tensor(-0.7, dtype=dtype, requires_grad=True)
    start = torch.tensor([[0.6, 0.8, 0.0]], dtype=dtype)
    partners = (start, 0 * start, start * (1 + 1e-6), -start, start.roll(1, -1))
    # exp adds the radii of its two arguments: half of the range is left to each.
    largest = max_radius(dtype) / 2 if call is CALLS["exp"] else 1000.0
    radii = (0.0, 1e-30, 1e-12, 1e-6, 1.0, 10.0, min(39.0, largest), largest)
    for radius, partner in itertools.product(radii, partners):
        v = torch.nn.functional.pad(radius * partner, (1, 0)).requires_grad_()
        x = lorentz.exp0(radius * start, curvature.detach()).requires_grad_()
        value = call(x, v, curvature)
        gradients = torch.autograd.grad(
            value.sum(), (x, v, curvature), allow_unused=True, materialize_grads=True
        )
        for tensor in (value, *gradients):
            assert tensor.isfinite().all(), (x, v)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradient_of_the_distance_has_unit_length(dtype):
    # Also at and near the origin, where forms in polar coordinates return 0 or noise, and for near
    # points.
    curvature = -1.5
    target = lorentz.exp0(torch.tensor([0.3, -0.4, 1.2], dtype=dtype), curvature)
    unit = torch.tensor([0.3, -0.4, 1.2], dtype=dtype) / 1.3
    tolerance = 32 * torch.finfo(dtype).eps
    for length in (0.0, 1e-12, 1e-6, 1e-3):
        space = (length * unit.roll(1)).requires_grad_()
        distance = lorentz.dist(lorentz.lift(space, curvature), target, curvature)
        (gradient,) = torch.autograd.grad(distance, space)
        # A step aside turns the direction to the target by less than twice its length.
        torch.testing.assert_close(gradient, -unit, rtol=0, atol=tolerance + 2 * length)
        # The metric on space coordinates x is I − x xᵀ/(K + |x|²), its inverse I + x xᵀ/K.
        square = gradient.square().sum() - curvature * (gradient @ space).square()
        assert square.item() == pytest.approx(1, abs=2 * tolerance)
    near = torch.zeros(3, dtype=dtype, requires_grad=True)
    tiny = lorentz.exp0(1e-6 * unit, curvature)
    (gradient,) = torch.autograd.grad(
        lorentz.dist(lorentz.lift(near, curvature), tiny, curvature), near
    )
    torch.testing.assert_close(gradient, -unit, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("radius", [0.0, 1e-6, 2.0])
def test_gradient_of_log_at_equal_points_is_the_identity(dtype, radius):
    space = radius * torch.tensor([0.6, 0.0, -0.8], dtype=dtype)
    x = lorentz.lift(space, -1.5)
    jacobian = torch.autograd.functional.jacobian(
        lambda y: lorentz.log(x, lorentz.lift(y, -1.5), -1.5)[1:], space
    )
    assert torch.equal(jacobian, torch.eye(3, dtype=dtype))


@pytest.mark.parametrize("name", ["exp", "log", "dist"])
def test_one_pair_of_points_for_many_curvatures_and_for_many_partners(name):
    generator = torch.Generator().manual_seed(0)
    curvature = torch.tensor([-0.3, -1.0, -2.0], requires_grad=True)
    x, v = torch.randn(4, generator=generator), torch.randn(3, 4, generator=generator)
    for first, second in ((x, v[0]), (x, v), (v, x)):
        first, second = first.clone().requires_grad_(), second.clone().requires_grad_()
        together = CALLS[name](first, second, curvature)
        gradients = torch.autograd.grad(together.sum(), (first, second, curvature))
        wide = [tensor.expand(3, 4).detach().clone().requires_grad_() for tensor in (first, second)]
        parts = torch.stack(
            [CALLS[name](*pair, c) for *pair, c in zip(*wide, curvature, strict=True)]
        )
        torch.testing.assert_close(together, parts)
        expected = torch.autograd.grad(parts.sum(), (*wide, curvature))
        for gradient, expected_gradient in zip(gradients, expected, strict=True):
            torch.testing.assert_close(
                gradient, expected_gradient.sum_to_size(gradient.shape), rtol=1e-5, atol=1e-5
            )


@pytest.mark.parametrize("name", ["exp", "log", "dist"])
@pytest.mark.parametrize("curvature", [-1.0, torch.tensor(-0.3)], ids=str)
def test_leading_dimensions_of_both_points_broadcast(name, curvature):
    generator = torch.Generator().manual_seed(0)
    x, v = torch.randn(5, 4, generator=generator), torch.randn(3, 4, generator=generator)
    table = torch.stack(
        [torch.stack([CALLS[name](point, vector, curvature) for vector in v]) for point in x]
    )
    torch.testing.assert_close(CALLS[name](x[:, None], v, curvature), table)
    torch.testing.assert_close(CALLS[name](x, v[:, None], curvature), table.transpose(0, 1))
    torch.testing.assert_close(CALLS[name](x, v[0], curvature), table[:, 0])
    torch.testing.assert_close(CALLS[name](x[0], v, curvature), table[0])


def test_inner_keeps_the_dimension_on_demand():
    x = torch.tensor([[2.0, 1.0, 1.0]])
    assert lorentz.inner(x, x).tolist() == [-2.0]
    assert lorentz.inner(x, x, keepdim=True).tolist() == [[-2.0]]
