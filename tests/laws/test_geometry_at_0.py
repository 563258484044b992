"""At curvature 0 the maps of the Poincaré ball and the distances of normal coordinates are those of
flat space with λ = 2, and what they return at small curvatures tends to it."""

import itertools
import math

import pytest
import torch
from hyperbolic_worlds import DTYPES, F64

from curvfed.geometry import normal_coordinates, poincare

FLAT = {
    "exp0": (lambda x, y, c: poincare.exp0(y, c), lambda x, y: y),
    "log0": (lambda x, y, c: poincare.log0(y, c), lambda x, y: y),
    "project": (lambda x, y, c: poincare.project(y, c), lambda x, y: y),
    "exp": (poincare.exp, lambda x, y: x + y),
    "log": (poincare.log, lambda x, y: y - x),
    "mobius_add": (poincare.mobius_add, lambda x, y: x + y),
    "dist": (poincare.dist, lambda x, y: 2 * (x - y).norm(dim=-1)),
    "cdist": (poincare.cdist, lambda x, y: 2 * (x[:, None] - y).norm(dim=-1)),
    "normal": (normal_coordinates.cdist, lambda x, y: 2 * (x[:, None] - y).norm(dim=-1)),
}
SETS = [FLAT["cdist"][0], FLAT["normal"][0]]
every_function = pytest.mark.parametrize(("curved", "flat"), FLAT.values(), ids=FLAT.keys())


def points(size, dtype=F64):
    generator = torch.Generator().manual_seed(0)
    x, y = size * torch.randn(2, 5, 3, generator=generator, dtype=F64)
    return x.to(dtype).requires_grad_(), y.to(dtype).requires_grad_()


def value_and_gradients(function, x, y):
    value = function(x, y)
    weights = torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).view_as(value)
    gradients = torch.autograd.grad(
        (weights * value).sum(), (x, y), allow_unused=True, materialize_grads=True
    )
    return value.detach(), *gradients


@every_function
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [1e-12, 1e-6, 1.0, 1e6])
def test_value_and_gradients_are_those_of_flat_space(curved, flat, dtype, size):
    x, y = points(size, dtype)
    eps = torch.finfo(dtype).eps
    expected = value_and_gradients(flat, x, y)
    for curvature in (0, -0.0, torch.zeros((), dtype=dtype)):
        results = value_and_gradients(lambda x, y, c=curvature: curved(x, y, c), x, y)
        for result, flat_result in zip(results, expected, strict=True):
            error = (result - flat_result).abs().max()
            assert error <= 16 * eps * flat_result.abs().max()


@every_function
def test_small_curvatures_tend_to_0_in_first_order(curved, flat):
    x, y = points(0.3)
    limits = value_and_gradients(lambda x, y: curved(x, y, 0), x, y)
    errors = []
    for curvature in (-1e-3, -1e-5):
        results = value_and_gradients(lambda x, y, c=curvature: curved(x, y, c), x, y)
        pairs = zip(results, limits, strict=True)
        errors.append([float((result - limit).abs().max()) for result, limit in pairs])
    for coarse, fine in zip(*errors, strict=True):
        assert fine <= 1e-4
        assert coarse < 1e-12 or math.log(coarse / fine, 100) == pytest.approx(1, abs=0.01)


@every_function
def test_a_tensor_may_hold_0_beside_other_curvatures(curved, flat):
    x, y = points(0.3)
    values = (-1.0, 0.0, -0.25)
    curvature = torch.tensor(values, dtype=F64, requires_grad=True)
    of_points = curvature if curved in SETS else curvature[:, None]
    together = curved(x.expand(3, 5, 3), y.expand(3, 5, 3), of_points)
    for result, value in zip(together, values, strict=True):
        torch.testing.assert_close(result, curved(x, y, value))
    (gradient,) = torch.autograd.grad(together.sum(), curvature, allow_unused=True)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("curvature", [0, torch.zeros(())])
def test_equal_points_have_distance_and_gradient_0(curvature):
    for cdist, dtype in itertools.product((poincare.cdist, normal_coordinates.cdist), DTYPES):
        x = torch.tensor([[0.3, -2.0]], dtype=dtype, requires_grad=True)
        distance = cdist(x, x.detach(), curvature)
        (gradient,) = torch.autograd.grad(distance.sum(), x)
        assert distance.item() == 0
        assert not gradient.any()
