"""The Lorentz networks' operations against geometry and finite differences."""

from functools import partial

import mpmath
import pytest
import torch
from torch import Tensor

from curvfed.geometry.lorentz import exp0, inner, lift, normalize
from curvfed.geometry.safe_math import max_radius
from curvfed.tasks.graphs.lorentz_layers import distance_logits, exp0_factor, lorentz_linear
from curvfed.tasks.graphs.lorentz_layers import lift as lift_features
from curvfed.tasks.graphs.lorentz_modules import convolve
from curvfed.tasks.graphs.model_spec import dropout_factors
from curvfed.tasks.graphs.sparse import Constant, normalized_adjacency

NODES, WIDTH, CLASSES = 9, 5, 3
RADII = (0.5, 1.0, 1.5)


def _values(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


def _scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


@pytest.fixture
def adjacency() -> Constant:
    """A path of seven nodes and two isolated ones."""
    ends = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6]])
    matrix = (
        normalized_adjacency(torch.cat([ends, ends.flip(0)], dim=1), NODES)
        .matrix.to_dense()
        .double()
    )
    return Constant(matrix, matrix)


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("gate", [None, 0.0, 0.3, 1.0])
def test_convolution_is_linear_layer_centroid_and_mix(
    adjacency: Constant, radius: float, gate: float | None
) -> None:
    features = _values(NODES, 4, seed=1)
    weight, bias, column = _values(WIDTH, 4, seed=2), _values(WIDTH, seed=3), _values(WIDTH, seed=4)
    points = lift(features, -1 / radius)
    time = points[:, :1] / radius**0.5
    space = points[:, 1:] @ weight.t() + time * column + bias
    low = normalize(adjacency.matrix @ lift(space, -1 / radius), -1 / radius)[:, 1:]
    share = 1.0 if gate is None else gate
    expected = share * low + (1 - share) * (space - low)
    output, square = convolve(
        features @ weight.t(),
        features.square().sum(1, keepdim=True),
        bias,
        column,
        _scalar(-1 / radius),
        None if gate is None else _scalar(gate),
        adjacency,
    )
    torch.testing.assert_close(output, expected.relu(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(square, output.square().sum(1, keepdim=True))


def test_centroid_without_gate_lies_with_the_neighbours(adjacency: Constant) -> None:
    alone = _values(NODES, WIDTH, seed=5).abs()
    zeros = torch.zeros(WIDTH, dtype=torch.float64)
    output, _ = convolve(
        alone, alone.square().sum(1, keepdim=True), zeros, zeros, _scalar(-1.25), None, adjacency
    )
    # an isolated node is its own centroid
    torch.testing.assert_close(output[7:], alone[7:], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("radius", [0.05, *RADII, 20.0])
def test_linear_layer_is_a_matrix_times_the_point(radius: float) -> None:
    features, weight = _values(NODES, 4, seed=1), _values(WIDTH, 4, seed=2)
    bias, column = _values(WIDTH, seed=3), _values(WIDTH, seed=4)
    matrix = torch.cat([column.unsqueeze(1) / radius**0.5, weight], dim=1)
    expected = lift(features, -1 / radius) @ matrix.t() + bias
    output = lorentz_linear(features, weight, bias, column, _scalar(-1 / radius))
    torch.testing.assert_close(output, expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("radius", RADII)
def test_logits_are_lorentz_distances(radius: float) -> None:
    space, centres, bias = (
        _values(NODES, WIDTH),
        _values(CLASSES, WIDTH, seed=1),
        _values(CLASSES, seed=2),
    )
    nodes, points = lift(space, -1 / radius)[:, None], lift(centres, -1 / radius)[None]
    apart = nodes - points
    expected = bias - inner(apart, apart)
    torch.testing.assert_close(
        distance_logits(space, centres, bias, _scalar(-1 / radius)),
        expected,
        rtol=1e-11,
        atol=1e-11,
    )


@pytest.mark.parametrize("radius", RADII)
def test_factor_is_that_of_exp0(radius: float) -> None:
    rows = _values(NODES, WIDTH).detach()
    rows[0] = 0
    factor = exp0_factor(rows.norm(dim=1, keepdim=True), _scalar(1 / radius))
    torch.testing.assert_close(factor * rows, exp0(rows, -1 / radius)[:, 1:], rtol=1e-14, atol=0)


def test_lifted_features_are_exp0_times_the_matrix() -> None:
    rows, weight = _values(NODES, 4).detach(), _values(WIDTH, 4, seed=1)
    curvature = _scalar(-0.7)
    rows[0] = 0
    points = exp0(rows, curvature.detach())[:, 1:]
    norms = rows.norm(dim=1, keepdim=True)
    for features in (norms, norms.clone().requires_grad_()):
        product, square = lift_features(rows @ weight.t(), features, curvature)
        torch.testing.assert_close(product, points @ weight.t(), rtol=1e-13, atol=1e-13)
        torch.testing.assert_close(square, points.square().sum(1, keepdim=True), rtol=1e-13, atol=0)


def test_dropout_in_a_layer_is_dropout_of_its_result(adjacency: Constant) -> None:
    features, zeros = _values(NODES, WIDTH).abs().detach(), torch.zeros(WIDTH, dtype=torch.float64)
    call = partial(
        convolve,
        features.requires_grad_(),
        features.square().sum(1, keepdim=True),
        zeros,
        zeros,
        _scalar(-0.8),
    )
    undropped, _ = call(None, adjacency)
    torch.manual_seed(3)
    factors = dropout_factors(undropped, 0.3)
    torch.manual_seed(3)
    output, square = call(None, adjacency, 0.3)
    torch.testing.assert_close(output, undropped * factors)
    torch.testing.assert_close(square, output.square().sum(1, keepdim=True))
    sums = (undropped * factors).sum() + (undropped * factors).square().sum()
    expected, *_ = torch.autograd.grad(sums, features, retain_graph=True)
    torch.testing.assert_close(
        torch.autograd.grad(output.sum() + square.sum(), features)[0], expected
    )


def test_gradients(adjacency: Constant) -> None:
    norms = _values(NODES, 1).detach().abs()
    product, square = _values(NODES, WIDTH), norms.square().requires_grad_()
    vectors = _values(WIDTH, seed=1), _values(WIDTH, seed=2)
    arguments = (product, square, *vectors, _scalar(-0.7))
    assert torch.autograd.gradcheck(
        lambda *tensors: convolve(*tensors, adjacency), (*arguments, _scalar(0.8))
    )
    assert torch.autograd.gradcheck(lambda *tensors: convolve(*tensors, None, adjacency), arguments)
    features = (product, norms, _scalar(-0.7))
    assert torch.autograd.gradcheck(lift_features, features)
    assert torch.autograd.gradcheck(exp0_factor, (norms.clone().requires_grad_(), _scalar(0.7)))
    layers = (
        product,
        _values(4, WIDTH, seed=5),
        _values(4, seed=6),
        _values(4, seed=7),
        _scalar(-0.7),
    )
    assert torch.autograd.gradcheck(lorentz_linear, layers)
    heads = (product, _values(CLASSES, WIDTH, seed=3), _values(CLASSES, seed=4), _scalar(-0.7))
    assert torch.autograd.gradcheck(distance_logits, heads)


@pytest.mark.parametrize("size", [0.0, 1e-20, 1e3, 1e8])
def test_finite_at_the_origin_and_far_out(adjacency: Constant, size: float) -> None:
    matrix = adjacency.matrix.float()
    features = (size * torch.ones(NODES, WIDTH)).requires_grad_()
    curvature = torch.tensor(-1.0, requires_grad=True)
    gate = torch.tensor(0.9, requires_grad=True)
    zeros = torch.zeros(WIDTH, requires_grad=True)
    square = features.square().sum(1, keepdim=True)
    output, _ = convolve(features, square, zeros, zeros, curvature, gate, Constant(matrix, matrix))
    linear = lorentz_linear(features, torch.ones(WIDTH, WIDTH), zeros, torch.ones(WIDTH), curvature)
    logits = distance_logits(output, torch.ones(CLASSES, WIDTH), torch.zeros(CLASSES), curvature)
    (output.sum() + linear.sum() + logits.sum()).backward()
    for tensor in (output, linear, logits, features.grad, curvature.grad, gate.grad, zeros.grad):
        assert tensor is not None
        assert bool(tensor.isfinite().all())


@pytest.mark.parametrize("norm", [0.0, 1e-30, 1e-9, 1e-3, 0.2, 0.41, 0.42, 3.0, 30.0, 60.0, 1e6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gradient_of_the_factor_by_the_norm(norm: float, dtype: torch.dtype) -> None:
    size = torch.tensor(1.4, dtype=dtype, requires_grad=True)
    norms = torch.full((1, 1), norm, dtype=dtype, requires_grad=True)
    exp0_factor(norms, size).sum().backward()
    assert norms.grad is not None
    assert size.grad is not None
    with mpmath.workdps(120):
        root, limit = mpmath.sqrt(size.item()), max_radius(dtype)
        x = norms.item() * root
        slope = mpmath.cosh(x) if x < limit else 0  # beyond the largest radius only 1/x moves
        exact = float((slope - mpmath.sinh(min(x, limit)) / x) / x * root) if x else 0.0
    assert norms.grad.item() == pytest.approx(
        exact, rel=200 * torch.finfo(dtype).eps, abs=torch.finfo(dtype).eps
    )
    assert bool(size.grad.isfinite())
