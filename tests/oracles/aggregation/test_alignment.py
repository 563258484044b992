"""How far classifiers agree, against the paper's equations pair by pair."""

import itertools

import numpy as np
import pytest
from app_runs import QUICK, run

from curvfed.server_app.callbacks.choice import alignment
from curvfed.strategies.base.statistics import Statistics


def updates(weights: np.ndarray, examples: int = 10) -> dict[int, Statistics]:
    return {
        client: Statistics({"head.weight": row, "body": row[:1]}, examples)
        for client, row in enumerate(weights)
    }


@pytest.mark.parametrize(("clients", "classes", "dim"), [(2, 1, 1), (3, 4, 5), (7, 10, 3)])
def test_means_over_all_pairs(clients, classes, dim):
    rng = np.random.default_rng(clients)
    weights = (
        rng.normal(size=(clients, classes, dim)) * rng.uniform(0.1, 10, (clients, classes, 1))
    ).astype(np.float32)
    exact = weights.astype(np.float64)
    pairs = [
        (exact[i, c], exact[j, c])
        for i, j in itertools.permutations(range(clients), 2)
        for c in range(classes)
    ]
    lengths = np.linalg.norm(pairs, axis=-1)
    cosines = [
        first @ second / long / short
        for (first, second), (long, short) in zip(pairs, lengths, strict=True)
    ]
    figures = alignment(updates(weights))
    assert figures["classifier_cosine"] == pytest.approx(np.mean(cosines), abs=1e-12)
    assert figures["classifier_norm_gap"] == pytest.approx(
        np.abs(lengths[:, 0] - lengths[:, 1]).mean(), rel=1e-12
    )


def test_equal_classifiers_agree_wholly_and_rows_of_zeros_have_no_direction():
    weights = np.random.default_rng(0).normal(size=(1, 3, 4)).repeat(5, axis=0)
    assert alignment(updates(weights)) == pytest.approx(
        {"classifier_cosine": 1.0, "classifier_norm_gap": 0.0}, abs=1e-12
    )
    weights[2, 1] = 0
    assert alignment(updates(weights))["classifier_cosine"] == pytest.approx(1.0)
    assert set(alignment(updates(0 * weights))) == {"classifier_norm_gap"}


def test_it_takes_two_who_trained_a_classifier():
    weights = np.ones((3, 2, 2))
    assert (
        alignment(updates(weights[:1]))
        == alignment({})
        == alignment(updates(weights, examples=0))
        == {}
    )
    assert (
        alignment({client: Statistics({"body": np.ones((2, 2))}, 1) for client in range(3)}) == {}
    )
    half = updates(weights) | {0: Statistics({"head.weight": -weights[0]}, 0)}
    assert alignment(half)["classifier_cosine"] == pytest.approx(1.0)


def test_a_run_tells_it_where_classifiers_are_sent(tmp_path):
    tells = run(tmp_path, method="fedavg", **QUICK["images"])
    assert [
        0 < float(row["classifier_cosine"]) <= 1 for row in tells.rounds if row["phase"] == "train"
    ] == [True, True]
    assert all(
        float(row["classifier_norm_gap"]) >= 0 for row in tells.rounds if row["phase"] == "train"
    )
    fixed = run(tmp_path, "fixed", method="spherefed", **QUICK["images"])
    assert {row["classifier_cosine"] for row in fixed.rounds} == {""}
