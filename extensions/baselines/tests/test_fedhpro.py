"""FedHPro against its loss and gradients in NumPy, and the values of its authors' functions."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_learning import (
    assert_near,
    batches,
    cross_entropy,
    features,
    gradient,
    learner,
    softmax_loss,
    state,
)

from curvfed.extensions.baselines.methods import fedhpro
from curvfed.extensions.baselines.methods.fedhpro import COUNTS, PROTOTYPES, SUMS
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import Leaving, Statistics

RATE = 0.3
EPOCHS = 2


def waves(*shape, step=1.0):
    """The inputs that the authors' functions were given."""
    return torch.sin(step * torch.arange(1, np.prod(shape) + 1, dtype=torch.float64)).reshape(shape)


def test_the_terms_have_the_values_of_the_authors_functions():
    """`match_loss` with `dis_metric="cos"`, `calculate_infonce_batch` times the batch size, and the
    smooth L1 loss of `local_train`."""
    prototypes = waves(3, 2, 4)
    weight = waves(3, 4, step=2.0)
    bias = waves(3, step=3.0)
    z = waves(5, 4, step=0.7)
    labels = torch.tensor([0, 2, 1, 1, 2])
    apart = fedhpro.mismatch(prototypes, weight, bias, waves(3, 4, step=1.3))
    assert apart.tolist() == pytest.approx([0.97498721, 0.77437595, 1.37312298], abs=1e-6)
    for margin, expected in ((0.0, 0.95256254), (0.8, 1.16850898)):
        term = fedhpro.contrast(z, labels, prototypes, 0.5, torch.tensor(margin))
        assert term.item() == pytest.approx(expected, abs=1e-7)
    aligned = fedhpro.alignment(z, labels, prototypes)
    assert aligned.item() == pytest.approx(0.16263264611921052, rel=1e-12)
    means = torch.stack([z[labels == label].mean(0) for label in range(3)])
    assert fedhpro.margin(-means).item() == 0  # theirs is -0.342, whose logarithm is none
    assert fedhpro.margin(means * torch.tensor([[1.0], [1.0], [-1.0]])).item() > 0


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def test_a_round_is_that_of_the_loss_and_the_gradients_are_those_of_the_model_received(monkeypatch):
    monkeypatch.setattr(
        fedhpro,
        "classifier_inputs",
        lambda model, task: (model.features(task.x).detach(), task.train_labels),
    )
    monkeypatch.setattr(fedhpro, "TEMPERATURE", 0.5)
    settings = {"fedhpro__prototypes": 2, "fedhpro__contrast": 0.7}
    client = learner("fedhpro", learning_rate=RATE, local_epochs=EPOCHS, **settings)
    prototypes = np.random.default_rng(3).normal(size=(3, 2, 2))
    arrays = state(client.local.model)
    client.receive(arrays | {PROTOTYPES: prototypes})
    assert not client.share()[SUMS].any()
    x = client.local.task.x.numpy()
    labels = client.local.task.train_labels.numpy()
    z = features(arrays, x)
    sums = np.zeros((3, 2))
    for row, label in zip(z, labels):

        def of_features(moved, label=label):
            logits = arrays["head.weight"] @ moved["z"] + arrays["head.bias"]
            return cross_entropy(logits[None], np.array([label]))

        sums[label] += gradient(of_features, {"z": row})["z"] / len(z)
    means = np.stack([z[labels == label].mean(axis=0) for label in range(3)])
    products = means @ means.T
    margin = max((products.sum() - products.trace()) / 4, 0)
    centres = unit(prototypes).mean(axis=1)
    directions = unit(prototypes.mean(axis=1))
    received = arrays
    for _ in range(EPOCHS):
        for x, labels in batches(client.local.task):

            def loss(moved):
                v = unit(features(moved, x))
                logits = v @ centres.T / 0.5
                total = np.log(np.exp(logits).sum(axis=1) + margin)
                apart = (total - logits[np.arange(len(v)), labels]).mean()
                off = np.abs(v - directions[labels])
                aligned = np.where(off < 1, off**2 / 2, off - 0.5).mean()
                return softmax_loss(moved, x, labels) + 0.7 * apart + aligned

            slopes = gradient(loss, arrays)
            arrays = {name: array - RATE * slopes[name] for name, array in arrays.items()}
    client.train()
    labels = client.local.task.train_labels.numpy()
    counts = np.bincount(labels, minlength=3) / len(labels)
    assert_near(client.share(), arrays | {SUMS: sums, COUNTS: counts}, 1e-6)
    client.local = replace(client.local, leaving=Leaving(int(np.bincount(labels).max())))
    client.receive(received | {PROTOTYPES: prototypes})
    client.train()
    is_large = np.bincount(labels, minlength=3) == np.bincount(labels).max()
    assert (client.share()[SUMS].any(axis=1) == is_large).all()


def server_of(seed):
    keys = fedhpro.Keys(prototypes=2)
    rng = np.random.default_rng(0)
    shapes = {"head.weight": (3, 4), "head.bias": (3,)}
    start = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return fedhpro.FedHProServer(start, keys, RunKeys(seed=seed))


def test_prototypes_of_known_classes_come_to_match_and_others_stay(monkeypatch):
    monkeypatch.setattr(fedhpro, "STEPS", 60)
    monkeypatch.setattr(fedhpro, "RATE", 0.5)
    server = server_of(4)
    before = server.sent_to(0)
    sums = np.zeros((3, 4), np.float32)
    sums[:2] = np.random.default_rng(1).normal(size=(2, 4)) @ np.eye(4)
    # gradients that some features have: combinations of the differences of rows
    rows = before["head.weight"]
    sums[0] = rows[1] - rows[0]
    sums[1] = rows[2] - rows[1]
    model = {name: before[name] for name in ("head.weight", "head.bias")}
    reply = Statistics(model | {SUMS: sums, COUNTS: np.array([0.5, 0.5, 0], np.float32)}, 4)
    server.aggregate({0: reply})
    after = server.sent_to(1)
    assert after["head.weight"].tobytes() == before["head.weight"].tobytes()
    assert (after[PROTOTYPES][2] == before[PROTOTYPES][2]).all()
    head = [torch.from_numpy(model[name]) for name in model]
    apart = [
        fedhpro.mismatch(torch.from_numpy(sent[PROTOTYPES]), *head, torch.from_numpy(sums))[:2]
        for sent in (before, after)
    ]
    assert apart[1].sum() < 0.3 * apart[0].sum()
    resumed = server_of(9)
    resumed.load(server.state())
    for continued in (server, resumed):
        continued.aggregate({0: reply})
    assert server.sent_to(0)[PROTOTYPES].tobytes() == resumed.sent_to(0)[PROTOTYPES].tobytes()
