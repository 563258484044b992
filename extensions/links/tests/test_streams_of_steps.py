"""Sums of local steps, moved to the row before the round, against RFedAGS in Lorentz coordinates."""

import numpy as np
import pytest
import torch
from app_runs import run
from tiers import only
from torch import nn

from curvfed.extensions.links.charts import Hyperboloid, Normal
from curvfed.extensions.links.row_means import Stream, mean_rows
from curvfed.strategies.base.optimizer import SGD, Riemannian


def minkowski(x, y):
    return x[1:] @ y[1:] - x[0] * y[0]


def lifted(space):
    return np.concatenate([[np.sqrt(1 + space @ space)], space])


def exponential(x, v):
    length = np.sqrt(max(minkowski(v, v), 0))
    return x if length == 0 else np.cosh(length) * x + np.sinh(length) / length * v


def logarithm(x, y):
    product = -minkowski(x, y)
    apart = np.arccosh(max(product, 1))
    return np.zeros_like(x) if apart == 0 else apart / np.sinh(apart) * (y - product * x)


def moved_parallel(x, y, v):
    """Along the geodesic from x to y."""
    return v + minkowski(y, v) / (1 - minkowski(x, y)) * (x + y)


def projected(x, y, v):
    """The transport of the authors' script, the projection that Manopt has for this space."""
    return v + minkowski(y, v) * y


def published(start, clients, weights, rate, steps, rounds, transport):
    """RFedAGS with all clients and whole batches: min Σ αᵢ d²(x, yᵢ) over all of them."""
    x = lifted(start)
    for _ in range(rounds):
        total = np.zeros_like(x)
        for points, alphas in zip(clients, weights, strict=True):
            place = x
            for _ in range(steps):
                slope = np.zeros_like(x)
                for point, alpha in zip(points, alphas, strict=True):
                    slope -= 2 * alpha * logarithm(place, lifted(point)) / len(points)
                total -= transport(place, x, rate * slope)
                place = exponential(place, -rate * slope)
        x = exponential(x, total / len(clients))
    return x


def ours(start, clients, weights, rate, steps, rounds, chart):
    """The same by the optimiser, the streams and the mean of the embeddings."""
    scale = chart.scale
    rows = chart.of_unit_space(torch.from_numpy(start)[None])
    for _ in range(rounds):
        sums = []
        for points, alphas in zip(clients, weights, strict=True):
            place = nn.Parameter(rows.clone())
            place.chart = chart
            optimizer = Riemannian(
                {"x": place}, {"x": chart}, lambda flat: SGD(flat, rate / scale**2, 0.0, 0.0)
            )
            stream = Stream(place, chart)
            targets = chart.of_unit_space(torch.from_numpy(points))
            for _ in range(steps):
                optimizer.zero_grad()
                target_ball, target_stretch = chart.ball(targets)
                ball, stretch = chart.ball(place)
                apart = (ball - target_ball).square().sum(-1, keepdim=True)
                distance = scale * chart.distance(apart * (stretch * target_stretch))
                loss = (torch.from_numpy(alphas)[:, None] * distance.square()).mean()
                loss.backward()
                stream()
                optimizer.step()
            sums.append(stream.sum())
        rows = mean_rows("streams", chart, rows, torch.stack(sums).mean(0))
    return lifted(chart.unit_space(rows)[0].numpy())


def problem(seed):
    """Points and weights of 9 clients, as in the authors' problem on WordNet's mammals."""
    rng = np.random.default_rng(seed)
    clients = rng.normal(size=(9, 7, 2)) * rng.uniform(0.2, 3, (9, 7, 1))
    weights = rng.uniform(0, 1, (9, 7))
    return rng.normal(size=2), clients, weights


def cost(x, clients, weights):
    squares = []
    for points, alphas in zip(clients, weights, strict=True):
        for point, alpha in zip(points, alphas, strict=True):
            squares.append(alpha * np.arccosh(max(-minkowski(x, lifted(point)), 1)) ** 2)
    return np.mean(squares)


@pytest.mark.parametrize("curvature", [-1.0, -0.3])
@pytest.mark.parametrize("seed", only([0, 1, 2], {0}.__contains__))
def test_a_round_is_that_of_the_paper(seed, curvature):
    start, clients, weights = problem(seed)
    settings = (start, clients, weights, 0.06, 5)
    place = ours(*settings, 8, Hyperboloid(curvature))
    np.testing.assert_allclose(place, published(*settings, 8, moved_parallel), rtol=1e-9)
    # The authors' script projects instead of moving parallel.
    theirs = published(*settings, 8, projected)
    assert cost(place, clients, weights) == pytest.approx(cost(theirs, clients, weights), rel=0.01)
    assert cost(place, clients, weights) < cost(lifted(start), clients, weights)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("chart", [Hyperboloid(), Normal(), Hyperboloid(-0.2), Normal(-0.2)])
def test_steps_along_one_geodesic_are_its_length_and_steps_back_cancel(chart, dtype):
    generator = torch.Generator().manual_seed(0)
    start = 0.5 * torch.randn(4, 3, generator=generator, dtype=dtype)
    start[0] = 0
    way = torch.randn(4, 3, generator=generator, dtype=dtype)
    rows = start.clone()
    stream = Stream(rows, chart)
    for share in (0.25, 0.5, 1.0):
        rows.copy_(chart.move(start, share * way))
        stream()
    bound = 100 * torch.finfo(dtype).eps
    torch.testing.assert_close(stream.sum(), way, rtol=bound, atol=bound)
    rows.copy_(start)
    torch.testing.assert_close(stream.sum(), torch.zeros_like(way), rtol=0, atol=bound)


@pytest.mark.parametrize("model", only(["normal", "hyperboloid"], "hyperboloid".__eq__))
def test_a_run_under_secure_sums_gives_the_open_runs_rows(model, tmp_path):
    settings = {
        "method": "links",
        "model": model,
        "dataset": "balanced-tree",
        "num_rounds": 2,
        "links.average": "streams",
    }
    plain = run(tmp_path / "open", **settings)
    masked = run(tmp_path / "masked", secure_sum=True, **settings)
    other = run(tmp_path / "tangent", **settings | {"links.average": "tangent"})
    np.testing.assert_allclose(masked.model["entities"], plain.model["entities"], atol=1e-5)
    assert np.abs(other.model["entities"] - plain.model["entities"]).max() > 1e-6
