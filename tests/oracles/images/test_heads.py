"""Heads against formulas in 50 digits, their starts, and models by names and seeds."""

import math
from dataclasses import replace

import geoopt
import mpmath
import pytest
import torch
from curvature_limits import SIZES, orders, values
from mpmath import mpf
from torch import nn

from curvfed.geometry import normal_coordinates, prototypes
from curvfed.geometry.frames import Geodesic
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.training import make_optimizer
from curvfed.tasks.heads import HEADS, HeadSpec, PrototypeHead, head_start, make_head, unit
from curvfed.tasks.images.models import ImageModelSpec, head_spec
from curvfed.tasks.images.nets import NETS

DTYPES = [torch.float32, torch.float64]
both_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])


def given_head(spec, dtype=torch.float32, seed=3):
    head = make_head(spec)
    head.load_state_dict(head_start(spec, seed))
    return head.to(dtype)


def features(lengths, dim, dtype, seed=1):
    """A direction of its own for each length."""
    generator = torch.Generator().manual_seed(seed)
    directions = nn.functional.normalize(
        torch.randn(len(lengths), dim, generator=generator, dtype=torch.float64)
    )
    return (directions * torch.tensor(lengths, dtype=torch.float64)[:, None]).to(dtype)


def exact_distance(z, w):
    """HyperFed's Eqs. 6 and 1, as printed, in the working precision of mpmath."""
    z, w = [mpf(value) for value in z.tolist()], [mpf(value) for value in w.tolist()]
    norm = mpmath.sqrt(mpmath.fsum(value**2 for value in z))
    x = [mpmath.tanh(norm) * value / norm for value in z] if norm else z
    apart, xx, ww = (
        mpmath.fsum(v**2 for v in values) for values in ([a - b for a, b in zip(x, w)], x, w)
    )
    return mpmath.acosh(1 + 2 * apart / ((1 - xx) * (1 - ww)))


@both_dtypes
@pytest.mark.parametrize("normalize", [True, False])
def test_sphere_head(dtype, normalize):
    spec = HeadSpec("sphere", 4, 7, start="orthonormal", normalize=normalize, scale=20.0)
    head, z = given_head(spec, dtype), features([1e-15, 1e-3, 1.0, 1e15], 7, dtype)
    inputs = z.double() / z.double().norm(dim=1, keepdim=True) if normalize else z.double()
    expected = 20 * inputs @ head.weight.double().T
    error = (head(z).double() - expected).norm(dim=1) / (20 * inputs.norm(dim=1))
    assert error.max() <= 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(
        head.inputs(z).double(), inputs, rtol=4 * torch.finfo(dtype).eps, atol=0
    )


@both_dtypes
def test_unit_features_at_the_edges(dtype):
    tiny = torch.finfo(dtype).tiny
    z = torch.zeros(5, 3, dtype=dtype)
    z[1:, 0] = torch.tensor(
        [tiny, 10 * tiny**0.5, 1.0, torch.finfo(dtype).max ** 0.49], dtype=dtype
    )
    z.requires_grad_()
    units = unit(z)
    assert units[:2].norm(dim=1).max() <= tiny**0.5  # nothing to divide by
    torch.testing.assert_close(units[2:].norm(dim=1), torch.ones(3, dtype=dtype))
    (gradient,) = torch.autograd.grad(units.sum(), z)
    assert gradient.isfinite().all()
    assert not gradient[0].any()
    # Across the vector the derivative is 1/‖z‖, along it 0.
    torch.testing.assert_close(gradient[3], torch.tensor([0.0, 1.0, 1.0], dtype=dtype))


def test_logits_of_a_poincare_head_are_distances_to_five_parts_in_a_million():
    spec = HeadSpec("prototypes", 10, 20, fixed=True, start="uniform")
    head = given_head(spec)
    z = torch.cat(
        [
            features([0.0, 1e-4, 0.3, 1.0, 3.0, 6.0, 10.0], 20, torch.float32),
            10 * head.weight[:2] / 0.9,
        ]
    )
    with mpmath.workdps(50), torch.no_grad():
        for row, feature in zip(head(z), z):
            for logit, prototype in zip(row, head.prototypes):
                assert abs(mpf(float(logit)) + exact_distance(feature, prototype)) <= 5e-6


@both_dtypes
@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "trained"])
def test_gradients_of_a_poincare_head_are_finite_at_the_origin_and_far_out(dtype, fixed):
    head = given_head(HeadSpec("prototypes", 10, 20, fixed=fixed, start="uniform"), dtype)
    z = torch.cat(
        [
            features([0.0, 80.0, 1000.0], 20, dtype),
            torch.atanh(torch.tensor(0.9)) * head.weight[:1].detach(),
        ]
    )
    z.requires_grad_()
    head(z).sum().backward()
    assert z.grad.isfinite().all()
    # Far out all distances grow as 2‖z‖ does.
    along = nn.functional.normalize(z.detach())
    torch.testing.assert_close(
        (along * z.grad).sum(dim=1)[1:3], torch.full((2,), -20.0, dtype=dtype)
    )
    if not fixed:
        assert head.weight.grad.isfinite().all()
        assert head.weight.grad.any()


@both_dtypes
def test_prototypes_at_curvature_0_are_the_limit_of_curved_ones(dtype):
    spec = HeadSpec("prototypes", 10, 20, fixed=True, start="uniform")
    weight = given_head(spec, dtype).weight
    flat = given_head(replace(spec, curvature=0.0), dtype)
    torch.testing.assert_close(flat.weight, weight, rtol=0, atol=0)
    z = torch.cat([features([0.0, 1e-4, 0.3, 3.0, 100.0], 20, dtype), weight[:1].detach()])
    z.requires_grad_()
    limit = normal_coordinates.cdist(z.detach().double(), weight.double(), -1e-9)
    torch.testing.assert_close(flat(z).double(), -limit, rtol=1e-5, atol=0)
    classes = torch.tensor([[0, 3]] * len(z))
    torch.testing.assert_close(flat.distances(z, classes), -flat(z).gather(1, classes))
    flat(z).sum().backward()
    assert z.grad.isfinite().all()


def test_a_trained_poincare_head_starts_from_the_same_points_as_a_fixed_one():
    spec = HeadSpec("prototypes", 10, 20, start="uniform", slope=0.8)
    trained, fixed = given_head(spec), given_head(replace(spec, fixed=True))
    assert torch.equal(trained.prototypes, fixed.prototypes)
    torch.testing.assert_close(trained.prototypes.norm(dim=1), torch.full((10,), 0.8))
    assert trained.weight.requires_grad
    assert not any(parameter.requires_grad for parameter in fixed.parameters())


@pytest.mark.parametrize("curvature", [-1.0, -0.4])
def test_geodesic_steps_are_those_of_geoopt(curvature):
    """At 4 times the rate: the metric is a quarter of the ball's."""
    rate = 0.02
    generator = torch.Generator().manual_seed(0)
    start = 0.8 * torch.randn(5, 3, generator=generator, dtype=torch.float64)
    start[0] = 1e-12
    features = torch.randn(7, 3, generator=generator, dtype=torch.float64)
    head = PrototypeHead(HeadSpec("prototypes", 5, 3, curvature=curvature, geodesic=True)).double()
    with torch.no_grad():
        head.weight.copy_(start)
    keys = RunKeys(optimizer="sgd", learning_rate=rate, momentum=0.0, weight_decay=0.0)
    ours = make_optimizer({"weight": head.weight}, keys)
    ball = geoopt.PoincareBallExact(c=torch.tensor(-curvature, dtype=torch.float64))
    points = geoopt.ManifoldParameter(ball.expmap0(start), manifold=ball)
    theirs = geoopt.optim.RiemannianSGD([points], lr=4 * rate)
    images = ball.expmap0(features)
    for _ in range(5):
        ours.zero_grad()
        head(features).square().sum().backward()
        ours.step()
        theirs.zero_grad()
        ball.dist(images[:, None], points[None]).square().sum().backward()
        theirs.step()
    moved = ball.expmap0(head.weight.detach())
    torch.testing.assert_close(moved, points.detach(), rtol=1e-9, atol=1e-9)
    assert (moved - ball.expmap0(start)).abs().min() > 1e-4


def test_geodesic_steps_tend_to_flat_ones():
    errors = []
    rows = values(4, 3)
    gradient = values(4, 3, seed=1)
    for size in SIZES:
        chart = Geodesic(-size)
        moved = chart.move(rows, -0.1 * chart.gradient(rows, gradient))
        errors.append(float((moved - (rows - 0.1 * gradient)).norm()))
    assert errors[-1] < 1e-5
    assert all(0.9 < order < 1.1 for order in orders(errors)[1:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_geodesic_gradients_are_finite_at_the_origin_and_far_out(dtype):
    rows = torch.tensor([[0.0, 0], [1e-30, 0], [30, 40]], dtype=dtype)
    chart = Geodesic()
    steps = chart.gradient(rows, torch.ones(3, 2, dtype=dtype))
    assert steps.isfinite().all()
    torch.testing.assert_close(steps[:2], torch.full((2, 2), 2.0, dtype=dtype))
    assert chart.move(rows, -steps).isfinite().all()


def test_starts():
    weight = head_start(HeadSpec("sphere", 10, 20, fixed=True, start="orthonormal"), 5)["weight"]
    torch.testing.assert_close(weight @ weight.T, torch.eye(10), rtol=0, atol=1e-6)
    crowded = head_start(HeadSpec("sphere", 10, 5, fixed=True, start="orthonormal"), 5)["weight"]
    torch.testing.assert_close(crowded, prototypes.uniform(10, 5, 5).float())
    spread = head_start(HeadSpec("prototypes", 10, 20, fixed=True, start="uniform", slope=0.7), 5)[
        "weight"
    ]
    torch.testing.assert_close(spread, math.atanh(0.7) * prototypes.uniform(10, 20, 5).float())
    flat = head_start(HeadSpec("linear", 10, 20, start="uniform"), 5)
    torch.testing.assert_close(flat["weight"], prototypes.uniform(10, 20, 5).float())
    assert not flat["bias"].any()


def test_the_default_start_has_the_distribution_of_torchs_linear():
    start = head_start(HeadSpec("linear", 400, 100), 0)
    torch.manual_seed(0)
    linear = nn.Linear(100, 400)
    for name, parameter in linear.named_parameters():
        weights, expected = start[name], parameter.detach()
        assert weights.shape == expected.shape
        assert weights.abs().max() <= 0.1
        # Quantiles of uniform samples stray by at most 2/√n in 999 of 1000 cases.
        levels = torch.linspace(0, 1, 21)
        assert (
            weights.flatten().quantile(levels) - expected.flatten().quantile(levels)
        ).abs().max() <= 0.4 / weights.numel() ** 0.5
    assert head_start(HeadSpec("sphere", 3, 4), 0).keys() == {"weight"}


@pytest.mark.parametrize("kind", HEADS)
def test_every_start_fits_its_head_and_depends_on_the_seed(kind):
    for start in ("orthonormal", "uniform", *(["default"] if kind != "prototypes" else [])):
        spec = HeadSpec(kind, 5, 6, fixed=True, start=start)
        head, first, repeated, reseeded = (
            make_head(spec),
            head_start(spec, 1),
            head_start(spec, 1),
            head_start(spec, 2),
        )
        assert not any(parameter.any() for parameter in head.parameters())
        head.load_state_dict(first)
        assert all(tensor.dtype == torch.float32 for tensor in first.values())
        assert all(torch.equal(first[name], repeated[name]) for name in first)
        assert not torch.equal(first["weight"], reseeded["weight"])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"dim": 1}, "embedding-dim 1 has room for 2 prototypes, and there are 3 classes"),
        (
            {"num_classes": 2001},
            "2001 classes; the search for prototypes in 2 dimensions allows up to 2000",
        ),
        (
            {"kind": "sphere", "start": "orthonormal", "num_classes": 2001, "dim": 512},
            "2001 classes",
        ),
    ],
)
def test_bad_heads_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        HeadSpec(**{"kind": "prototypes", "num_classes": 3, "dim": 2, "start": "uniform"} | bad)


SPEC = ImageModelSpec(kind="cnn", shape=(1, 12, 12), norm="none", embedding_dim=5, num_classes=3)
SHARED_HEAD = {"head": "prototypes", "start": "uniform"}


@pytest.mark.parametrize("embedding_dim", [0, 5])
@pytest.mark.parametrize("kind", ["cnn", "convnet"])
def test_a_model_is_its_body_and_its_head(kind, embedding_dim):
    spec = replace(SPEC, kind=kind, norm="group", shape=(3, 16, 16), embedding_dim=embedding_dim)
    model = spec.build(0)
    images = torch.randn(4, 3, 16, 16)
    width = embedding_dim or NETS[kind]((3, 16, 16), "group")[1]
    assert head_spec(spec) == HeadSpec("linear", 3, width)
    assert model.features(images).shape == (4, width)
    torch.testing.assert_close(model(images), model.head(model.body(images)))
    assert {name.split(".")[0] for name in model.state_dict()} == {"body", "head"}
    assert model.head.weight.shape == (3, width)


def test_equal_seeds_give_equal_models_and_leave_the_generator_alone():
    torch.manual_seed(9)
    before = torch.random.get_rng_state()
    first, repeated, reseeded = (SPEC.build(seed).state_dict() for seed in (4, 4, 5))
    head_spec(replace(SPEC, embedding_dim=0, shape=(1, 14, 14)))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(first[name], repeated[name]) for name in first)
    assert not any(torch.equal(first[name], reseeded[name]) for name in first)


def test_the_head_of_a_model():
    trained = replace(SPEC, **SHARED_HEAD).build(4)
    assert torch.equal(
        trained.head.weight, head_start(head_spec(replace(SPEC, **SHARED_HEAD)), 4)["weight"]
    )
    fixed = replace(SPEC, **SHARED_HEAD, fixed=True).build(4)
    assert not fixed.head.weight.any()
    assert [
        name for name, parameter in fixed.named_parameters() if not parameter.requires_grad
    ] == ["head.weight"]
    # The body does not depend on what head there is.
    assert all(
        torch.equal(value, fixed.body.state_dict()[name])
        for name, value in trained.body.state_dict().items()
    )


def test_mixed_precision_is_that_of_the_body_in_training():
    model = replace(SPEC, head="sphere", start="orthonormal").build(0)
    images = torch.randn(8, 1, 12, 12)
    exact = model.features(images)
    model.mixed_precision = True
    rounded = model.features(images)
    assert rounded.dtype == torch.float32
    assert not torch.equal(rounded, exact)
    torch.testing.assert_close(rounded, exact, rtol=0.05, atol=0.05)
    torch.testing.assert_close(model(images), model.head(rounded), rtol=0, atol=0)
    assert torch.equal(model.eval().features(images), exact)
