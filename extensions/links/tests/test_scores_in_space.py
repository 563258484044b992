"""Scores of embeddings in hyperbolic space, against mpmath."""

import mpmath
import pytest
import torch
from frame_rows import rows_of

from curvfed.extensions.links.charts import Hyperboloid, Normal
from curvfed.extensions.links.models import LinkModelSpec

DTYPES = [torch.float32, torch.float64]


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
