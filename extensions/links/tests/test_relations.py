"""Relations in a space of any curvature: scores by mpmath, derivatives, and the boundary."""

import mpmath
import pytest
import torch
from curvature_limits import shaken, values
from tiers import only
from torch.func import functional_call

from curvfed.extensions.links.models import LinkModelSpec, Rows
from curvfed.geometry.frames import farthest

KINDS = ["translation", "diagonal", "rotation"]
DIM = 5  # odd: its last coordinate is not rotated


def model_of(relations, kind="normal", curvature=-1.0, dtype=torch.float64, size=1.0, seed=0):
    spec = LinkModelSpec(
        kind, 6, 2, DIM + 1, curvature=curvature, score="squared", bias=True, relations=relations
    )
    model = spec.build(seed).to(dtype)
    scale = 1 / max(1.0, abs(curvature) ** 0.5)
    rows = values(6, DIM, seed=seed + 1, scale=size * scale)
    model.entities.data = rows.to(dtype)
    steps = values(2, DIM, seed=seed + 2, scale=size * scale)
    model.operator.translations.data = steps.to(dtype)
    model.bias.data = values(6, 1, seed=seed + 3).to(dtype)
    return model


def exact(model, kind, curvature, head, relation, tail):
    """The score in the ball of this curvature by the formulas as printed, with 60 digits."""
    root = mpmath.sqrt(-curvature)

    def vector(row):
        return mpmath.matrix([mpmath.mpf(float(x)) for x in row])

    def exp0(v):
        if not curvature or not mpmath.norm(v):
            return v
        length = root * mpmath.norm(v)
        return mpmath.tanh(length) / length * v

    def log0(x):
        if not curvature or not mpmath.norm(x):
            return x
        length = root * mpmath.norm(x)
        return mpmath.atanh(length) / length * x

    def point(row):
        if not curvature:
            return (2 if kind == "normal" else 1) * vector(row)
        if kind == "normal":
            return exp0(vector(row))
        space = vector(row)
        return space / (1 + mpmath.sqrt(1 - curvature * mpmath.fdot(space, space)))

    def add(x, y):
        product = mpmath.fdot(x, y)
        x2 = mpmath.fdot(x, x)
        y2 = mpmath.fdot(y, y)
        c = -curvature
        above = (1 + 2 * c * product + c * y2) * x + (1 - c * x2) * y
        return above / (1 + 2 * c * product + c**2 * x2 * y2)

    def distance(x, y):
        if not curvature:
            return mpmath.norm(x - y)
        return 2 / root * mpmath.atanh(root * mpmath.norm(add(-x, y)))

    entities = model.entities.detach()
    h = point(entities[head])
    t = point(entities[tail])
    r = point(model.operator.translations.detach()[relation])
    name = type(model.operator).__name__
    if name == "Diagonal":
        factors = model.operator.factors.detach()[relation].tolist()
        scaled = log0(h)
        h = exp0(mpmath.matrix([factor * x for factor, x in zip(factors, scaled, strict=True)]))
        t = add(t, r)
    else:
        if name == "Rotation":
            turned = list(h)
            for place, angle in enumerate(model.operator.angles.detach()[relation].tolist()):
                other = place + DIM // 2
                cos = mpmath.cos(angle)
                sin = mpmath.sin(angle)
                turned[place] = cos * h[place] - sin * h[other]
                turned[other] = sin * h[place] + cos * h[other]
            h = mpmath.matrix(turned)
        h = add(h, r)
    return distance(h, t), float(model.bias.detach()[tail, 0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("curvature", [-1.0, -4.0, -0.25, 0.0])
@pytest.mark.parametrize("kind", ["normal", "hyperboloid"])
@pytest.mark.parametrize("relations", KINDS)
def test_scores_are_those_of_mpmath(relations, kind, curvature, dtype):
    model = model_of(relations, kind, curvature, dtype)
    tails = torch.tensor([[1, 2, 0], [3, 4, 5]])  # a head as its own tail is among them
    relation = torch.tensor([1, 0])
    scores = model(torch.tensor([0, 2]), relation, tails).detach().double()
    eps = torch.finfo(dtype).eps
    for row, head in enumerate((0, 2)):
        for column in range(3):
            tail = int(tails[row, column])
            with mpmath.workdps(60):
                distance, bias = exact(model, kind, curvature, head, int(relation[row]), tail)
                expected = float(bias - distance**2)
            allowed = 1000 * eps * (1 + float(distance) ** 2)
            assert scores[row, column].item() == pytest.approx(expected, abs=allowed)


@pytest.mark.parametrize("curvature", only([-1.0, -0.3, 0.0], {-0.3, 0.0}.__contains__))
@pytest.mark.parametrize("relations", KINDS)
def test_first_and_second_derivatives(relations, curvature):
    model = shaken(model_of(relations, "normal", curvature, size=0.4))
    names = [name for name, _ in model.named_parameters()]
    heads = torch.tensor([0, 1])
    relation = torch.tensor([0, 1])
    tails = torch.tensor([[1, 2], [0, 3]])

    def scores(*tensors):
        parameters = dict(zip(names, tensors, strict=True))
        return functional_call(model, parameters, (heads, relation, tails))

    parameters = tuple(model.parameters())
    assert torch.autograd.gradcheck(scores, parameters)
    assert torch.autograd.gradgradcheck(scores, parameters, fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("relations", KINDS)
def test_at_the_boundary_scores_are_right_and_derivatives_finite(relations, dtype):
    model = model_of(relations, "normal", -1.0, dtype)
    reach = farthest(dtype) / 2  # half of the distance in normal coordinates
    rows = values(6, DIM, seed=5)
    far = reach * rows / rows.norm(dim=1, keepdim=True)
    model.entities.data = far.to(dtype)
    model.operator.translations.data = far[:2].to(dtype)
    tails = torch.tensor([[1, 2, 3, 4]])
    scores = model(torch.tensor([0]), torch.tensor([1]), tails)
    scores.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    with mpmath.workdps(80):
        for column, tail in enumerate(tails[0].tolist()):
            distance, bias = exact(model, "normal", -1.0, 0, 1, tail)
            assert scores[0, column].item() == pytest.approx(float(bias - distance**2), rel=0.02)


def test_rows_beyond_the_boundary_are_read_as_at_it():
    for relations in KINDS:
        model = model_of(relations, "normal", -1.0, torch.float32, size=1e6)
        scores = model(torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([[1, 2], [3, 4]]))
        scores.sum().backward()
        assert scores.isfinite().all()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_without_relations_scores_are_those_of_before_to_the_bit():
    """Parameters, start, scores and gradients; the old formula stands here."""
    for kind, curvature in (("normal", -1.0), ("hyperboloid", -2.0), ("normal", 0.0)):
        spec = LinkModelSpec(kind, 6, 3, 5, curvature=curvature, score="squared", bias=True)
        model = spec.build(3)
        assert {name for name, _ in model.named_parameters()} == {"entities", "bias"}
        start = 1e-2 * torch.randn((6, 4), generator=torch.Generator().manual_seed(3))
        assert torch.equal(model.entities, start)
        heads = torch.tensor([0, 3])
        tails = torch.tensor([[1, 2], [4, 5]])
        scores = model(heads, torch.tensor([0, 2]), tails)
        assert isinstance(model, Rows)
        if model.chart is None:
            table = torch.cat([2 * model.entities, model.bias], dim=-1)
        else:
            table = torch.cat([*model.chart.ball(model.entities), model.bias], dim=-1)
        head_rows = torch.nn.functional.embedding(heads, table).unsqueeze(1)
        rows = torch.nn.functional.embedding(tails, table)
        apart = (head_rows[..., :4] - rows[..., :4]).square().sum(-1)
        if model.chart is not None:
            distance = model.chart.distance(apart * (head_rows[..., 4] * rows[..., 4]))
            apart = distance.square()
        expected = -apart + rows[..., -1]
        assert torch.equal(scores, expected)
        gradients = torch.autograd.grad(scores.sum(), list(model.parameters()))
        old_gradients = torch.autograd.grad(expected.sum(), list(model.parameters()))
        pairs = zip(gradients, old_gradients, strict=True)
        assert all(torch.equal(new, old) for new, old in pairs)
