"""The κ-stereographic model against mpmath at the bounds of the docstrings, against geoopt and the
Poincaré ball, and through κ = 0."""

import math

import geoopt.manifolds.stereographic.math as geoopt_ball
import mpmath
import pytest
import torch
from digits import dot, exact, norm
from mpmath import mpf
from torch.autograd import gradcheck, gradgradcheck

from curvfed.geometry import poincare, stereographic

F64 = torch.float64
EPS64 = 2.0**-52
CURVATURES = [-4.0, -1.0, -1e-3, -1e-10, 0.0, 1e-10, 1e-3, 1.0, 4.0]
dtypes = pytest.mark.parametrize("dtype", [torch.float32, F64], ids=str)
curvatures = pytest.mark.parametrize("curvature", CURVATURES)


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(40):
        yield


def vectors(curvature, dtype=F64, num=8, seed=1):
    """Of lengths up to 1.4, with √|κ| times the length below π/2; the first is 0."""
    generator = torch.Generator().manual_seed(seed)
    unit = torch.nn.functional.normalize(torch.randn(num, 3, generator=generator, dtype=F64))
    lengths = torch.linspace(0, 1.4, num, dtype=F64)[:, None]
    return (unit * lengths / max(1.0, math.sqrt(abs(curvature)))).to(dtype)


def points(curvature, dtype=F64, seed=1):
    return stereographic.exp0(vectors(curvature, dtype, seed=seed), curvature)


def tan_k(r, k):
    return mpmath.re(mpmath.tan(mpmath.sqrt(k) * r) / mpmath.sqrt(k)) if k else r


def arctan_k(r, k):
    return mpmath.re(mpmath.atan(mpmath.sqrt(k) * r) / mpmath.sqrt(k)) if k else r


def add(x, y, k):
    xy, xx, yy = dot(x, y), dot(x, x), dot(y, y)
    below = 1 - 2 * k * xy + k**2 * xx * yy
    return [
        ((1 - 2 * k * xy - k * yy) * p + (1 + k * xx) * q) / below
        for p, q in zip(x, y, strict=True)
    ]


def along(v, length):
    return [length / norm(v) * p if norm(v) else mpf(0) for p in v]


def error(found, expected):
    """Of the norm, relative to that of the expected vector."""
    apart = norm([p - q for p, q in zip(exact(found), expected, strict=True)])
    return float(apart / norm(expected)) if norm(expected) else float(apart)


@dtypes
@curvatures
def test_the_maps_against_mpmath(curvature, dtype):
    k, eps = mpf(curvature), torch.finfo(dtype).eps
    v = vectors(curvature, dtype)
    x, y = points(curvature, dtype), points(curvature, dtype, seed=2).flip(0)
    maps = zip(
        v,
        x,
        y,
        stereographic.exp0(v, curvature),
        stereographic.log0(x, curvature),
        stereographic.mobius_add(x, y, curvature),
        stereographic.dist(x, y, curvature),
        strict=True,
    )
    for start, one, other, reached, back, total, apart in maps:
        a, b = exact(one), exact(other)
        defect = float(min(1 + k * dot(p, p) for p in (a, b)))
        kappa = max(1.0, EPS64 / eps / defect)
        r = norm(exact(start))
        t = tan_k(r, k)
        lost = float((1 + k * t * t) * r / t) if r else 1.0
        assert error(reached, along(exact(start), t)) <= 8 * eps + 8 * EPS64 * lost
        assert error(back, along(a, arctan_k(norm(a), k))) <= 8 * kappa * eps
        moved = add([-p for p in a], b, k)
        half = arctan_k(norm(moved), k)
        stretch = math.tan(math.sqrt(curvature) * half) if curvature > 0 else 0.0
        assert error(apart[None], [2 * half]) <= 8 * kappa * eps + 8 * EPS64 * stretch
        expected = add(a, b, k)
        cosine = mpmath.sqrt(max(0, 1 / (1 + k * dot(expected, expected)))) if k > 0 else 1
        assert error(total, expected) <= 8 * kappa * eps / float(cosine)


@curvatures
def test_the_midpoint_against_mpmath_and_geoopt(curvature):
    k, x = mpf(curvature), points(curvature)
    weights = torch.rand(8, generator=torch.Generator().manual_seed(0), dtype=F64)
    found = stereographic.midpoint(x, weights, curvature)
    factors = [2 / (1 + k * dot(p, p)) for p in map(exact, x)]
    numbers = exact(weights)
    below = mpmath.fsum(w * (f - 1) for w, f in zip(numbers, factors, strict=True))
    doubled = [
        mpmath.fsum(w * f * p[i] for w, f, p in zip(numbers, factors, map(exact, x), strict=True))
        / below
        for i in range(3)
    ]
    expected = along(doubled, tan_k(arctan_k(norm(doubled), k) / 2, k))
    assert error(found, expected) <= 1e-13
    if curvature != 1e-10:  # where geoopt's is wrong
        theirs = geoopt_ball.weighted_midpoint(x, weights, k=torch.tensor(curvature, dtype=F64))
        torch.testing.assert_close(found, theirs, rtol=1e-9, atol=1e-12)


@curvatures
def test_geoopt_agrees(curvature):
    k = torch.tensor(curvature, dtype=F64)
    v, x, y = vectors(curvature), points(curvature), points(curvature, seed=2)
    pairs = [
        (stereographic.exp0(v, k), geoopt_ball.expmap0(v, k=k)),
        (stereographic.log0(x, k), geoopt_ball.logmap0(x, k=k)),
        (stereographic.mobius_add(x, y, k), geoopt_ball.mobius_add(x, y, k=k)),
        (stereographic.dist(x, y, k), geoopt_ball.dist(x, y, k=k)),
    ]
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


@dtypes
def test_a_negative_curvature_is_the_poincare_ball(dtype):
    v, x, y = vectors(-1.7, dtype), points(-1.7, dtype), points(-1.7, dtype, seed=2)
    close = {"rtol": 32 * torch.finfo(dtype).eps, "atol": 0.0}
    assert torch.equal(stereographic.mobius_add(x, y, -1.7), poincare.mobius_add(x, y, -1.7))
    assert torch.equal(stereographic.project(3 * x, -1.7), poincare.project(3 * x, -1.7))
    torch.testing.assert_close(stereographic.exp0(v, -1.7), poincare.exp0(v, -1.7), **close)
    torch.testing.assert_close(stereographic.log0(x, -1.7), poincare.log0(x, -1.7), **close)
    torch.testing.assert_close(stereographic.dist(x, y, -1.7), poincare.dist(x, y, -1.7), **close)


def tangents(v, k):
    return stereographic.log0_of_sum(stereographic.position0(v, k).cumsum(0), k)


SMOOTH = {
    "exp0": lambda v, w, k: stereographic.exp0(v, k),
    "log0": lambda v, w, k: stereographic.log0(v, k),
    "mobius_add": stereographic.mobius_add,
    "dist": stereographic.dist,
    "midpoint": lambda v, w, k: stereographic.midpoint(v, w[..., 0].square() + 0.1, k),
    "sums of position vectors": lambda v, w, k: tangents(v, k),
}


@pytest.mark.parametrize("function", SMOOTH.values(), ids=SMOOTH.keys())
def test_two_derivatives_through_zero(function):
    v, w = vectors(1.0, num=3)[1:, :2] / 2, vectors(1.0, num=3, seed=2)[:-1, :2] / 2
    for curvature in (-0.8, 0.0, 0.8):
        k = torch.tensor(curvature, dtype=F64)
        given = tuple(tensor.clone().requires_grad_() for tensor in (v, w, k))
        assert gradcheck(function, given)
        assert gradgradcheck(function, given)

    def slopes(curvature):
        k = torch.tensor(curvature, dtype=F64, requires_grad=True)
        value = function(v, w, k).sum()
        (first,) = torch.autograd.grad(value, k, create_graph=True)
        second = torch.autograd.grad(first, k)[0] if first.requires_grad else torch.zeros(())
        return [number.item() for number in (value, first, second)]

    # the branches meet, and both limits are those at 0
    for edge in (0.0, 0.01 / v.square().sum(-1).max().item(), -0.04 / w.square().sum(-1)[1].item()):
        below, above = slopes(edge - 1e-9), slopes(edge + 1e-9)
        assert below == pytest.approx(above, rel=1e-7, abs=1e-7)


def test_the_first_derivative_in_kappa_at_zero():
    """tan_κ(r) = r + κr³/3 + …, and its inverse r − κr³/3 + …."""
    k = torch.tensor(0.0, dtype=F64, requires_grad=True)
    v = vectors(1.0)
    cubes = (v * v.square().sum(-1, keepdim=True)).sum().item()
    for function, slope in ((stereographic.exp0, cubes / 3), (stereographic.log0, -cubes / 3)):
        (found,) = torch.autograd.grad(function(v, k).sum(), k)
        assert found.item() == pytest.approx(slope, rel=1e-14)


@dtypes
@curvatures
def test_edges(curvature, dtype):
    """The origin, equal points, antipodes and the way around a sphere, the boundary of a ball, and
    vectors of any length have finite values and gradients."""
    k = torch.tensor(curvature, dtype=F64, requires_grad=True)
    x = points(curvature, dtype)
    origin = torch.zeros_like(x)
    far = torch.tensor([[10.0**power, 0.0, 0.0] for power in range(-8, 9, 2)], dtype=dtype)
    size = abs(curvature) or 1.0
    antipode = -x / (size * x.square().sum(-1, keepdim=True)).clamp(min=1e-30)
    quarter = math.pi / 2 / math.sqrt(size) * far.new_tensor([[1.0, 0.0, 0.0]])
    for v in (origin, far, quarter, x):
        pairs = [(v, v), (v, -v), (v, torch.zeros_like(v))]
        pairs += [(x, antipode)] if v is x else []
        for one, other in pairs:
            one = one.clone().requires_grad_()
            values = [
                stereographic.exp0(one, k),
                stereographic.log0(stereographic.project(one, k), k),
                stereographic.mobius_add(stereographic.project(one, k), other, k),
                stereographic.dist(stereographic.project(one, k), other, k),
                stereographic.log0_of_sum(stereographic.position0(one, k), k),
            ]
            for number, value in enumerate(values):
                gradients = torch.autograd.grad(value.sum(), (one, k), retain_graph=True)
                for tensor in (value, *gradients):
                    assert tensor.isfinite().all(), (number, one, other)
    assert torch.equal(stereographic.dist(x, x, k), torch.zeros(8, dtype=dtype))
    if curvature > 0:
        half_circle = math.pi / math.sqrt(curvature)
        found = stereographic.dist(x[1:], antipode[1:], k).detach().double()
        assert found.tolist() == pytest.approx([half_circle] * 7, rel=2e-7)
        around = stereographic.position0(x[1:] * (1 + half_circle / x[1:].norm(dim=-1))[:, None], k)
        atol = 64 * torch.finfo(dtype).eps / math.sqrt(size)
        torch.testing.assert_close(around, stereographic.position0(x[1:], k), rtol=0, atol=atol)


def test_a_midpoint_beyond_the_equator():
    """Where the usual formula divides by 0 or turns around."""
    angle = torch.linspace(0, math.pi, 7, dtype=F64)[1:-1]
    v = torch.stack([angle / 2, 0 * angle], dim=-1)
    x = stereographic.exp0(v.unsqueeze(-2).repeat(1, 2, 1), 1.0)
    found = stereographic.midpoint(x, torch.ones(5, 2, dtype=F64), 1.0)
    torch.testing.assert_close(found, x[:, 0])


@pytest.mark.parametrize("wrong", [math.inf, math.nan, "1", torch.tensor(1)])
def test_a_curvature_that_is_no_finite_number_is_refused(wrong):
    with pytest.raises((TypeError, ValueError), match=r"^curvature: got"):
        stereographic.log0(torch.zeros(2), wrong)
