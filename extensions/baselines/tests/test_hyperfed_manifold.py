"""Prototypes averaged on the manifold: RFedAGS by geoopt's maps, Fréchet means, and the limit of
curvature 0."""

from types import SimpleNamespace

import geoopt
import numpy as np
import pytest
import torch
from app_runs import QUICK, run
from errors import refuses
from tiers import only
from torch import nn

from curvfed.extensions.baselines.methods.hyperfed_manifold import (
    PROTOTYPES,
    ManifoldClient,
    ManifoldServer,
    displacements,
)
from curvfed.geometry import poincare
from curvfed.strategies.base.learner import Local
from curvfed.strategies.base.optimizer import SGD, Riemannian
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.heads import HeadSpec, make_head

CLASSES, DIM = 4, 3
AVERAGES = ("streams", "tangent", "coordinates")


def ball(curvature):
    return geoopt.PoincareBall(c=torch.tensor(-curvature, dtype=torch.float64))


def points_of(rng, num, curvature, spread=0.7):
    tangents = torch.from_numpy(rng.normal(0, spread, (num, CLASSES, DIM)))
    return poincare.exp0(tangents / (-curvature) ** 0.5, curvature)


@pytest.mark.parametrize("curvature", [-1.0, -0.2, -3.0])
def test_ways_are_moved_parallel_along_geodesics(curvature):
    starts, ends, seen_from = points_of(np.random.default_rng(0), 3, curvature)
    space = ball(curvature)
    expected = space.transp(starts, seen_from, space.logmap(starts, ends))
    # The translation of a point to the origin changes lengths there by its conformal factor.
    expected = expected / (1 + curvature * seen_from.square().sum(-1, keepdim=True))
    torch.testing.assert_close(
        displacements(starts, ends, seen_from, curvature), expected, rtol=1e-9, atol=1e-9
    )


def client_of(average, curvature, rate, start):
    """A client's half with the prototypes alone, and its optimiser."""
    config = parse(
        {
            "method": "hyperfed-manifold",
            "hyperfed-manifold.average": average,
            "hyperfed.curvature": curvature,
            "hyperfed.steps-of-prototypes": "geodesic",
            "hyperfed.radius": 0.0,
        }
    )
    config = resolve_defaults(config, "images")
    spec = HeadSpec("prototypes", CLASSES, DIM, curvature=curvature, geodesic=True)
    model = nn.ModuleDict({"head": make_head(spec)})
    tensors = dict(model.named_parameters())
    chart = tensors[PROTOTYPES].chart
    optimizer = Riemannian(tensors, {PROTOTYPES: chart}, lambda flat: SGD(flat, rate, 0.0, 0.0))
    local = Local(
        config,
        config.own_keys,
        model,
        SimpleNamespace(num_steps=1),
        tensors,
        tuple(tensors),
        tensors,
        optimizer,
    )
    server = ManifoldServer({PROTOTYPES: start}, config.own_keys, config)
    return ManifoldClient(local), server


def rounds_of(average, targets, weights, curvature, rate, steps, rounds, start):
    """Prototypes (C, d), points of the ball, after rounds in which client k minimises half the mean
    squared distance to its targets, at a quarter of the ball's metric."""
    client, server = client_of(average, curvature, rate, start)
    space = ball(curvature)
    for _ in range(rounds):
        replies = {}
        for number, (target, weight) in enumerate(zip(targets, weights, strict=True)):
            client.receive(server.sent_to(number))
            (*_, term) = client.gradient_terms()
            rows = client.local.tensors[PROTOTYPES]
            for _ in range(steps):
                client.local.optimizer.zero_grad()
                place = poincare.exp0(rows.double(), curvature)
                (space.dist2(place, target).sum() / len(target) / 8).backward()
                term()
                client.local.optimizer.step()
            replies[number] = Statistics(client.share(), weight)
        server.aggregate(replies)
    return poincare.exp0(torch.from_numpy(server.sent_to(0)[PROTOTYPES]).double(), curvature)


def published(targets, weights, curvature, rate, steps, rounds, start):
    """RFedAGS with all clients (its Algorithm 1), by geoopt."""
    space = ball(curvature)
    place = poincare.exp0(torch.from_numpy(start).double(), curvature)
    shares = torch.tensor(weights, dtype=torch.float64) / sum(weights)
    for _ in range(rounds):
        total = torch.zeros_like(place)
        for target, share in zip(targets, shares, strict=True):
            x = place
            for _ in range(steps):
                step = rate * space.logmap(x.expand_as(target), target).mean(0)
                total += share * space.transp(x, place, step)
                x = space.expmap(x, step)
        place = space.expmap(place, total)
    return place


def frechet_mean(targets, weights, curvature):
    """Where the weighted displacements to the points cancel."""
    space = ball(curvature)
    shares = (torch.tensor(weights, dtype=torch.float64) / sum(weights))[:, None, None]
    place = targets.mean((0, 1))
    for _ in range(500):
        ways_to = space.logmap(place.expand_as(targets), targets).mean(1)
        way = (shares * ways_to).sum(0)
        place = space.expmap(place, way / 3)
    assert way.abs().max() < 1e-12
    return place


def problem(seed, curvature, spread=0.7):
    rng = np.random.default_rng(seed)
    start = (rng.normal(0, 0.5, (CLASSES, DIM)) / (-curvature) ** 0.5).astype(np.float32)
    targets = points_of(rng, 3 * 4, curvature, spread).reshape(3, 4, CLASSES, DIM)
    return targets, [10, 20, 5], start


@pytest.mark.parametrize(
    ("seed", "curvature"),
    only([(0, -1.0), (0, -0.3), (1, -1.0), (1, -0.3)], {(0, -1.0), (1, -0.3)}.__contains__),
)
def test_streams_are_rounds_of_the_paper(seed, curvature):
    targets, weights, start = problem(seed, curvature)
    settings = (targets, weights, curvature, 0.2, 5, 4, start)
    place = rounds_of("streams", *settings)
    torch.testing.assert_close(place, published(*settings), rtol=1e-5, atol=1e-5)
    other = rounds_of("tangent", *settings)
    assert (place - other).abs().max() > 1e-4


@pytest.mark.parametrize("curvature", only([-1.0, -0.3], (-0.3).__eq__))
def test_one_step_a_round_leads_to_the_frechet_mean_on_the_manifold_alone(curvature):
    targets, weights, start = problem(2, curvature, spread=0.9)
    mean = frechet_mean(targets, weights, curvature)
    settings = (targets, weights, curvature, 0.5, 1, 20, start)
    off = {
        average: float(ball(curvature).dist(rounds_of(average, *settings), mean).max())
        for average in AVERAGES
    }
    assert off["streams"] < 1e-4
    assert off["tangent"] < 1e-4
    assert off["coordinates"] > 1e-2


SETTINGS = QUICK["images"] | {
    "embedding_dim": 8,
    "num_rounds": 2,
    "learning_rate": 0.1,
    "fine_tune_epochs": 0,
    "hyperfed.radius": 0.0,
    "hyperfed.steps-of-prototypes": "geodesic",
}


def prototypes_of(folder, name, method="hyperfed-manifold", **more):
    settings = SETTINGS | {key.replace("__", "."): value for key, value in more.items()}
    return run(folder, name, method=method, **settings).model[PROTOTYPES]


def test_at_curvature_0_all_averages_are_the_plain_mean(tmp_path):
    plain = prototypes_of(tmp_path, "plain", "hyperfed-shared", hyperfed__curvature=0.0)
    for average in AVERAGES:
        more = {"hyperfed-manifold.average": average, "hyperfed.curvature": 0.0}
        np.testing.assert_array_equal(prototypes_of(tmp_path, average, **more), plain)


@pytest.mark.long
def test_at_one_step_the_plain_mean_is_the_flat_limit(tmp_path):
    """One step a client and round: streams are displacements, and displacements are differences as the curvature goes
    to 0."""
    one_step = {"local_epochs": 1, "batch_size": 512}
    for curvature, bound in ((-1e-6, 1e-5), (-1.0, 0.0)):
        there = {"hyperfed.curvature": curvature} | one_step
        folder = tmp_path / str(curvature)
        plain = prototypes_of(folder, "plain", "hyperfed-shared", **there)
        by = {
            average: prototypes_of(
                folder, average, **there | {"hyperfed-manifold.average": average}
            )
            for average in AVERAGES
        }
        np.testing.assert_allclose(by["streams"], by["tangent"], rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(by["coordinates"], plain)
        apart = np.abs(by["streams"] - plain).max() / np.abs(plain).max()
        assert apart <= bound if bound else apart > 1e-5


def test_a_run_under_secure_sums_gives_the_open_runs_prototypes(tmp_path):
    plain = prototypes_of(tmp_path, "open")
    masked = prototypes_of(tmp_path, "masked", secure_sum=True)
    np.testing.assert_allclose(masked, plain, atol=1e-5)


@pytest.mark.parametrize(
    ("key", "keys", "fragments"),
    [
        (
            "value",
            {"hyperfed-manifold.average": "median"},
            ("hyperfed-manifold.average", '"streams", "tangent", "coordinates"'),
        ),
        ("aggregation-with-method", {"aggregation": "fedopt"}, ("fedopt", "aggregation = auto")),
        (
            "secure-sum-with-method",
            {"secure-sum": True, "hyperfed.radius": 0.2},
            ("hyperfed-manifold", "secure-sum = false"),
        ),
    ],
)
def test_impossible_values_are_refused_with_the_allowed_ones(key, keys, fragments):
    with refuses(key, *fragments, error=ConfigError):
        parse({"method": "hyperfed-manifold", "dataset": "digits"} | keys)
