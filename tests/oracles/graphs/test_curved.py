"""The curvature of a network: how k sets it, what an estimator adds, and what a curvature can do to
a Lorentz network."""

import math
from dataclasses import replace
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import torch
from graph_fixtures import graph_of
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from curvfed.strategies.base.optimizer import Adam
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.model_spec import ModelSpec
from curvfed.tasks.graphs.ricci import (
    CURVATURE_MAPS,
    ESTIMATOR_WIDTH,
    NUM_STATISTICS,
    REACH,
    CurvedNet,
    graph_statistics,
    start_of_fit,
)
from curvfed.tasks.graphs.sparse import Constant

NODES, FEATURES, CLASSES = 12, 6, 3
SPEC = ModelSpec(
    "nodes", "lorentz", FEATURES, CLASSES, width=5, dropout=0.0, gate=True, curvature=None
)
ABOUT = pytest.mark.parametrize("task", ["nodes", "graphs"])
RANGES = {
    "sigmoid": (0.5, 1.5),
    "exp": (math.exp(-3), math.exp(3)),
    "wide": (math.exp(-6), math.exp(6)),
}


def radius(name: str, k: float, dtype: torch.dtype = torch.float64) -> Tensor:
    return CURVATURE_MAPS[name].radius(torch.tensor(k, dtype=dtype))


def exact(name: str, k: float) -> mpmath.mpf:
    with mpmath.workdps(40):
        if name == "sigmoid":
            return 1 / (1 + mpmath.exp(-mpmath.mpf(k))) + mpmath.mpf(1) / 2
        size, speed = {"exp": (3, 10), "wide": (6, 5)}[name]
        return mpmath.exp(size * mpmath.tanh(speed * mpmath.mpf(k)))


def log_slope(name: str, k: float, dtype: torch.dtype = torch.float64) -> float:
    """d log K / dk."""
    parameter = torch.tensor(k, dtype=dtype, requires_grad=True)
    (slope,) = torch.autograd.grad(CURVATURE_MAPS[name].radius(parameter).log(), parameter)
    return slope.item()


def test_there_are_three_maps():
    assert CURVATURE_MAPS.keys() == RANGES.keys()


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("curvature", [-1e6, -30.0, -1.2, -1.0, -0.8, -0.1, -1e-3, 0.0])
def test_a_fitted_curvature_is_the_start_or_the_nearest_that_can_move(name, curvature):
    chosen = CURVATURE_MAPS[name]
    k = start_of_fit(curvature, chosen)
    farthest = REACH * chosen.deviation
    if abs(k) < farthest:
        assert -1 / radius(name, k).item() == pytest.approx(curvature, rel=1e-9)
    else:
        end = -1 / radius(name, k).item()
        assert abs(k) == farthest
        assert (end < curvature) == (k > 0) == (curvature > -1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", RANGES)
def test_nought_is_exactly_curvature_minus_one(name, dtype):
    assert radius(name, 0.0, dtype).item() == 1


@pytest.mark.parametrize("name", RANGES)
@given(st.floats(-60, 60, allow_subnormal=False))
def test_maps_are_their_formulas(name, k):
    assert radius(name, k).item() == pytest.approx(float(exact(name, k)), rel=1e-14)


@pytest.mark.parametrize("name", RANGES)
def test_maps_increase_within_their_range(name):
    reach = {"sigmoid": 12.0, "exp": 0.9, "wide": 1.6}[
        name
    ]  # beyond, float64 ends before the range does
    values = [radius(name, k).item() for k in np.linspace(-reach, reach, 401)]
    low, high = RANGES[name]
    assert all(first < second for first, second in pairwise(values))
    assert low < values[0] < low * 1.001
    assert high * 0.999 < values[-1] < high
    for dtype in (torch.float32, torch.float64):
        for k in (-1e30, 1e30):
            end = radius(name, k, dtype).item()
            assert end == pytest.approx(low if k < 0 else high, rel=1e-6)


@pytest.mark.parametrize("name", RANGES)
def test_a_deviation_makes_a_start_that_differs_and_can_still_move(name):
    """One standard deviation changes K by a fifth or more; at four, as far as a start goes, K still
    has a slope."""
    deviation = CURVATURE_MAPS[name].deviation
    assert abs(math.log(radius(name, deviation))) > 0.2
    assert abs(math.log(radius(name, -deviation))) > 0.2
    assert log_slope(name, 4 * deviation, torch.float32) * deviation > 0.01
    assert log_slope(name, -4 * deviation, torch.float32) * deviation > 0.01


@given(st.floats(-50, 50))
def test_the_sigmoid_has_little_slope_anywhere(k):
    """s(1 - s)/(s + 1/2) is at most 2 - √3, where s = (√3 - 1)/2."""
    assert log_slope("sigmoid", k) <= 2 - math.sqrt(3) + 1e-12


@given(st.floats(-0.1, 0.1))
def test_the_exponential_has_a_hundredfold_of_it_over_most_of_its_range(k):
    """30 sech²(10 k), which is 12.6 and more while log K is within ±2.28."""
    assert log_slope("exp", k) >= 30 / math.cosh(1) ** 2 - 1e-12
    assert log_slope("exp", 0.0) > 100 * (2 - math.sqrt(3))


def test_steps_of_one_length_move_the_exponential_far_and_the_sigmoid_hardly():
    """Adam's first steps are as long as the learning rate, whatever the gradient."""
    moved = {}
    for name, chosen in CURVATURE_MAPS.items():
        k = nn.Parameter(torch.tensor(0.0))
        optimizer = Adam({"k": k}, learning_rate=0.01, weight_decay=0.0, undecayed=["k"])
        for _ in range(10):
            optimizer.zero_grad()
            chosen.radius(k).log().neg().backward()
            optimizer.step()
        moved[name] = chosen.radius(k).log().item()
    assert moved["exp"] > 2
    assert 0 < moved["sigmoid"] < 0.05


def spec_of(task: str, **changes: object) -> ModelSpec:
    return replace(SPEC, task=task, **changes)


def net_of(spec: ModelSpec, seed: int = 0) -> CurvedNet:
    model = spec.build(seed)
    assert isinstance(model, CurvedNet)
    return model


@ABOUT
@pytest.mark.parametrize("name", RANGES)
def test_a_fresh_estimator_adds_exactly_nothing(task, name):
    model = net_of(spec_of(task, estimates_curvature=True, curvature_map=name))
    for statistics in (torch.zeros(NUM_STATISTICS), torch.tensor([3.0, -7.0, 1.5, 2.9])):
        with torch.no_grad():
            model.estimator.statistics.copy_(statistics)
        assert model.estimator().item() == 0
        assert model.curvature.item() == -1


@ABOUT
def test_an_estimator_changes_no_other_start(task):
    without = net_of(spec_of(task), seed=5).state_dict()
    with_one = net_of(spec_of(task, estimates_curvature=True), seed=5).state_dict()
    added = {
        name: tuple(parameter.shape) for name, parameter in with_one.items() if name not in without
    }
    assert added == {
        "estimator.statistics": (NUM_STATISTICS,),
        "estimator.hidden.weight": (ESTIMATOR_WIDTH, NUM_STATISTICS),
        "estimator.hidden.bias": (ESTIMATOR_WIDTH,),
        "estimator.out": (ESTIMATOR_WIDTH,),
    }
    assert all(torch.equal(with_one[name], parameter) for name, parameter in without.items())


@ABOUT
def test_what_an_estimator_adds_is_its_formula_and_learns(task):
    model = net_of(spec_of(task, estimates_curvature=True, curvature_map="exp")).double()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        model.k.fill_(0.02)
        for parameter in model.estimator.parameters():
            parameter.copy_(
                0.1 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            )
    p = {name: parameter.detach().numpy() for name, parameter in model.estimator.named_parameters()}
    added = np.mean(p["out"] * np.tanh(p["hidden.weight"] @ p["statistics"] + p["hidden.bias"]))
    assert abs(added) > 1e-3
    assert model.estimator().item() == pytest.approx(added, rel=1e-13)
    assert model.curvature.item() == pytest.approx(
        -math.exp(-3 * math.tanh(10 * (0.02 + added))), rel=1e-13
    )
    model.curvature.backward()
    moved = {
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is not None and parameter.grad.any()
    }
    assert moved == {"estimator.hidden.weight", "estimator.hidden.bias", "estimator.out", "k"}


@pytest.mark.parametrize(
    ("num_nodes", "pairs", "curvature", "plain", "degree"),
    [
        # a triangle with a tail
        (4, [(0, 1), (0, 2), (1, 2), (2, 3)], (3 + 2 + 2 + 0) / 4, (0 - 1 - 1 + 0) / 4, 2),
        (5, [(0, leaf) for leaf in range(1, 5)], -1, -1, 8 / 5),  # a star: 4 - 4 - 1
        (3, [], 0, 0, 0),
        (1, [], 0, 0, 0),
    ],
)
def test_statistics_are_those_by_hand(num_nodes, pairs, curvature, plain, degree):
    statistics = graph_statistics(graph_of(num_nodes, pairs))
    assert statistics.dtype == torch.float32
    expected = [
        math.asinh(curvature),
        math.asinh(plain),
        math.log(1 + degree),
        math.log10(num_nodes),
    ]
    assert statistics.tolist() == pytest.approx(expected, rel=1e-6)
    assert statistics.shape == (NUM_STATISTICS,)


def rows(unit: bool) -> Tensor:
    """Features of norm 1, or of any."""
    matrix = torch.randn(
        NODES, FEATURES, generator=torch.Generator().manual_seed(4), dtype=torch.float64
    )
    return matrix / matrix.norm(dim=1, keepdim=True) if unit else matrix


def inputs_of(task: str, features: Tensor) -> GraphInputs:
    """A ring with chords and an isolated node, or the same cut into three graphs."""
    pairs = [*((i, i + 1) for i in range(10)), (0, 10), (0, 4), (2, 9)]
    if task == "graphs":
        pairs = [(i, j) for i, j in pairs if i // 4 == j // 4]
    both = torch.tensor(sorted([*pairs, *((j, i) for i, j in pairs)])).t().contiguous()
    owner = torch.arange(NODES) // 4 if task == "graphs" else None
    return GraphInputs(Constant.of(features), both, owner, 3 if task == "graphs" else 1)


def shaken(spec: ModelSpec, k: float) -> nn.Module:
    """In float64, evaluating, every parameter moved from its start; biases are positive, so that
    units are on."""
    model = spec.build(seed=1).double().eval()
    generator = torch.Generator().manual_seed(6)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            moved = 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(moved.abs() if name.endswith("bias") else moved)
            if name == "k":
                parameter.fill_(k)
    return model


def at_curvature_minus_one(model: nn.Module, spec: ModelSpec) -> tuple[float, nn.Module]:
    """A factor, and the network of K = 1 whose logits on features of norm 1, times the factor, are
    those of `model`.

    A hyperboloid of another radius is the unit one, magnified. exp0 alone tells them apart, since
    it keeps lengths: it takes a vector of norm 1 to √K (cosh(1/√K), sinh(1/√K)·v), and what differs
    from √K (cosh 1, sinh 1·v) the first matrix and its column m make up for. Logits are squared
    distances for nodes, coordinates for graphs.
    """
    K = -1 / model.curvature.item()
    scale = math.sqrt(K)
    space = math.sinh(1 / scale) / math.sinh(1)
    time = math.cosh(1 / scale) / math.cosh(1) / scale
    if spec.task == "nodes":
        factors = {
            "first.weight": space,
            "first.time": time,
            "head.bias": 1 / K,
            "head.weight": 1 / scale,
            "k": 0,
        }
    else:
        factors = {"input.weight": space, "input.time": time, "k": 0}
    unit = spec.build(seed=0).double().eval()
    with torch.no_grad():
        for name, parameter in unit.named_parameters():
            default_factor = 1 / scale if name.endswith((".bias", ".time")) else 1
            parameter.copy_(factors.get(name, default_factor) * model.get_parameter(name))
    return K if spec.task == "nodes" else scale, unit


@ABOUT
@pytest.mark.parametrize(
    ("name", "k"),
    [
        ("sigmoid", -3.0),
        ("sigmoid", 3.0),
        ("exp", -0.2),
        ("exp", -0.03),
        ("exp", 0.04),
        ("exp", 0.3),
    ],
)
def test_another_curvature_is_another_start_and_scale_where_features_have_one_norm(task, name, k):
    """What a curvature can do to features of norm 1, and what it cannot.

    With a = sinh(1/√K)/sinh 1, a' = cosh(1/√K)/cosh 1, and the gates as they are, for nodes

        f_K(M₁, m₁, b₁, M₂, m₂, b₂, c, β)
        = K f₁(a M₁, a' m₁/√K, b₁/√K, M₂, m₂/√K, b₂/√K, c/√K, β/K),

    and for graphs f_K(M₁, m₁, …) = √K f₁(a M₁, a' m₁/√K, …).
    """
    spec = spec_of(task, curvature_map=name)
    model = shaken(spec, k)
    factor, unit = at_curvature_minus_one(model, spec)
    K = float(exact(name, k))
    assert model.curvature.item() == pytest.approx(-1 / K, rel=1e-13)
    assert unit.curvature.item() == -1
    logits = model(inputs_of(task, rows(unit=True))).detach()
    size = float(logits.abs().max())
    assert float(np.ptp(logits.numpy(), axis=0).min()) > 1e-3 * size
    scaled = factor * unit(inputs_of(task, rows(unit=True))).detach()
    torch.testing.assert_close(logits, scaled, rtol=0.0, atol=1e-12 * size)


@ABOUT
def test_where_features_have_different_norms_a_curvature_does_more(task):
    spec = spec_of(task, curvature_map="exp")
    model = shaken(spec, -0.03)
    factor, unit = at_curvature_minus_one(model, spec)
    logits = model(inputs_of(task, rows(unit=False))).detach()
    scaled = factor * unit(inputs_of(task, rows(unit=False))).detach()
    assert float((logits - scaled).abs().max()) > 0.05 * float(logits.abs().max())
