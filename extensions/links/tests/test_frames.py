"""Frames of hyperbolic rows: against mpmath, and the laws of steps and means."""

import pytest
import torch
from frame_rows import rows_of

from curvfed.extensions.links.charts import Hyperboloid, Normal
from curvfed.geometry import lorentz
from curvfed.geometry.frames import farthest

CHARTS = [Hyperboloid(), Normal(), Hyperboloid(-4.0), Normal(-0.25)]
DTYPES = [torch.float32, torch.float64]


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
    lifted = lorentz.lift(chart.unit_space(mean.double()), -1.0)
    assert lorentz.dist(lifted, exact, -1.0).max() < tolerance


@pytest.mark.parametrize("chart", CHARTS)
def test_no_step_leaves_the_space_and_none_is_lost_at_the_origin(chart):
    zeros = torch.zeros(2, 4)
    assert torch.equal(chart.move(zeros, zeros), zeros)
    far = chart.move(zeros, torch.full((2, 4), 1e4))
    reached = chart.unit_space(far.double()).norm(dim=1).asinh()
    torch.testing.assert_close(reached, torch.full_like(reached, farthest(torch.float32)))
    beyond = Normal().of_unit_space(far) * torch.tensor([[2.0], [100.0]])  # flat steps lead there
    assert Normal().offset(beyond, beyond).abs().max() < 1e-3
