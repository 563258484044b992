"""The stored classifier against the models that it is made of, and what it refuses."""

import math

import numpy as np
import pytest
from safetensors.numpy import load, save

from curvfed.geometry.linear_classifiers import Log0Logistic, best_c
from curvfed.geometry.margin import NotSeparableError
from curvfed.geometry.svm import PoincareHingeSVM, PoincareSVM
from curvfed.strategies.hull.classifier import Classifier

CURVATURE = -0.8
MODELS = {
    "poincare": lambda c: PoincareSVM(CURVATURE, c),
    "hinge": lambda c: PoincareHingeSVM(CURVATURE, c),
    "logistic": lambda c: Log0Logistic(CURVATURE, c),
}


def grouped(num, seed=0, spread=0.2):
    """Points of `num` classes with the numbers 3, 10, 17, …, and others."""
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(num) / num
    labels = np.repeat(np.arange(num), 14)
    points = 0.5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)[labels]
    points = points + spread * rng.standard_normal(points.shape)
    points /= np.maximum(1, np.linalg.norm(points, axis=1, keepdims=True))
    queries = rng.uniform(-0.7, 0.7, (50, 2))
    return points, 7 * labels + 3, queries


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("num", [2, 5])
def test_predicts_as_the_model(kind, num):
    points, groups, queries = grouped(num)
    classifier = Classifier.train(points, groups, CURVATURE, 0.5, False, 0, kind)
    model = MODELS[kind](0.5).fit(points, groups)
    np.testing.assert_array_equal(classifier.predict(queries), model.predict(queries))
    np.testing.assert_array_equal(classifier.probabilities(queries), model.predict_proba(queries))
    np.testing.assert_array_equal(classifier.groups, np.unique(groups))
    np.testing.assert_array_equal(classifier.normals, model.normals_)
    assert classifier.references.shape == (
        (0, 2) if kind == "logistic" else (len(model.normals_), 2)
    )
    assert classifier.c == 0.5
    assert set(classifier.predict(queries)) <= set(groups)


# That of the plain hinge solves a quadratic programme for each cost: 15 seconds.
CHOSEN = [kind for kind in MODELS if kind != "hinge"]
CHOSEN_LATER = pytest.param("hinge", marks=pytest.mark.long)


@pytest.mark.parametrize("kind", [*CHOSEN, CHOSEN_LATER])
def test_without_a_cost_cross_validation_finds_it(kind):
    points, groups, _ = grouped(4, spread=0.3)
    for seed in (0, 5):
        classifier = Classifier.train(points, groups, CURVATURE, 0, False, seed, kind)
        assert classifier.c == best_c(MODELS[kind], points, groups, seed=seed)


def test_a_hard_margin():
    points, groups, _ = grouped(2, spread=0.05)
    classifier = Classifier.train(points, groups, CURVATURE, 0, True, 0)
    assert classifier.c == math.inf
    np.testing.assert_array_equal(classifier.predict(points), groups)
    assert np.abs(classifier.model.decision_function(points)).min() == pytest.approx(1, rel=1e-9)
    points, groups, _ = grouped(2, spread=0.5)
    with pytest.raises(NotSeparableError):
        Classifier.train(points, groups, CURVATURE, 0, True, 0)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("num", [2, 5])
@pytest.mark.parametrize("hard", [False, True])
def test_stored_and_read_it_is_the_same_to_the_last_bit(kind, num, hard):
    points, groups, queries = grouped(num, spread=0.02)
    classifier = Classifier.train(
        points, groups, CURVATURE, 0.5, hard and kind != "logistic", 0, kind
    )
    arrays = load(save(classifier.arrays()))
    assert all(array.dtype == np.float64 for array in arrays.values())
    stored = Classifier.from_arrays(arrays)
    # The hinge that a machine was trained with changes nothing of what it computes.
    stored_kind = "poincare" if kind == "hinge" else kind
    assert (stored.kind, stored.curvature, stored.c) == (stored_kind, CURVATURE, classifier.c)
    np.testing.assert_array_equal(stored.groups, classifier.groups)
    np.testing.assert_array_equal(stored.predict(queries), classifier.predict(queries))
    np.testing.assert_array_equal(stored.probabilities(queries), classifier.probabilities(queries))
    assert stored.arrays().keys() == arrays.keys()
    for name, array in stored.arrays().items():
        np.testing.assert_array_equal(array, arrays[name])


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("platt", None, "array platt is missing"),
        ("kind", None, "array kind is missing"),
        (
            "normals",
            np.zeros((2, 2)),
            r"array normals is float64 \(2, 2\); it must be float64 \(3, 2\)",
        ),
        ("references", np.zeros(3), r"array references is float64 \(3,\)"),
        ("normals", np.zeros((3, 2), np.float32), r"array normals is float32"),
        ("normals", np.full((3, 2), np.nan), "array normals has entries that are not finite"),
        ("curvature", np.array(np.nan), "array curvature has entries that are not finite"),
        ("references", np.full((3, 2), 1.0), "not inside the disc"),
        ("curvature", np.array(1.0), "curvature 1.0; it must be negative"),
        ("c", np.array(np.nan), "C is nan"),
        ("c", np.array(-1.0), "C is -1.0"),
        ("c", np.ones(1), "array c is"),
        ("kind", np.array(7.0), "allowed is 0 or 2 to 6"),
        ("kind", np.array(0.5), "allowed is 0 or 2 to 6"),
        ("groups", np.array([0.0, 2, 1]), "integers, in ascending order"),
        ("groups", np.array([0.0, 1, 1]), "integers, in ascending order"),
        ("groups", np.array([0.0, 1, 1.5]), "integers, in ascending order"),
        ("groups", np.array([0.0]), "at least two integers"),
        ("groups", np.zeros((3, 1)), r"array groups is float64 \(3, 1\)"),
    ],
)
def test_arrays_that_are_refused(name, wrong, message):
    points, groups, _ = grouped(3)
    arrays = Classifier.train(points, groups, CURVATURE, 1, False, 0).arrays()
    arrays.pop(name)
    if wrong is not None:
        arrays[name] = wrong
    with pytest.raises(ValueError, match=message):
        Classifier.from_arrays(arrays)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[0.1, np.nan]], "not finite"),
        ([[1.2, 0]], "not inside the disc"),
        ([[0.1, 0.2, 0.3]], r"shape \(1, 3\)"),
        ([0.1, 0.2], r"shape \(2,\)"),
    ],
)
def test_points_that_are_refused(kind, points, message):
    trained = Classifier.train(*grouped(3)[:2], CURVATURE, 1, False, 0, kind)
    for ask in (trained.predict, trained.probabilities):
        with pytest.raises(ValueError, match=message):
            ask(points)
    with pytest.raises(ValueError, match=message):
        Classifier.train(points, [0], CURVATURE, 1, False, 0, kind)


@pytest.mark.parametrize("kind", MODELS)
def test_no_points_and_points_near_the_boundary(kind):
    classifier = Classifier.train(*grouped(3)[:2], CURVATURE, 1, False, 0, kind)
    assert classifier.predict(np.empty((0, 2))).shape == (0,)
    assert classifier.probabilities(np.empty((0, 2))).shape == (0, 3)
    edge = np.array([[0, 1 - 1e-14], [-1 + 1e-16, 0]]) / math.sqrt(-CURVATURE)
    assert np.isfinite(classifier.probabilities(np.nextafter(edge, 0))).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": np.zeros(42, int)}, "points of 1 classes"),
        ({"groups": np.zeros(41, int)}, r"labels of shape \(41,\) for 42 points"),
        ({"c": -1}, "C is -1"),
        ({"c": math.nan}, "C is nan"),
        ({"curvature": 0}, "must be negative"),
        ({"curvature": math.nan}, "must be negative"),
        ({"kind": "logistic", "hard": True}, "no hard margin"),
    ],
)
def test_what_is_refused(change, message):
    points, groups, _ = grouped(3)
    arguments = {
        "points": points,
        "groups": groups,
        "curvature": CURVATURE,
        "c": 1.0,
        "hard": False,
        "seed": 0,
    } | change
    with pytest.raises(ValueError, match=message):
        Classifier.train(**arguments)
