"""Discriminant analysis through a run's secure sum, against scikit-learn on all points."""

import warnings

import numpy as np
import pytest
import torch
from app_runs import run
from equal_runs import same_arrays
from predictions import ask
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

from curvfed.extensions.cells.methods.discriminant import discriminant, scores
from curvfed.geometry import poincare
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report.run_page import run_page
from curvfed.strategies.base.moments import class_moments
from curvfed.strategies.hull.classifier import Classifier
from curvfed.tasks.points.dataset import PointDataset
from curvfed.tasks.points.point_spec import PointSpec

ORACLES = {
    "lda": LinearDiscriminantAnalysis,
    "qda": lambda: QuadraticDiscriminantAnalysis(store_covariance=True),
}


def points_of(seed, classes, num=60, curvature=-1.0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, num * classes)
    tangents = rng.normal(0, 2, (classes, 2))[labels] + rng.normal(0, 0.5, (len(labels), 2))
    points = poincare.exp0(torch.from_numpy(tangents), curvature).numpy()
    return points, labels


@pytest.mark.parametrize("kind", ORACLES)
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("curvature", [-1.0, -0.3])
def test_equals_the_classifier_of_all_points(kind, classes, curvature):
    points, labels = points_of(0, classes, curvature=curvature)
    tangents = poincare.log0(torch.from_numpy(points), curvature).numpy()
    unit = tangents * np.sqrt(-curvature)
    parts = [class_moments(unit[client::3], labels[client::3], classes) for client in range(3)]
    assert parts[0].shape == (classes, 6)
    classifier, _ = discriminant(sum(parts), kind, curvature)
    expected = ORACLES[kind]().fit(tangents, labels).predict_proba(tangents)
    np.testing.assert_allclose(classifier.probabilities(points), expected, atol=1e-8)
    stored = Classifier.from_arrays(classifier.arrays())
    np.testing.assert_array_equal(stored.probabilities(points), classifier.probabilities(points))


@pytest.mark.parametrize("kind", ORACLES)
def test_in_more_dimensions(kind):
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(4), 40)
    tangents = rng.normal(0, 1, (4, 6))[labels] + rng.normal(0, 1, (160, 6))
    _, q, w, b, _ = scores(class_moments(tangents, labels, 4), kind)
    logs = np.einsum("ni,jik,nk->nj", tangents, q, tangents) + tangents @ w.T + b
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    expected = ORACLES[kind]().fit(tangents, labels).predict_proba(tangents)
    np.testing.assert_allclose(shares / shares.sum(axis=1, keepdims=True), expected, atol=1e-8)


@pytest.mark.parametrize("kind", ORACLES)
def test_a_run_equals_the_classifier_of_all_points(tmp_path, kind):
    path = tmp_path / "points.npz"
    points, labels = points_of(2, 4)
    tested = np.arange(len(points)) % 5 == 0
    parts = {"x_train": points[~tested], "y_train": labels[~tested]}
    np.savez(path, x_test=points[tested], y_test=labels[tested], **parts)
    result = run(
        tmp_path, method="discriminant", dataset=str(path), discriminant__kind=kind, clients=4
    )
    summary = result.summary
    assert summary["status"] == "completed"
    assert summary["metrics"]["sum_error"] < 1e-8
    pooled = PointDataset(PointSpec(str(path), tmp_path)).pooled()
    assert summary["metrics"]["points_summed"] == pooled.train.sum()
    tangents = poincare.log0(torch.from_numpy(pooled.points), -1.0).numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oracle = ORACLES[kind]().fit(tangents[pooled.train], pooled.train_labels)
    classifier = Classifier.from_arrays(result.model)
    np.testing.assert_allclose(
        classifier.probabilities(pooled.points), oracle.predict_proba(tangents), atol=1e-8
    )
    names = classifier.predict(pooled.test_points)
    assert summary["global_accuracy"] == pytest.approx(np.mean(names == pooled.test_labels))


def test_a_resumed_run_sums_nothing_anew(tmp_path):
    points, labels = points_of(2, 4)
    np.savez(tmp_path / "points.npz", x_train=points, y_train=labels)
    settings = {"method": "discriminant", "dataset": str(tmp_path / "points.npz")}
    first = run(tmp_path, **settings)
    for name in ("model.safetensors", "summary.json"):
        (first.path / name).unlink()
    resumed = run(tmp_path, resume=True, **settings)
    assert same_arrays(resumed.model, first.model)
    assert [row["phase"] for row in resumed.rounds].count("moments") == 1


def test_too_few_classes_for_a_classifier():
    tangents = np.arange(10.0).reshape(5, 2)
    with pytest.raises(ValueError, match="points of 1 class;"):
        scores(class_moments(tangents, np.zeros(5, int), 3), "lda")


def points_with_rare_classes():
    """Three classes of 40 points; one of two points, and one of ten on a line."""
    rng = np.random.default_rng(4)
    centres = rng.normal(0, 2, (3, 2))
    labels = np.repeat(np.arange(5), [40, 40, 40, 2, 10])
    tangents = np.concatenate(
        [
            centres[labels[:120]] + rng.normal(0, 0.5, (120, 2)),
            [[1.0, 1.5], [1.2, 1.4]],
            np.linspace(0, 1, 10)[:, None] * [0.3, -0.7] - 1,
        ]
    )
    return tangents, labels


def test_a_rare_class_has_the_covariance_of_all():
    tangents, labels = points_with_rare_classes()
    _, q, w, b, is_pooled = scores(class_moments(tangents, labels, 5), "qda")
    shared = LinearDiscriminantAnalysis(solver="lsqr", store_covariance=True)
    shared.fit(tangents, labels)
    covariances = [np.cov(tangents[labels == label].T, bias=True) for label in range(3)]
    covariances += 2 * [shared.covariance_]
    assert is_pooled.tolist() == [False] * 3 + [True] * 2
    for label, covariance in enumerate(covariances):
        members = tangents[labels == label]
        away = tangents - members.mean(axis=0)
        expected = -0.5 * np.einsum("ni,ij,nj->n", away, np.linalg.inv(covariance), away)
        expected += np.log(len(members) / len(labels)) - 0.5 * np.log(np.linalg.det(covariance))
        logs = np.einsum("ni,ik,nk->n", tangents, q[label], tangents)
        logs += tangents @ w[label] + b[label]
        np.testing.assert_allclose(logs, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ORACLES)
@pytest.mark.parametrize("scale", [0.0, 0.2374])
def test_equal_points_have_the_largest_class(kind, scale):
    tangents = np.full((600, 2), scale) * [1, 0.3333]
    moments = class_moments(tangents, np.arange(600) % 3 // 2, 2)
    classifier, _ = discriminant(moments, kind, -1.0)
    elsewhere = np.random.default_rng(0).uniform(-0.6, 0.6, (20, 2))
    np.testing.assert_allclose(classifier.probabilities(elsewhere)[:, 0], 2 / 3, atol=0.02)


@pytest.mark.parametrize("kind", ORACLES)
def test_classes_on_parallel_lines_are_reported_apart(kind):
    labels = np.arange(60) % 2
    tangents = np.stack([np.linspace(-1, 1, 60), 0.1 * labels], axis=1)
    classifier, _ = discriminant(class_moments(tangents, labels, 2), kind, -1.0)
    points = poincare.exp0(torch.from_numpy(tangents), -1.0).numpy()
    assert classifier.predict(points).tolist() == labels.tolist()


def test_a_variance_below_the_error_of_the_sum_is_none():
    tangents, labels = points_of(0, 2)
    total = class_moments(poincare.log0(torch.from_numpy(tangents), -1.0).numpy(), labels, 2)
    assert not scores(total, "qda", error=1e-8)[-1].any()
    assert scores(total, "qda", error=1e3)[-1].all()


def test_a_run_with_a_rare_class_completes_and_warns(tmp_path):
    tangents, labels = points_with_rare_classes()
    points = poincare.exp0(torch.from_numpy(tangents), -1.0).numpy()
    np.savez(tmp_path / "points.npz", x_train=points, y_train=labels)
    summary = run(tmp_path, method="discriminant", dataset=str(tmp_path / "points.npz")).summary
    assert summary["status"] == "completed"
    assert summary["metrics"]["classes_pooled"] == 2
    assert "2 classes have fewer than 3 points" in " ".join(summary["warnings"])


@pytest.mark.parametrize(("kind", "form"), [("qda", "quadratic"), ("lda", "linear")])
def test_a_prediction_names_the_model(kind, form, capsys, tmp_path):
    keys = {"method": "discriminant", "dataset": "uniform", "points__num": 300}
    made = run(tmp_path, discriminant__kind=kind, **keys)
    tables = {table.title: table for table in run_page(RunFiles(made.path)).tables}
    phases = [names[0] for names, _ in tables["Messages and time"].rows]
    assert "moments" in phases
    assert "hulls" not in phases
    assert "C = inf" not in "".join(capsys.readouterr())
    notes = ask(capsys, made.path, "uniform")[1]
    words = f"{form} discriminant analysis of tangent vectors, by the clients' moments"
    assert notes["model"] == f"global, {words}"
