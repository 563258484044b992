"""The studies of SphereFed: counted costs of its classifier and of training, and the features of
finished runs with other classifiers on them."""

import numpy as np
import pytest
import torch
from app_runs import QUICK, run
from torch import nn

from curvfed.tasks.heads import HeadSpec, make_head
from curvfed.tasks.images.models import ImageNet
from studies import calibrations, classifier_cost, features, training_cost


@pytest.mark.parametrize("method", classifier_cost.METHODS)
def test_counts_agree_with_the_printed_digits(method):
    cost = classifier_cost.table()[method]
    megabytes, operations = classifier_cost.printed()[method]
    assert cost.megabytes == pytest.approx(megabytes, abs=0.6)
    assert cost.giga_operations == pytest.approx(operations, rel=0.06)


def test_triangles_in_float64_are_about_as_long_as_whole_matrices_in_float32():
    measured = classifier_cost.sent_here()
    assert measured["CCVR"] == pytest.approx(classifier_cost.table()["CCVR"].megabytes, rel=0.01)


def test_memory_and_bytes_are_those_of_a_network_counted_by_hand(monkeypatch):
    monkeypatch.setattr(training_cost, "CLASSES", 3)
    model = ImageNet(nn.Sequential(nn.Flatten()), make_head(HeadSpec("linear", 3, 4)))
    images, labels = torch.ones(5, 1, 2, 2), torch.tensor([0, 1, 2, 0, 1])
    # parameters, gradients and momentum; images, log-softmax (5, 3), labels and the total weight
    state = 3 * 4 * 15
    stored_bytes = training_cost.memory(model, images, labels, "cross-entropy") - state
    assert 4 * (20 + 15) + 8 * 5 <= stored_bytes <= 4 * (20 + 15 + 15 + 1) + 8 * 5
    assert training_cost.sent(model) == 4 * 200 * 15


def test_calibrations_and_accuracies_are_those_of_runs(monkeypatch, tmp_path, capsys):
    small = {"dataset": "digits", "images.train-subset": 80, "embedding-dim": 8, "global-every": 1}
    small |= {"images.test-subset": 50, "num-rounds": 1, "local-epochs": 1}
    monkeypatch.setattr(training_cost, "RUN", training_cost.RUN | small)
    monkeypatch.setattr(training_cost, "NETWORKS", ("cnn",))
    make = training_cost.trained_run
    runs = []

    def recorded_run(*arguments):
        runs.append(make(*arguments))
        return runs[-1]

    monkeypatch.setattr(training_cost, "trained_run", recorded_run)
    picture = tmp_path / "cost.png"
    assert training_cost.main(["--data", str(tmp_path), "--to", str(picture)]) == 0
    assert picture.read_bytes()[:4] == b"\x89PNG"
    *_, last = capsys.readouterr().out.splitlines()
    _, network, ratio, *scores, _ = (cell.strip() for cell in last.split("|"))
    ccvr, sphere = (run.summary for run in runs)
    shares = (ccvr["metrics"]["global_accuracy_uncalibrated"], ccvr["global_accuracy"])
    shares += (sphere["global_accuracy"],)
    assert scores == [f"{100 * share:.1f}" for share in shares]
    assert (network, ccvr["method"], sphere["method"]) == ("`cnn`", "ccvr", "spherefed")
    assert float(ratio) > 0


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory):
    settings = QUICK["images"] | {"fine_tune_epochs": 1, "num_rounds": 1, "global_every": 1}
    return run(tmp_path_factory.mktemp("runs"), method="spherefed", **settings)


@pytest.mark.long
def test_features_of_the_global_model_and_of_clients_are_drawn(trained_run, tmp_path):
    everything = list(features.global_dots(trained_run.path))
    assert [dots.label for dots in everything] == list("0123456789")
    chosen = list(features.client_dots(trained_run.path, [0, 1], ["3"]))
    assert len(chosen[0].features) == len(chosen[1].features)
    assert not np.allclose(chosen[0].features, chosen[1].features)
    np.testing.assert_allclose(np.linalg.norm(chosen[0].features, axis=1), 1, atol=1e-6)
    for extra in ([], ["--clients", "0", "1", "--classes", "3", "5"]):
        picture = tmp_path / f"{len(extra)}.png"
        assert features.main([str(trained_run.path), "--to", str(picture), *extra]) == 0
        assert picture.read_bytes()[:4] == b"\x89PNG"


def test_the_runs_own_classifiers_have_its_accuracies(trained_run, monkeypatch):
    monkeypatch.setattr(calibrations, "EPOCHS", 5)
    fixed, _, closed, trained = calibrations.accuracies(trained_run.path).values()
    assert fixed == trained_run.summary["metrics"]["global_accuracy_uncalibrated"]
    assert closed == trained_run.summary["global_accuracy"]
    assert trained > fixed
