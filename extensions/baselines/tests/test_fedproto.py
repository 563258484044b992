"""FedProto and FedTGP against their losses and means in NumPy."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from app_runs import QUICK, run
from image_fixtures import write_classes
from policies import with_policy
from tiny_learning import assert_near, batches, cross_entropy, features, gradient, learner, state

from curvfed.extensions.baselines.methods import fedproto, fedtgp
from curvfed.extensions.baselines.methods.fedproto import COUNTS, MEANS, SUMS
from curvfed.server_app.run import RoundError
from curvfed.strategies.base.statistics import Leaving, Statistics
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.secure_phases import whole_counts
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.heads import HeadSpec, make_head

RATE = 0.3
EPOCHS = 2
WEIGHT = 0.7


def new(monkeypatch, **settings):
    monkeypatch.setattr(
        fedproto,
        "classifier_inputs",
        lambda model, task: (model.features(task.x).detach(), task.train_labels),
    )
    choices = {"learning_rate": RATE, "local_epochs": EPOCHS, "weights": "examples"}
    settings = choices | settings
    return learner("fedproto", head=make_head(HeadSpec("means", 3, 2)), **settings)


def test_a_round_is_that_of_the_loss_and_the_sums_are_those_of_its_model(monkeypatch):
    """The third class has no prototype."""
    client = new(monkeypatch, fedproto__weight=WEIGHT)
    means = np.array([[0.3, -0.2], [0.5, 0.9], [0.0, 0.0]])
    client.receive({MEANS: means})
    arrays = state(client.local.model)
    for _ in range(EPOCHS):
        for x, labels in batches(client.local.task):

            def loss(moved):
                z = features(moved, x)
                pulls = np.square(z - means[labels]).mean(axis=1) * (labels < 2)
                logits = z @ moved["head.weight"].T + moved["head.bias"]
                return cross_entropy(logits, labels) + WEIGHT * pulls.mean()

            slopes = gradient(loss, arrays)
            arrays = {name: array - RATE * slopes[name] for name, array in arrays.items()}
    client.train()
    assert_near(state(client.local.model), arrays, 1e-7)
    x = client.local.task.x.numpy()
    labels = client.local.task.train_labels.numpy()
    z = features(arrays, x)
    sums = np.stack([z[labels == label].sum(axis=0) for label in range(3)]) / len(z)
    counts = np.bincount(labels, minlength=3) / len(z)
    assert_near(client.share(), {SUMS: sums, COUNTS: counts}, 1e-7)
    client.receive({MEANS: means})
    assert not any(array.any() for array in client.share().values())  # not trained since
    client.local = replace(client.local, leaving=Leaving(int(np.bincount(labels).max())))
    client.train()
    is_large = np.bincount(labels, minlength=3) == np.bincount(labels).max()
    assert not is_large.all()
    shared = client.share()
    assert (shared[SUMS].any(axis=1) == is_large).all()
    assert_near({COUNTS: shared[COUNTS]}, {COUNTS: counts * is_large}, 1e-7)
    # Under a smaller weight counts are the divisors of the sums, so neither is rounded.
    assert_near(whole_counts(shared, 1), shared, 0)


def test_uniform_weights_share_plain_means(monkeypatch):
    clients = [new(monkeypatch, weights=weights) for weights in ("examples", "uniform")]
    for client in clients:
        client.receive({MEANS: np.zeros((3, 2))})
        client.train()
    totals, means = (client.share() for client in clients)
    assert set(means[COUNTS]) <= {0, 1}
    assert_near({SUMS: means[SUMS] * totals[COUNTS][:, None]}, {SUMS: totals[SUMS]}, 1e-7)


def client_reply(z, labels):
    """What a client with these features sends."""
    sums = np.zeros((3, 2), np.float32)
    np.add.at(sums, labels, z)
    counts = np.bincount(labels, minlength=3).astype(np.float32)
    return Statistics({SUMS: sums / len(z), COUNTS: counts / len(z)}, weight=len(z))


def replies_of(rng):
    """Features and labels of two clients, neither with the third class, and their replies."""
    z = rng.normal(size=(9, 2)).astype(np.float32)
    labels = np.array([0, 0, 1, 0, 1, 1, 1, 1, 0])
    split = {0: slice(0, 3), 1: slice(3, 9)}
    return z, labels, {p: client_reply(z[s], labels[s]) for p, s in split.items()}


def test_a_prototype_is_the_mean_over_all_examples_and_stays_where_there_are_none():
    z, labels, replies = replies_of(np.random.default_rng(0))
    server = fedproto.FedProtoServer({MEANS: np.full((3, 2), 5, np.float32)})
    server.aggregate(replies)
    expected = [z[labels == 0].mean(axis=0), z[labels == 1].mean(axis=0), [5, 5]]
    np.testing.assert_allclose(server.sent_to(0)[MEANS], expected, rtol=0, atol=1e-6)


def test_evaluation_predicts_the_nearest_known_prototype():
    head = make_head(HeadSpec("means", 3, 2)).eval()
    z = torch.tensor([[1.0, 0.0], [0.1, 0.0]])
    with torch.no_grad():
        head.bias.copy_(torch.tensor([0.0, 0.0, 1.0]))
        assert head(z).argmax(1).tolist() == [2, 2]  # by the classifier: none is known
        head.means[0, 0] = 2.0
        head.means[1, 0] = -1.0
        assert head(z).argmax(1).tolist() == [0, 1]
        assert head(z).isfinite().all()
        assert head.train()(z).argmax(1).tolist() == [2, 2]


def test_the_server_of_fedtgp_separates_as_its_loss_says():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(5, 2))
    centres = rng.normal(size=(3, 2))
    labels = np.array([0, 1, 1, 2, 0])
    distances = np.linalg.norm(points[:, None] - centres, axis=2)
    expected = cross_entropy(-(distances + 0.4 * np.eye(3)[labels]), labels)
    loss = fedtgp.separation(*map(torch.from_numpy, (points, labels, centres)), 0.4)
    assert float(loss) == pytest.approx(expected, abs=1e-12)
    means = np.array([[0.0, 0], [0, 2], [3, 1], [0, 5]])
    assert fedtgp.largest_gap(means, np.array([0, 0, 1, 2])) == pytest.approx(4.0)
    assert fedtgp.largest_gap(means[:1], np.array([2])) == 0


def test_a_secure_sum_gives_the_prototypes_of_an_open_run(tmp_path):
    settings = QUICK["images"] | {"method": "fedproto", "num_rounds": 1}
    prototypes = [
        run(tmp_path, str(masked), secure_sum=masked, secure__min_holders=1, **settings).model[
            MEANS
        ]
        for masked in (False, True)
    ]
    np.testing.assert_allclose(*prototypes, rtol=0, atol=1e-4)


def test_single_prototypes_are_in_no_secure_sum():
    with pytest.raises(ConfigError, match="allowed is secure-sum = false"):
        parse({"method": "fedtgp", "secure-sum": True})


def test_a_stricter_policy_is_another_configuration(tmp_path):
    """The difference of two sums was what the stricter rule keeps back: the sum of the features of a
    node's small class, and its size."""
    nodes = []
    for site in range(3):
        write_classes(tmp_path / f"data{site}", {"a": 24, "b": 20}, shape=(28, 28), seed=site)
        place = {
            "data-path": str(tmp_path / f"data{site}"),
            "state-path": str(tmp_path / f"s{site}"),
        }
        nodes += with_policy(tmp_path / f"p{site}", [{"partition-id": site} | place], "")
    keys = {"method": "fedproto", "dataset": "own", "secure_sum": True, "num_rounds": 1}
    keys |= {"share_statistics": True, "local_epochs": 1}
    run(tmp_path, "first", nodes=nodes, **keys)
    Path(nodes[2]["policy"]).write_text("[leaves]\nhull-min-class-size = 18\n")
    with pytest.raises(RoundError, match=r"partition 2: .* under 1 other configuration"):
        run(tmp_path, "second", nodes=nodes, **keys)
