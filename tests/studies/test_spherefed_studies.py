"""The studies of SphereFed: counted costs of its classifier and of training, and the features of
finished runs with other classifiers on them."""

import numpy as np
import pytest
import torch
from app_runs import QUICK, run
from torch import nn

from curvfed.tasks.heads import HeadSpec, make_head
from curvfed.tasks.images.models import ImageNet
from studies import calibrations, classifier_cost, classifier_start, features, training_cost


@pytest.mark.parametrize("method", classifier_cost.METHODS)
def test_counts_agree_with_the_printed_digits(method):
    cost = classifier_cost.table()[method]
    megabytes, operations, _ = classifier_cost.printed()[method]
    assert cost.megabytes == pytest.approx(megabytes, abs=0.6)
    assert cost.giga_operations == pytest.approx(operations, rel=0.06)


def test_triangles_in_float64_are_about_as_long_as_whole_matrices_in_float32():
    measured = classifier_cost.sent_here()
    assert measured["CCVR"] == pytest.approx(classifier_cost.table()["CCVR"].megabytes, rel=0.01)


def test_a_round_and_what_is_sent_once_are_all_that_is_sent():
    heads = classifier_cost.COLUMNS
    table = [dict(zip(heads, row, strict=True)) for row in classifier_cost.rows()]
    layers = [int(row["layers sent a round, here"]) for row in table]
    assert layers[0] == layers[1] == layers[2] + 1
    for row, method in zip(table, classifier_cost.METHODS, strict=True):
        a_round = float(row["kB of the classifier a round and way, here"])
        assert a_round == (0 if row["sent every round, paper"] == "" else 1280 * 100 * 4 / 1e3)
        in_all = 2 * classifier_cost.ROUNDS * a_round + float(row["kB once, here"])
        assert in_all == pytest.approx(1e3 * classifier_cost.sent_here()[method], abs=1)


def test_the_papers_steps_spread_rows_and_ways_stand_beside_its_seconds(
    trained_run, monkeypatch, tmp_path
):
    spread = classifier_start.by_gradient(5, 8, 0, steps=2000)
    assert classifier_start.largest_cosine(spread) == pytest.approx(-1 / 4, abs=0.02)
    np.testing.assert_allclose(spread.norm(dim=1), 1, rtol=1e-6)
    ways = classifier_start.WAYS
    few = ways["uniform by the paper's steps"]
    quick = (lambda *shape: classifier_start.by_gradient(*shape, steps=2), *few[1:])
    monkeypatch.setitem(ways, "uniform by the paper's steps", quick)
    table = tmp_path / "table.csv"
    assert classifier_start.main([str(trained_run.path), "--to", str(table)]) == 0
    lines = table.read_text(encoding="utf-8-sig").splitlines()[1:]
    qr, simplex, tammes = (line.split(",") for line in lines)
    accuracy = f"{100 * trained_run.summary['global_accuracy']:.1f} ± 0.0"
    assert (qr[1:4], qr[6:]) == (["1280", "100", "0.02"], ["71.85", accuracy])
    assert (simplex[3], simplex[5], simplex[6:]) == ("", f"{-1 / 99:.4f}", ["", ""])
    assert (tammes[3], tammes[6]) == ("13.1", "71.36")


def test_memory_and_bytes_are_those_of_a_network_counted_by_hand(monkeypatch):
    monkeypatch.setattr(training_cost, "CLASSES", 3)
    model = ImageNet(nn.Sequential(nn.Flatten()), make_head(HeadSpec("linear", 3, 4)))
    images, labels = torch.ones(5, 1, 2, 2), torch.tensor([0, 1, 2, 0, 1])
    # parameters, gradients and momentum; images, log-softmax (5, 3), labels and the total weight
    state = 3 * 4 * 15
    stored_bytes = training_cost.memory(model, images, labels, "cross-entropy") - state
    assert 4 * (20 + 15) + 8 * 5 <= stored_bytes <= 4 * (20 + 15 + 15 + 1) + 8 * 5
    assert training_cost.sent(model) == 4 * 200 * 15


@pytest.mark.long
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
    scores = calibrations.scores_of(trained_run.path)
    fixed, virtual, closed, trained = scores.values()
    assert fixed.accuracy == trained_run.summary["metrics"]["global_accuracy_uncalibrated"]
    assert closed.accuracy == trained_run.summary["global_accuracy"]
    assert trained.accuracy > fixed.accuracy
    weight = trained_run.model["head.weight"]
    classes, dim = weight.shape
    sums = dim * (dim + 1) // 2
    assert (fixed.kilobytes, fixed.seconds) == (0, 0)
    assert closed.kilobytes == pytest.approx(8 * (sums + dim * classes) / 1e3)
    assert virtual.kilobytes == pytest.approx(8 * classes * (1 + dim + sums) / 1e3)
    assert min(virtual.seconds, closed.seconds, trained.seconds) >= 0
    rows = calibrations.table_rows({"digits": [scores]})
    assert [row[1:3] for row in rows] == [
        ["65.07", "61.66"],
        ["65.03", "62.09"],
        ["65.15", "62.61"],
        ["65.17", "62.64"],
    ]
    assert rows[2][3] == f"{100 * closed.accuracy:.1f} ± 0.0"
