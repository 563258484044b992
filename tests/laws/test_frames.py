"""Frames of hyperbolic rows: against mpmath, and the laws of steps and means."""

import mpmath
import pytest
import torch

from curvfed.extensions.links.models import LinkModelSpec
from curvfed.geometry import lorentz
from curvfed.geometry.frames import Hyperboloid, Normal, farthest

CHARTS = [Hyperboloid(), Normal(), Hyperboloid(-4.0), Normal(-0.25)]
DTYPES = [torch.float32, torch.float64]


def rows_of(chart, radius, dtype, seed=0):
    """Three rows at a distance from the origin, in units of 1/√|c|."""
    generator = torch.Generator().manual_seed(seed)
    directions = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    directions /= directions.norm(dim=1, keepdim=True)
    return chart.of_unit_space(directions * torch.tensor(radius).sinh()).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("radius", [0.0, 1e-3, 1.0, 6.0])
@pytest.mark.parametrize("chart", CHARTS)
def test_moves_logs_and_centroids_agree(chart, radius, dtype):
    rows = rows_of(chart, radius, dtype)
    steps = torch.linspace(-1, 1, 12, dtype=dtype).view(3, 4) / chart.scale
    ends = chart.move(rows, steps)
    tolerance = 500 * torch.finfo(dtype).eps * torch.tensor(radius + 1.0).cosh().item()
    torch.testing.assert_close(chart.log(rows, ends), steps, rtol=0, atol=tolerance / chart.scale)
    both = [lorentz.lift(chart.unit_space(points.double()), -1.0) for points in (rows, ends)]
    exact = lorentz.normalize(both[0] + 3 * both[1], -1.0)
    mean = chart.move_to_centroid(rows, 0.75 * chart.offset(rows, ends))
    found = lorentz.lift(chart.unit_space(mean.double()), -1.0)
    assert lorentz.dist(found, exact, -1.0).max() < tolerance


@pytest.mark.parametrize("chart", CHARTS)
def test_no_step_leaves_the_space_and_none_is_lost_at_the_origin(chart):
    zeros = torch.zeros(2, 4)
    assert torch.equal(chart.move(zeros, zeros), zeros)
    far = chart.move(zeros, torch.full((2, 4), 1e4))
    reached = chart.unit_space(far.double()).norm(dim=1).asinh()
    torch.testing.assert_close(reached, torch.full_like(reached, farthest(torch.float32)))
    beyond = Normal().of_unit_space(far) * torch.tensor([[2.0], [100.0]])  # flat steps lead there
    assert Normal().offset(beyond, beyond).abs().max() < 1e-3


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("curvature", [-1.0, -4.0, -0.01])
@pytest.mark.parametrize(("kind", "make"), [("normal", Normal), ("hyperboloid", Hyperboloid)])
def test_scores_and_gradients_are_those_of_mpmath(kind, make, curvature, dtype):
    model = LinkModelSpec(kind, 3, 1, 4, curvature=curvature).build(0).to(dtype)
    model.entities.data = rows_of(make(curvature), 3.0, dtype, seed=1)
    score = model(torch.tensor([0]), torch.tensor([0]), torch.tensor([[1]]))
    (gradient,) = torch.autograd.grad(score.sum(), model.entities)
    values = model.entities.detach().double()

    def exact(*head):
        scale = mpmath.sqrt(-curvature)
        points = [[scale * mpmath.mpf(x) for x in row] for row in (head, values[1].tolist())]
        if kind == "normal":
            lengths = [mpmath.norm(v) for v in points]
            points = [
                [mpmath.sinh(2 * n) / n * x for x in v]
                for n, v in zip(lengths, points, strict=True)
            ]
        times = [mpmath.sqrt(1 + sum(x * x for x in v)) for v in points]
        product = times[0] * times[1] - mpmath.fdot(*points)
        return -mpmath.acosh(product) / scale

    head = values[0].tolist()
    tolerance = 2000 * torch.finfo(dtype).eps
    with mpmath.workdps(50):
        assert score.item() == pytest.approx(float(exact(*head)), rel=tolerance)
        for position in range(4):
            order = tuple(int(place == position) for place in range(4))
            slope = float(mpmath.diff(exact, tuple(head), order))
            scale = gradient.abs().max().item()
            assert gradient[0, position].item() == pytest.approx(slope, abs=tolerance * scale)
