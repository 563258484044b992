"""What the studies of FlatLand compute: mutual information, pairs of clients, counts of the data."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from app_runs import run
from graph_fixtures import write_tu

from curvfed.extensions.curvature.commands.graphs import GraphCurvature
from curvfed.extensions.curvature.distortion import Fit
from curvfed.nn import LorentzLinear
from studies import flatland_rate
from studies.flatland_theorems import DIM, isotropic, mutual_information, pairs_of
from studies.papers.data_counts import COUNTS, counts


def test_information_of_two_normal_laws_is_the_integral():
    clients = np.repeat([0, 1], 1500)
    points = (2.0 * clients - 1)[:, None] + np.random.default_rng(0).standard_normal((3000, 1))
    # h(mixture) - h(normal), by quadrature.
    assert mutual_information(points, clients) == pytest.approx(0.3368, abs=0.03)


def test_information_is_none_of_equal_laws_and_the_entropy_of_separate_ones():
    rng = np.random.default_rng(1)
    clients = np.repeat(np.arange(4), 200)
    noise = rng.standard_normal((800, 3))
    assert mutual_information(noise, clients) < 0.06
    assert mutual_information(noise + 100 * clients[:, None], clients) == pytest.approx(
        math.log(4), abs=0.01
    )
    assert np.linalg.norm(isotropic(noise, noise), axis=1) == pytest.approx(
        np.linalg.norm(noise, axis=1)
    )


def test_a_pair_loses_what_its_best_common_curvature_costs_the_worse_client():
    curves = {-1.0: 0.1, 0.0: 0.3}, {-1.0: 0.4, 0.0: 0.2}, {-1.0: 0.1, 0.0: 0.25}
    graphs = [
        GraphCurvature(
            number, 9, 9, 4.0, -float(number), 0.0, 0.0,
            {DIM: Fit(0.0, min(curve.values()), 0.1, 0.1, 0.1, curve)},
        )
        for number, curve in enumerate(curves)
    ]  # fmt: skip
    pairs = pairs_of(graphs)
    assert pairs.difference == pytest.approx([1, 2, 1])
    assert pairs.distortion == pytest.approx([0.3, 0.1, 0.25])
    assert pairs.loss == pytest.approx([0.1, 0.0, 0.05])


def test_the_data_of_a_run_are_counted(tmp_path):
    write_tu(tmp_path / "data", "MUTAG")
    result = run(
        tmp_path, method="fedavg", dataset="mutag", clients=2, data_dir=str(tmp_path / "data")
    )
    statistics = [client["statistics"] for client in result.described["clients"]]
    totals = {
        name: sum(figures[f"num_{name}"] for figures in statistics)
        for name in ("graphs", "nodes", "edges")
    }
    measured = counts(result.path, list(COUNTS))
    assert measured["mean_graphs"] == totals["graphs"] == 24
    assert measured["mean_nodes"] == totals["nodes"] / 24
    assert measured["mean_edges"] == totals["edges"] / 24
    assert measured["mean_classes"] == 3
    assert 0 <= measured["mean_clustering"] <= 1


def loss_by_torch(weights, of, curvatures):
    """The mean of the clients' cross-entropies by FlatLand's own layer, with the penalty."""
    losses = []
    for client, curvature in enumerate(curvatures):
        layer = LorentzLinear(flatland_rate.DIM, flatland_rate.CLASSES).double()
        time, space = weights[client, :, 0], weights[client, :, 1:]
        values = {"weight": space, "bias": torch.zeros_like(time), "time": time}
        inputs = torch.from_numpy(of.points[client, :, 1:])
        logits = torch.func.functional_call(layer, values, (inputs, float(curvature)))
        loss = F.cross_entropy(logits, torch.from_numpy(of.labels[client]))
        losses.append(loss + flatland_rate.PENALTY / 2 * weights[client].square().sum())
    return torch.stack(losses).mean()


@pytest.mark.parametrize("size", [0.0, 0.7])
def test_the_convex_problem_is_that_of_flatlands_layer(size):
    curvatures = -size * np.linspace(1, 3, 3)
    of = flatland_rate.problem(curvatures)
    start = np.random.default_rng(2).standard_normal((3, flatland_rate.CLASSES, 5))
    weights = torch.from_numpy(start).requires_grad_()
    loss = loss_by_torch(weights, of, curvatures)
    loss.backward()
    assert float(flatland_rate.objective(start, of)) == pytest.approx(loss.item(), rel=1e-12)
    slopes = flatland_rate.gradients(start, of.points, of.labels) / 3
    np.testing.assert_allclose(slopes, weights.grad.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("first", [0, 1])
def test_no_shared_or_personal_direction_leads_down_from_the_optimum(first):
    of = flatland_rate.problem(np.array([-2.0, -1.0]))
    best = flatland_rate.optimum(of, first)
    assert (best[0, :, 1:] == best[1, :, 1:]).all()
    assert (best[0, :, 0] == best[1, :, 0]).all() == (first == 0)
    slopes = flatland_rate.gradients(best, of.points, of.labels)
    assert np.abs(flatland_rate.averaged(slopes, first)).max() < 1e-6


def test_gaps_fall_as_1_over_t_at_the_falling_rate_alone():
    of = flatland_rate.problem(np.array([-2.0, -1.0, -0.7]))
    at = np.unique(np.geomspace(1, 1000, 30).astype(np.int64))
    falling = flatland_rate.gaps(of, 1, "falling", 20, at)
    constant = flatland_rate.gaps(of, 1, "constant", 20, at)
    assert (falling > 0).all()
    assert flatland_rate.slope(at, falling) == pytest.approx(-1, abs=0.3)
    assert abs(flatland_rate.slope(at, constant)) < 0.3
    assert flatland_rate.gaps(of, 1, "falling", 20, at[:5]).tolist() == falling[:5].tolist()


def test_the_slope_of_a_power_is_its_exponent():
    at = np.arange(1, 101)
    assert flatland_rate.slope(at, 3.0 / at**2) == pytest.approx(-2)


def test_full_steps_keep_the_papers_bound():
    of = flatland_rate.problem(np.array([-2.0, -0.7]))
    squares, bound = flatland_rate.least_gradients(of, 60)
    assert (squares <= bound / np.arange(1, 61)).all()
    assert squares[-1] < 1e-3 * squares[0]


def slopes_of(weights, of):
    """Each client's own gradients (C, k, 1 + d)."""
    return flatland_rate.gradients(weights, of.points, of.labels)


def squares(of_columns):
    return float(np.square(of_columns).sum())


@pytest.mark.parametrize("seed", range(5))
def test_a_step_descends_by_the_gradient_less_what_the_proximal_term_adds(seed):
    """Lemma 9 and Eq. 30, for any δ that is added to the shared gradient."""
    rng = np.random.default_rng(seed)
    of = flatland_rate.problem(np.array([-2.0, -1.0, -0.7]), seed)
    weights = rng.standard_normal((3, flatland_rate.CLASSES, 5))
    weights = flatland_rate.averaged(weights, 1)
    slopes = slopes_of(weights, of)
    shared = slopes[..., 1:].mean(axis=0)
    added = rng.standard_normal(shared.shape) * 10.0 ** rng.uniform(-2, 1)
    step = slopes.copy()
    step[..., 1:] = shared + added
    after = weights - step / of.smoothness
    length = squares(shared) + squares(slopes[..., :1]) / 3
    bound = (squares(added) - length) / (2 * of.smoothness)
    before = float(flatland_rate.objective(weights, of))
    assert float(flatland_rate.objective(after, of)) <= before + bound


@pytest.mark.parametrize("strength", [0.05, 0.5, 5.0])
def test_clients_leave_the_shared_weights_by_no_more_than_their_gradients_allow(strength):
    """Definitions 7 and 8, and Eqs. 33 and 34, for local work that is stopped early."""
    of = flatland_rate.problem(np.array([-2.0, -1.0, -0.7]), 1)
    start = np.random.default_rng(4).standard_normal((3, flatland_rate.CLASSES, 5))
    start = flatland_rate.averaged(start, 1)

    def proximal_slopes(weights):
        slopes = slopes_of(weights, of)
        slopes[..., 1:] += 2 * strength * (weights - start)[..., 1:]
        return slopes

    weights = start
    for _ in range(4):
        weights = weights - proximal_slopes(weights) / (of.smoothness + 2 * strength)
    first = slopes_of(start, of)
    lengths = np.linalg.norm(first.reshape(3, -1), axis=1)
    left = np.linalg.norm(proximal_slopes(weights).reshape(3, -1), axis=1)
    inexactness = float((left / lengths).max())
    assert 0 < inexactness < 1
    delta = 2 * strength * (weights - start)[..., 1:].mean(axis=0)
    factor = ((1 + inexactness) / flatland_rate.PENALTY) ** 2
    mean_square = float(np.square(lengths).mean())
    assert squares(delta) / (4 * strength**2) <= factor * mean_square
    whole = squares(first[..., 1:].mean(axis=0)) + squares(first[..., :1]) / 3
    dissimilarity = mean_square / whole
    assert dissimilarity >= 1
    # Of a single step from the shared weights nothing is added at all.
    once = start - proximal_slopes(start) / of.smoothness
    np.testing.assert_array_equal(once, start - first / of.smoothness)
