"""The maps at the ends of what their docstrings promise, against mpmath, and beyond."""

import itertools
import math

import pytest
import torch
from exact_maps import exact_results
from hypothesis import given, settings
from hypothesis import strategies as st

from curvfed.geometry import lorentz, normal_coordinates, poincare
from curvfed.geometry.safe_math import max_radius

F64 = torch.float64
DTYPES = [torch.float32, F64]
both_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
curvatures = st.floats(-6, 4).map(lambda power: -(10.0**power))
TAKES = {"exp0": "v", "log0": "x", "exp": "xu", "log": "xy", "dist": "xy", "mobius_add": "xy"}
MAPS = [("lorentz", *entry) for entry in TAKES.items() if entry[0] != "mobius_add"]
MAPS += [("poincare", *entry) for entry in TAKES.items()]
every_map = pytest.mark.parametrize(("space", "name", "takes"), MAPS)


def directions(num, dim, seed):
    v = torch.randn(num, dim, generator=torch.Generator().manual_seed(seed), dtype=F64)
    return v / v.norm(dim=-1, keepdim=True)


def limit(space, dtype, curvature):
    """The largest radius of the docstrings' points, for which the oracle's 80 digits do."""
    if space == "lorentz":
        return min(max_radius(dtype) + min(math.log(-curvature) / 2, 0), 60.0)
    return 13.0 if dtype == torch.float32 else 33.0


def points(space, curvature, dtype, radii, seed):
    """Two points and tangent vectors, as the functions take them, rounded to a dtype."""
    module = poincare if space == "poincare" else lorentz
    scale = (0.5 if space == "poincare" else 1.0) / math.sqrt(-curvature)
    vectors = [radius * scale * directions(1, 3, seed + i) for i, radius in enumerate(radii)]
    x, y = (module.exp0(v, curvature).to(dtype) for v in vectors[:2])
    if space == "lorentz":
        x, y = lorentz.project(x, curvature), lorentz.project(y, curvature)
    drawn = {"x": x, "y": y, "v": vectors[0].to(dtype)}
    u = module.log(x.double(), module.exp0(vectors[2], curvature), curvature)
    return drawn | {"u": u.to(dtype)}


def compare(space, name, takes, dtype, curvature, radii, seed):
    drawn = points(space, curvature, dtype, radii, seed)
    arguments = [drawn[letter] for letter in takes]
    eps = torch.finfo(dtype).eps
    leaves = [argument.clone().requires_grad_() for argument in arguments]
    value = getattr(poincare if space == "poincare" else lorentz, name)(*leaves, curvature)
    for gradient in torch.autograd.grad(value.sum(), leaves):
        assert gradient.isfinite().all(), (curvature, radii)
    assert value.isfinite().all(), (curvature, radii)
    if name == "exp" and math.log(2 * math.cosh(radii[0])) + sum(radii[::2]) > limit(
        space, dtype, curvature
    ):
        return  # the step is cut off, or the end brought back
    (exact,) = exact_results(space, name, curvature, [argument.tolist() for argument in arguments])
    error, condition = exact.errors(value.detach().reshape(-1).tolist())
    kappa = max(1.0, 2e-16 * math.cosh(max(radii) / 2) ** 2 / eps) if space == "poincare" else 1.0
    # Rounding by the docstrings: 8 times eps, times what the arguments' own rounding does, and of
    # the point that is nearer.
    nearer = math.cosh(min(radii[:2])) if space == "lorentz" and len(takes) == 2 else 1.0
    assert error <= 16 * eps * kappa * (1 + sum(radii) + condition + nearer), (
        curvature,
        radii,
        error / eps,
        condition,
    )


def drawn(space, dtype, curvature):
    powers = st.floats(-12, math.log10(limit(space, dtype, curvature)))
    return st.tuples(*(powers.map(lambda power: 10.0**power) for _ in range(3)))


@both_dtypes
@every_map
@settings(max_examples=12)
@given(curvatures, st.data(), st.integers(0, 1000))
def test_against_mpmath(space, name, takes, dtype, curvature, data, seed):
    compare(space, name, takes, dtype, curvature, data.draw(drawn(space, dtype, curvature)), seed)


@pytest.mark.parametrize("radius", [31.7, 37.0, 39.0])
def test_exp_has_a_gradient_far_out(radius):
    # By 1/time² in float32 the gradient was NaN from r = 31.6 on.
    compare("lorentz", "exp", "xu", torch.float32, -1.0, (radius, 1.0, 1.0), 0)


@both_dtypes
@pytest.mark.parametrize("curvature", [-1e-6, -1.0, -1e4])
@pytest.mark.parametrize("name", ["log0", "log", "dist", "exp"])
def test_what_exp0_returns_every_function_takes(name, curvature, dtype):
    # At curvature −1e-6 points went out to coordinates whose squares float32 cannot hold.
    x = lorentz.exp0(1e30 * directions(1, 3, 0).to(dtype), curvature).requires_grad_()
    y = 1e18 * directions(1, 4, 1).to(dtype)
    y = y if name == "exp" else lorentz.exp0(y[:, 1:], curvature)
    value = getattr(lorentz, name)(*((x, y) if len(TAKES[name]) == 2 else (x,)), curvature)
    (gradient,) = torch.autograd.grad(value.sum(), x)
    assert value.isfinite().all()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("radius", [1e-12, 1e-9, 1e-7, 1e-5])
def test_exp0_of_short_vectors_in_a_small_ball(dtype, radius):
    # Its vectors were taken for longer ones up to √eps, whatever the curvature: 330·eps off at
    # curvature −1000.
    compare("poincare", "exp0", "v", dtype, -1000.0, (radius, 1.0, 1.0), 0)


@pytest.mark.long
@both_dtypes
@every_map
@settings(max_examples=600)
@given(curvatures, st.data(), st.integers(0, 1000))
def test_against_mpmath_long(space, name, takes, dtype, curvature, data, seed):
    compare(space, name, takes, dtype, curvature, data.draw(drawn(space, dtype, curvature)), seed)


ANY = {
    "lorentz.exp0": lambda v, w, c: lorentz.exp0(v, c),
    "lorentz.exp": lambda v, w, c: lorentz.exp(
        lorentz.exp0(w, c), torch.nn.functional.pad(v, (1, 0)), c
    ),
    "lorentz.normalize": lambda v, w, c: lorentz.normalize(v, c),
    "poincare.project": lambda v, w, c: poincare.project(v, c),
    "poincare.exp0": lambda v, w, c: poincare.exp0(v, c),
    "poincare.log0": lambda v, w, c: poincare.log0(v, c),
    "poincare.exp": lambda v, w, c: poincare.exp(w, v, c),
    "poincare.exp, outside": lambda v, w, c: poincare.exp(v, w, c),
    "poincare.log": lambda v, w, c: poincare.log(v, w, c),
    "poincare.log, the other way": lambda v, w, c: poincare.log(w, v, c),
    "poincare.dist": lambda v, w, c: poincare.dist(v, w, c),
    "poincare.mobius_add": lambda v, w, c: poincare.mobius_add(v, w, c),
    "poincare.mobius_add, the other way": lambda v, w, c: poincare.mobius_add(w, v, c),
    "poincare.cdist": lambda v, w, c: poincare.cdist(v, w, c),
    "normal_coordinates.cdist": lambda v, w, c: normal_coordinates.cdist(v, w, c),
}
any_vector = pytest.mark.parametrize("function", ANY.values(), ids=ANY.keys())


@both_dtypes
@any_vector
def test_vectors_of_norms_to_1e30(function, dtype):
    largest = 9.0 if function is ANY["lorentz.exp"] else 1e30
    highest = 16 if function is ANY["normal_coordinates.cdist"] and dtype == torch.float32 else 30
    powers = range(-30, highest + 1, 3)
    for curvature, norm, power in itertools.product((-1e-6, -1.0, -1e4), (0.0, largest), powers):
        w = (norm / math.sqrt(-curvature) * directions(1, 4, 2)).to(dtype)
        v = (10.0**power * directions(1, 4, 1)).to(dtype).requires_grad_()
        value = function(v, w.clamp(max=10.0**highest), curvature)
        (gradient,) = torch.autograd.grad(value.sum(), v)
        for tensor in (value, gradient):
            assert tensor.isfinite().all(), (curvature, norm, power)


@both_dtypes
@pytest.mark.parametrize("radius", [0.0, 10.0, 30.0])
@pytest.mark.parametrize("step", [1e6, 1e20, 1e30])
def test_a_step_stops_where_the_radii_add_up_to_the_largest(dtype, radius, step):
    x = lorentz.exp0(radius * directions(1, 3, 1).to(dtype), -1.0)
    y = lorentz.exp0(2.0 * directions(1, 3, 2).to(dtype), -1.0)
    v = lorentz.log(x, y, -1.0)
    reached = lorentz.exp(x, v * (step / v.norm()), -1.0)
    assert reached.isfinite().all()
    length = lorentz.log0(reached.double(), -1.0).norm().item()
    assert length <= max_radius(dtype)
    if not radius:
        assert length == pytest.approx(max_radius(dtype) - math.log(2), rel=1e-5)
