"""The curvature of a network: how k sets it, what an estimator adds, what it can do."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
import torch
from graph_fixtures import graph_of
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

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


@pytest.mark.parametrize("name", RANGES)
@given(st.floats(-60, 60, allow_subnormal=False))
def test_maps_are_their_formulas(name, k):
    assert radius(name, k).item() == pytest.approx(float(exact(name, k)), rel=1e-14)


@pytest.mark.parametrize("name", RANGES)
def test_a_deviation_makes_a_start_that_differs_and_can_still_move(name):
    """One standard deviation changes K by a fifth; at four, K still has a slope."""
    deviation = CURVATURE_MAPS[name].deviation
    assert abs(math.log(radius(name, deviation))) > 0.2
    assert abs(math.log(radius(name, -deviation))) > 0.2
    assert log_slope(name, 4 * deviation, torch.float32) * deviation > 0.01
    assert log_slope(name, -4 * deviation, torch.float32) * deviation > 0.01


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
