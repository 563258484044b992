"""The counts of the study of SphereFed's training cost."""

import torch
from torch import nn

from curvfed.tasks.heads import HeadSpec, make_head
from curvfed.tasks.images.models import ImageNet
from studies import training_cost


def test_memory_and_bytes_are_those_of_a_network_counted_by_hand(monkeypatch):
    monkeypatch.setattr(training_cost, "CLASSES", 3)
    model = ImageNet(nn.Sequential(nn.Flatten()), make_head(HeadSpec("linear", 3, 4)))
    images, labels = torch.ones(5, 1, 2, 2), torch.tensor([0, 1, 2, 0, 1])
    # parameters, gradients and momentum; images, log-softmax (5, 3), labels and the total weight
    state = 3 * 4 * 15
    kept = training_cost.memory(model, images, labels, "cross-entropy") - state
    assert 4 * (20 + 15) + 8 * 5 <= kept <= 4 * (20 + 15 + 15 + 1) + 8 * 5
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
