"""FedETF against its loss in NumPy, its prototypes, and what its fine-tuning trains."""

import copy
from dataclasses import replace

import numpy as np
import torch
from tiny_learning import assert_near, batches, cross_entropy, features, gradient, learner, state
from torch import nn

from curvfed.strategies.config.build_method import fixed_parameters, model_spec
from curvfed.strategies.config.parse import parse
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks.heads import HeadSpec, make_head

RATE = 0.3
EPOCHS = 2
FACTS = Facts("images", 64, tuple("abcde"), shape="1x8x8")


def new(**settings):
    head = make_head(HeadSpec("sphere", 3, 2, fixed=True, start="uniform", learns_scale=True))
    settings = {"learning_rate": RATE, "local_epochs": EPOCHS} | settings
    return learner("fedetf", head=head, **settings)


def test_a_round_is_that_of_the_balanced_loss_of_scaled_cosines():
    client = new()
    arrays = {name: array.astype(np.float64) for name, array in state(client.local.model).items()}
    prior = np.log(np.bincount(client.local.task.train_labels.numpy(), minlength=3))
    for _ in range(EPOCHS):
        for x, labels in batches(client.local.task):

            def loss(moved):
                z = features(moved, x)
                cosines = z / np.linalg.norm(z, axis=1, keepdims=True) @ moved["head.weight"].T
                return cross_entropy(moved["head.scale"] * cosines + prior, labels)

            slopes = gradient(loss, arrays) | {"head.weight": 0.0}  # fixed
            arrays = {name: array - RATE * slopes[name] for name, array in arrays.items()}
    client.train()
    assert_near(state(client.local.model), arrays, 1e-7)


def test_the_server_sends_the_corners_of_a_simplex_and_the_temperature_is_shared():
    config = parse({"method": "fedetf", "dataset": "digits", "embedding-dim": 4})
    corners = fixed_parameters(config, FACTS)
    assert corners.keys() == {"head.weight"}
    cosines = corners["head.weight"] @ corners["head.weight"].T
    np.testing.assert_allclose(cosines, 1.25 * np.eye(5) - 0.25, rtol=0, atol=1e-6)
    model = model_spec(config, FACTS).build(seed=0)
    assert model.head.scale.requires_grad


def test_fine_tuning_after_a_round_changes_prototypes_and_projection_alone():
    client = new(fine_tune_epochs=1)
    net = client.local.model
    net.body = nn.Sequential(net.body, nn.Linear(2, 2).to(torch.float64))
    trained = {name: p for name, p in net.named_parameters() if name != "head.weight"}
    client.local = replace(client.local, trained=trained)
    start = copy.deepcopy(net)
    assert np.isfinite(client.fine_tune().loss)
    tuned = state(net)
    net.load_state_dict(start.state_dict())
    client._tune(trained, EPOCHS, client.loss)
    changed = {name for name, array in state(net).items() if (array != tuned[name]).any()}
    assert changed == {"head.weight", "body.1.weight", "body.1.bias"}


def test_the_temperature_is_a_parameter():
    config = parse({"method": "fedetf", "dataset": "digits", "fedetf.temperature": 7.0})
    head = model_spec(config, FACTS).build(seed=0).head
    assert torch.as_tensor(head.scale).item() == 7.0
    assert "scale" in dict(head.named_parameters())
