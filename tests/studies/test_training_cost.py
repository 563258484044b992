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
