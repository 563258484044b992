"""Rounds on points: an averaged logistic model of tangent vectors at the origin."""

import numpy as np
import pytest
from app_runs import run

from curvfed.deployments.predict import TrainedRun, predict
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.tasks.points.dataset import PointDataset

DATA = {"dataset": "uniform", "points__num": 300, "points__curvature": -0.25}


def tangents(points, curvature):
    """log0 at curvature -1, by its formula."""
    length = np.linalg.norm(points, axis=1, keepdims=True)
    return points / length * np.arctanh(length * np.sqrt(-curvature))


@pytest.mark.parametrize("masked", [False, True], ids=["open", "masked"])
def test_one_step_a_round_is_gradient_descent_on_all_points(masked, tmp_path):
    rounds, rate, clients = 4, 0.5, 3
    result = run(
        tmp_path,
        clients=clients,
        method="fedavg",
        num_rounds=rounds,
        local_epochs=1,
        batch_size=0,
        optimizer="sgd",
        momentum=0.0,
        learning_rate=rate,
        weight_decay=0.0,
        secure_sum=masked,
        **DATA,
    )
    keys = {"dataset": "uniform", "points.num": 300, "points.curvature": -0.25, "method": "fedavg"}
    config = resolve_defaults(parse(keys), "points")
    parts = [PointDataset.of_run(config).client(one, clients) for one in range(clients)]
    inputs = np.concatenate([tangents(part.train_points, -0.25) for part in parts])
    labels = np.concatenate([part.train_labels for part in parts])
    weight, bias = np.zeros((2, 2)), np.zeros(2)
    for _ in range(rounds):
        scores = inputs @ weight.T + bias
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        error = shares / shares.sum(axis=1, keepdims=True) - np.eye(2)[labels]
        weight, bias = (
            weight - rate * error.T @ inputs / len(labels),
            bias - rate * error.mean(axis=0),
        )
    np.testing.assert_allclose(result.model["head.weight"], weight, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(result.model["head.bias"], bias, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["fedavg", "fedprox"])
def test_the_global_model_is_scored_as_it_predicts(method, tmp_path):
    result = run(tmp_path, method=method, num_rounds=10, **DATA)
    assert result.summary["global_accuracy"] > 0.9
    prediction = predict(TrainedRun.read(result.path), "uniform")
    assert (
        prediction.notes["accuracy on the global test points"]
        == f"{result.summary['global_accuracy']:.4f}"
    )
    assert prediction.probabilities.min() >= 0.5  # of two classes


def test_local_models_stay_and_predict_for_their_client(tmp_path):
    result = run(tmp_path, method="local", num_rounds=10, **DATA)
    assert result.summary["global_accuracy"] is None
    prediction = predict(TrainedRun.read(result.path), "uniform", client=1)
    assert (
        prediction.notes["model"]
        == "global, with the personal parameters of client 1 after round 10"
    )
    assert float(prediction.notes["accuracy on the training points"]) > 0.9
