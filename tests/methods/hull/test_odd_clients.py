"""Clients whose hulls are made up or labels shuffled: what they cost, and who is told."""

import re
from functools import cache

import numpy as np
import pytest
from hull_nodes import blobs, hull_run, nodes_of
from liars import lied
from tiers import only

from curvfed.strategies.hull.classifier import accuracy, name_groups
from curvfed.strategies.hull.codec import DecodedHulls, PublicParameters
from curvfed.strategies.hull.learn import Learned, Settings, learn
from curvfed.strategies.hull.local import local_hulls

CLASSES, CLIENTS, TRAIN, TEST = 10, 10, 3000, 3000
PUBLIC = PublicParameters(
    curvature=-1.0,
    radius=0.999,
    epsilon=0.01,
    num_classes=CLASSES,
    num_clients=CLIENTS,
    cap=8,
    code="binary",
    h=3,
)


def clients_and_test(seed):
    """Ten overlapping classes, as Gaussians in the tangent space, dealt to ten clients."""
    rng = np.random.default_rng(seed)
    angles, far = (
        2 * np.pi * np.arange(CLASSES) / CLASSES,
        np.where(np.arange(CLASSES) % 2, 2.2, 1.2),
    )
    labels = rng.integers(0, CLASSES, TRAIN + TEST)
    tangents = (far * np.array([np.cos(angles), np.sin(angles)])).T[labels] + rng.normal(
        0, 0.33, (len(labels), 2)
    )
    norms = np.linalg.norm(tangents, axis=1, keepdims=True)
    points = np.tanh(norms / 2) * tangents / norms
    owner = np.arange(TRAIN) % CLIENTS
    parts = [(points[:TRAIN][owner == one], labels[:TRAIN][owner == one]) for one in range(CLIENTS)]
    return parts, (points[TRAIN:], labels[TRAIN:])


def learned(parts, classifier="auto") -> Learned:
    hulls = DecodedHulls.of(
        [[bins.tolist() for bins in local_hulls(*part, PUBLIC).hulls] for part in parts]
    )
    return learn(hulls, PUBLIC, Settings(kind=classifier))


def right(result, test):
    predicted = result.classifier.predict(test[0])
    return accuracy(predicted, test[1], name_groups(predicted, test[1], CLASSES, CLASSES))


@pytest.fixture(scope="module")
def honest():
    """The clients' points, the test points, the result and its accuracy, by kind of classifier."""

    @cache
    def trained(classifier):
        parts, test = clients_and_test(0)
        result = learned(parts, classifier)
        return parts, test, result, right(result, test)

    return trained


@pytest.mark.long
def test_honest_clients_are_not_odd_and_probabilities_fit(honest):
    _, test, result, share = honest("auto")
    assert result.outlying.size == result.turned.size == 0
    assert share > 0.85
    sure = result.classifier.probabilities(test[0]).max(axis=1).mean()
    assert abs(sure - share) < 0.1
    assert result.classifier.unknown(test[0]).mean() < 0.02
    assert (
        result.classifier.unknown(
            0.998 * test[0] / np.linalg.norm(test[0], axis=1, keepdims=True)
        ).mean()
        > 0.9
    )


@pytest.mark.parametrize("classifier", ["depth", pytest.param("auto", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "how", only(["rim", "noise", "shuffled", "switched"], {"rim", "switched"}.__contains__)
)
@pytest.mark.parametrize(
    ("liars", "loss"), [pytest.param(1, 0.02, marks=pytest.mark.long), (3, 0.04)]
)
def test_liars_cost_little_and_are_reported(honest, how, liars, loss, classifier):
    parts, test, _, share = honest(classifier)
    given = [
        lied(part, how, CLASSES, one) if one < liars else part for one, part in enumerate(parts)
    ]
    result = learned(given, classifier)
    assert right(result, test) >= share - loss
    # Names of classes are never sent, so that a client that switches them sends the hulls of an
    # honest one.
    assert result.outlying.size == (0 if how == "switched" else liars)


@pytest.mark.parametrize("liars", only([1, 3], (1).__eq__))
def test_turned_hulls_are_reported_and_left_out(honest, liars):
    """Trained with them, as by the classifiers with a name, the multinomial model is worse."""
    parts, test = clients_and_test(0)
    given = [lied(part, "negative", CLASSES, 0) for part in parts[:liars]] + parts[liars:]
    with_them = learned(given, "plane")
    assert len(with_them.turned) == liars
    assert with_them.effect > 0.01
    if liars == 3:
        *_, share = honest("auto")
        without = learned(given, "auto")
        assert right(without, test) >= share - 0.02
        assert right(without, test) > right(with_them, test)


def test_a_run_says_which_classes_have_turned_hulls(tmp_path):
    parts = [blobs("0135", seed=seed) for seed in range(5)]
    parts[2] |= {name: -parts[2][name] for name in ("x_train", "x_test")}
    run = hull_run(tmp_path, nodes=nodes_of(tmp_path / "nodes", parts), hull__classifier="depth")
    text = run.summary["warnings"][run.summary["warning_keys"].index("turned")]
    assert text.startswith("1 of 5 clients have hulls that fit the others' only after a rotation")
    assert sorted(re.findall(r"\d 1 of 5", text)) == [f"{name} 1 of 5" for name in "0135"]
    assert "odd" not in run.summary["warning_keys"]
