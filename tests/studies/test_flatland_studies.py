"""What the studies of FlatLand compute: mutual information, pairs of clients, counts of the data."""

import math

import numpy as np
import pytest
from app_runs import run
from graph_fixtures import write_tu

from curvfed.extensions.curvature.commands.graphs import GraphCurvature
from curvfed.extensions.curvature.distortion import Fit
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
