"""`hull.classifier=auto` chooses by points within left-out hulls, not by their corners."""

import numpy as np
import pytest
from hull_nodes import hull_run

from curvfed.strategies.config.one_shot import server_half
from curvfed.strategies.config.parse import parse
from curvfed.strategies.hull.classifier import accuracy, name_groups
from curvfed.strategies.hull.classifier_choice import (
    KEYS,
    choose_classifier,
    compare_kinds,
    draw_points,
    train_classifier,
)
from curvfed.strategies.hull.codec import DecodedHulls, PublicParameters
from curvfed.strategies.hull.grouped_hulls import GroupedHulls
from curvfed.strategies.hull.learn import Settings, learn
from curvfed.strategies.hull.local import local_hulls

CLASSES, CLIENTS = 8, 6
PUBLIC = PublicParameters(
    curvature=-1.0, radius=0.999, epsilon=0.01, num_classes=CLASSES, num_clients=CLIENTS, cap=8
)


def split(noise, train=15_000, test=3000):
    """Equal Gaussians in the tangent space, near and far in turn, for each client; test points."""
    rng = np.random.default_rng(2)
    angles, far = (
        2 * np.pi * np.arange(CLASSES) / CLASSES,
        np.where(np.arange(CLASSES) % 2, 2.2, 1.2),
    )
    labels = rng.integers(0, CLASSES, train + test)
    tangents = (far * np.array([np.cos(angles), np.sin(angles)])).T[labels] + rng.normal(
        0, noise, (len(labels), 2)
    )
    norms = np.linalg.norm(tangents, axis=1, keepdims=True)
    points = np.tanh(norms / 2) * tangents / norms
    parts = [(points[one:train:CLIENTS], labels[one:train:CLIENTS]) for one in range(CLIENTS)]
    return parts, (points[train:], labels[train:])


def hulls_of(parts) -> DecodedHulls:
    return DecodedHulls.of(
        [[bins.tolist() for bins in local_hulls(*part, PUBLIC).hulls] for part in parts]
    )


def right(classifier, test) -> float:
    predicted = classifier.predict(test[0])
    return accuracy(predicted, test[1], name_groups(predicted, test[1], CLASSES, CLASSES))


@pytest.fixture(scope="module")
def overlapping():
    parts, test = split(0.45)
    hulls = hulls_of(parts)
    result = learn(hulls, PUBLIC, Settings(kind="auto"))
    vertices = [PUBLIC.quantizer.decode(bins) for bins in hulls.bins]
    return GroupedHulls(vertices, result.groups, hulls.clients, -1.0), test, result


def test_a_classifier_that_is_right_at_corners_alone_is_not_taken(overlapping):
    bodies, test, result = overlapping
    scores = {kind: right(train_classifier(bodies, kind, 0.0, False, 0), test) for kind in KEYS}
    assert scores["lorentz"] < max(scores.values()) - 0.1
    at_corners = {}
    for kind in ("lorentz", "depth", "plane"):
        one = train_classifier(bodies.where(bodies.clients > 0), kind, 1000.0, False, 0)
        hidden = bodies.where(bodies.clients == 0)
        at_corners[kind] = (one.predict(hidden.points) == hidden.labels).mean()
    assert at_corners["lorentz"] == max(at_corners.values())
    assert right(result.classifier, test) >= max(scores.values()) - 0.03
    assert right(result.classifier, test) >= scores["depth"] - 0.03


@pytest.mark.long
def test_the_choice_depends_on_the_hulls_and_the_seed_alone(overlapping):
    bodies, _, result = overlapping
    assert compare_kinds(bodies, 0.0, 0) == result.comparison
    assert compare_kinds(bodies, 0.0, 1) != result.comparison
    points, hull_of = draw_points(bodies, 0)
    np.testing.assert_array_equal(np.bincount(hull_of), np.full(len(bodies.vertices), 40))
    depths = train_classifier(
        bodies.where(hull_of[::40] == 3), "depth", 0.0, False, 0
    ).model.depths(points[hull_of == 3])
    assert depths.min() > -1e-12


@pytest.mark.long
def test_depth_is_taken_where_nothing_is_better_and_no_kind_disagrees():
    result = learn(hulls_of(split(0.05, 600, 10)[0]), PUBLIC, Settings(kind="auto"))
    assert result.classifier.kind == "depth"
    assert result.comparison.choices[0].share == 1
    assert result.comparison.disagreement == 0


def test_depth_is_taken_where_no_client_can_be_left_out():
    """Each of two clients has its own class: without one nothing is left to tell apart."""
    corners = 0.2 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    bodies = GroupedHulls([corners, corners - 0.5], np.array([0, 1]), np.array([0, 1]), -1.0)
    classifier, comparison = choose_classifier(bodies, 0.0, 0)
    assert classifier.kind == "depth"
    assert comparison.choices == ()


@pytest.mark.parametrize(("share", "warns"), [(0.0999, False), (0.1, True), (0.4, True)])
def test_the_warning_says_how_much_they_disagree(share, warns):
    metrics = {"classifiers_disagree": share, "left_out_plane": 0.9, "left_out_depth": 0.61}
    texts = server_half(parse({"method": "hull"}), ()).warnings(metrics)
    assert set(texts) == ({"classifiers"} if warns else set())
    if warns:
        for words in (f"{share:.0%} of the points", "61 to 90%", "test-data", "hull.classifier"):
            assert words in texts["classifiers"]


@pytest.mark.long
def test_a_run_warns_in_log_and_summary(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("curvfed.strategies.methods.hull.server.DISAGREEMENT", 0.01)
    few = {"points__num": 60, "hull__classifier": "auto", "hull__c": "auto", "points__margin": 0.0}
    run = hull_run(tmp_path, clients=5, **few)
    assert run.summary["metrics"]["classifiers_disagree"] >= 0.01
    (text,) = [one for one in run.summary["warnings"] if "disagree" in one]
    assert text in caplog.text
    named = hull_run(tmp_path, "named", clients=5, **few | {"hull__classifier": "depth"})
    assert "classifiers_disagree" not in named.summary["metrics"]
