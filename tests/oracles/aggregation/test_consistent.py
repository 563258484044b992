"""Consistent aggregation against an interior-point solver, the paper's iteration, the average."""

import itertools

import clarabel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csc_array, eye_array, vstack

from curvfed.strategies.base.aggregation import Average
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.methods.hyperfed import Consistent, Keys

EPS32 = float(np.finfo(np.float32).eps)


def arrays_of(vector):
    """A model of a vector of 3 entries and more, in two shapes."""
    vector = np.asarray(vector)
    return {
        "b.weight": vector[2:].astype(np.float32),
        "a.bias": vector[:2].reshape(1, 2).astype(np.float32),
    }


def vector_of(arrays):
    return np.concatenate([arrays["a.bias"].ravel(), arrays["b.weight"]]).astype(np.float64)


def replies_of(start, deviations, examples):
    return {
        3 * k: Statistics(arrays_of(start + row), int(n))
        for k, (n, row) in enumerate(zip(examples, deviations, strict=True))
    }


def aggregated(start, deviations, examples, radius, kind="raw", **others):
    """The aggregation after a round, and the deviations as the float32 models have them."""
    keys = Keys.model_construct(radius=radius, deviations=kind, **others)
    server = Consistent(arrays_of(start), keys)
    replies = replies_of(start, deviations, examples)
    server.aggregate(replies)
    origin = vector_of(arrays_of(start))
    return server, np.array([vector_of(update.arrays) - origin for update in replies.values()])


def interior_point(rows, lower, upper, total=1.0):
    """argmin ‖w·rows‖ over Σ w = total within the bounds."""
    num = len(rows)
    sides = vstack([np.ones((1, num)), -eye_array(num), eye_array(num)], format="csc")
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * num)]
    square = rows @ rows.T
    right = np.concatenate([[total], -lower, upper])
    quadratic = csc_array(np.triu(square / square.max()))
    return np.array(
        clarabel.DefaultSolver(quadratic, np.zeros(num), sides, right, cones, settings).solve().x
    )


@pytest.mark.parametrize("kind", ["raw", "unit"])
@pytest.mark.parametrize("radius", [0.2, 1, 3, 100])
@pytest.mark.parametrize("num", [2, 5, 20])
def test_weights_are_an_interior_point_solvers(num, radius, kind):
    rng = np.random.default_rng(num)
    for _ in range(5):
        start, drift = rng.standard_normal(3 * num), rng.standard_normal(3 * num)
        deviations = (rng.standard_normal((num, 3 * num)) + drift) * rng.uniform(0.3, 3, (num, 1))
        examples = rng.integers(1, 100, num)
        server, rows = aggregated(start, deviations, examples, radius, kind)
        prior = examples / examples.sum()
        if kind == "unit":
            scaled = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        else:
            scaled = rows
        bounds = np.maximum(prior - radius / num, 0), np.minimum(prior + radius / num, 1)
        weights = np.array(list(server.weights.values()))
        np.testing.assert_allclose(weights, interior_point(scaled, *bounds), atol=2e-6, rtol=0)
        np.testing.assert_allclose(
            vector_of(server.sent_to(0)),
            start + weights @ rows,
            rtol=0,
            atol=4 * EPS32 * np.abs(start).max(),
        )
        figures = server.round_figures
        expected = np.linalg.norm(weights @ rows) / np.linalg.norm(prior @ rows)
        assert figures["norm_ratio"] == pytest.approx(expected, rel=1e-5)
        assert figures["weights_l1"] == pytest.approx(np.abs(weights - prior).sum(), abs=1e-12)
        assert figures["aggregation_note"] == ""
        text = dict(cell.split(":") for cell in figures["weights"].split())
        assert list(text) == [str(3 * k) for k in range(num)]
        np.testing.assert_allclose(
            [float(cell) for cell in text.values()], weights, rtol=1e-3, atol=1e-12
        )


def test_who_hardly_moved_keeps_his_share_and_attracts_nothing():
    """The others' weights solve what is left, within the same distance of their shares."""
    rng = np.random.default_rng(0)
    deviations = rng.standard_normal((6, 30)) + 0.5
    deviations[1] *= 1e-3
    deviations[4] = 0
    examples, start = np.array([10, 40, 5, 20, 15, 10]), np.zeros(30)
    prior, moving = examples / 100, [0, 2, 3, 5]
    for radius in (0.2, 1, 6, np.inf):
        for kind in ("raw", "unit"):
            server, rows = aggregated(start, deviations, examples, radius, kind)
            weights = np.array(list(server.weights.values()))
            np.testing.assert_allclose(weights[[1, 4]], prior[[1, 4]], rtol=1e-12)
            reach = min(radius / 6, 1)
            bounds = np.maximum(prior - reach, 0)[moving], np.minimum(prior + reach, 1)[moving]
            chosen = rows[moving]
            if kind == "unit":
                chosen = chosen / np.linalg.norm(chosen, axis=1, keepdims=True)
            np.testing.assert_allclose(
                weights[moving],
                interior_point(chosen, *bounds, prior[moving].sum()),
                atol=2e-6,
                rtol=0,
            )


@pytest.mark.parametrize("radius", [0.2, 1, np.inf])
def test_without_the_rule_for_those_who_hardly_moved_the_shortest_counts_too(radius):
    rng = np.random.default_rng(1)
    deviations = rng.standard_normal((5, 30)) + 0.5
    deviations[1] *= 1e-3
    examples = np.array([10, 40, 5, 20, 25])
    prior = examples / 100
    server, rows = aggregated(np.zeros(30), deviations, examples, radius, still=0.0)
    reach = min(radius / 5, 1)
    expected = interior_point(rows, np.maximum(prior - reach, 0), np.minimum(prior + reach, 1))
    weights = np.array(list(server.weights.values()))
    np.testing.assert_allclose(weights, expected, atol=2e-6, rtol=0)


@pytest.mark.parametrize("solver", ["exact", "frank-wolfe"])
def test_as_published_an_update_of_zero_gets_all_the_weight(solver):
    deviations = np.array([[1.0, 0, 0, 0], [0, 2, 0, 0], [0, 0, 0, 0]])
    server, _ = aggregated(np.ones(4), deviations, np.ones(3), 3, still=0.0, solver=solver)
    assert server.weights[6] == pytest.approx(1, abs=0.02)
    still, _ = aggregated(np.ones(4), deviations, np.ones(3), 3, solver=solver)
    assert still.weights[6] == pytest.approx(1 / 3)


@st.composite
def rounds(draw):
    num, dim = draw(st.integers(1, 6)), draw(st.integers(3, 5))
    numbers = st.sampled_from([0.0, 0.0, 1.0, -1.0, 2.0, 0.001, -3.0])
    rows = draw(st.lists(st.lists(numbers, min_size=dim, max_size=dim), min_size=num, max_size=num))
    examples = draw(st.lists(st.integers(0, 5), min_size=num, max_size=num))
    radius = draw(st.sampled_from([0, 0.1, 0.2, 1, 3, 100]))
    return np.array(rows), examples, radius, draw(st.sampled_from(["raw", "unit"]))


@given(rounds())
def test_weights_are_admissible_and_applied(problem):
    """Zero, equal, opposite and tiny deviations, and clients without examples."""
    deviations, examples, radius, kind = problem
    start = np.arange(deviations.shape[1], dtype=float)
    server, rows = aggregated(start, deviations, examples, radius, kind)
    weights, total = np.array(list(server.weights.values())), sum(examples)
    figures = server.round_figures
    if not total:
        assert figures["aggregation_note"] == "averaged: no client has examples"
        np.testing.assert_array_equal(weights, 0)
    else:
        prior = np.array(examples) / total
        assert weights.sum() == pytest.approx(1, abs=1e-12)
        assert (weights >= 0).all()
        assert (np.abs(weights - prior) <= radius / np.count_nonzero(prior) + 1e-12).all()
        assert (weights[prior == 0] == 0).all()
        if kind == "raw" and figures["norm_ratio"] is not None:
            assert figures["norm_ratio"] <= 1 + 1e-6
    np.testing.assert_allclose(
        vector_of(server.sent_to(0)), start + weights @ rows, rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("kind", ["raw", "unit"])
def test_radius_zero_is_the_average_bit_for_bit(kind):
    rng = np.random.default_rng(1)
    start, deviations = rng.standard_normal(1000), rng.standard_normal((7, 1000))
    examples = [3, 0, 11, 7, 1, 100, 5]
    average = Average(arrays_of(start))
    average.aggregate(replies_of(start, deviations, examples))
    server, _ = aggregated(start, deviations, examples, 0, kind)
    assert list(server.sent_to(0)) == list(average.sent_to(0))
    for name, array in average.sent_to(0).items():
        np.testing.assert_array_equal(server.sent_to(0)[name], array)
    assert server.round_figures | {"weights": ""} == {
        "weights": "",
        "weights_l1": 0,
        "norm_ratio": 1,
        "aggregation_note": "",
    }
    still, _ = aggregated(start, 0 * deviations, examples, 0, kind)
    assert still.round_figures["aggregation_note"] == ""  # it was to be averaged
    near, _ = aggregated(start, deviations, examples, 1e-9, kind)
    np.testing.assert_allclose(vector_of(near.sent_to(0)), vector_of(average.sent_to(0)), atol=1e-6)


@pytest.mark.parametrize(
    ("deviations", "examples", "note"),
    [
        (np.zeros((3, 4)), [1, 2, 3], "averaged: no client moved"),
        (
            [[0, 0, 0, 0], [1, 2, 3, 4], [1e-4, 0, 0, 0]],
            [1, 2, 3],
            "averaged: one client alone moved",
        ),
        ([[1, 2, 3, 4]], [5], "averaged: one client alone moved"),
        ([[0, 0, 0, 0]], [5], "averaged: no client moved"),
        ([[1, 2, 3, 4], [2, 2, 2, 2]], [5, 0], "averaged: one client alone moved"),
        ([[1, 2, 3, 4], [2, 2, 2, 2]], [0, 0], "averaged: no client has examples"),
        (np.full((2, 4), 1e-20), [1, 1], "averaged: no client moved"),
        (
            [[1e30, 0, 0, 0], [1, 1, 1, 1]],
            [1, 3],
            "averaged: a deviation is too long to be squared",
        ),
    ],
)
def test_where_nothing_is_to_be_chosen_the_round_is_averaged_and_says_so(
    deviations, examples, note
):
    start = np.zeros(4)
    average = Average(arrays_of(start))
    average.aggregate(replies_of(start, np.array(deviations, float), examples))
    for kind in ("raw", "unit"):
        server, _ = aggregated(start, np.array(deviations, float), examples, np.inf, kind)
        np.testing.assert_array_equal(vector_of(server.sent_to(0)), vector_of(average.sent_to(0)))
        assert server.round_figures["aggregation_note"] == note
        assert server.round_figures["weights_l1"] == 0


@pytest.mark.parametrize("kind", ["unit", "raw"])
def test_controls_exchange_direction_and_length(kind):
    rng = np.random.default_rng(4)
    start, rows, examples = (
        rng.standard_normal(40),
        rng.standard_normal((5, 40)) + 0.5,
        [1, 9, 4, 4, 2],
    )
    steps = {}
    for pair in itertools.product(("consistent", "average"), repeat=2):
        keys = Keys(radius=1.0, deviations=kind, direction=pair[0], length=pair[1])
        server = Consistent(arrays_of(start), keys)
        server.aggregate(replies_of(start, rows, examples))
        steps[pair] = vector_of(server.sent_to(0)).astype(float) - start
    consistent_step, mean = (steps[which, which] for which in ("consistent", "average"))
    assert np.linalg.norm(consistent_step) < 0.95 * np.linalg.norm(mean)
    np.testing.assert_allclose(mean, np.array(examples) / 20 @ rows, atol=1e-5)
    for direction, length in itertools.permutations(("consistent", "average")):
        along, long = steps[direction, direction], np.linalg.norm(steps[length, length])
        np.testing.assert_allclose(
            steps[direction, length], along / np.linalg.norm(along) * long, atol=1e-5
        )


def test_opposite_deviations_leave_the_model_where_it_is_and_the_round_says_so():
    row = np.array([1.0, -2, 3, 4])
    server, _ = aggregated(np.ones(4), np.stack([row, -3 * row]), [9, 1], np.inf)
    np.testing.assert_allclose(list(server.weights.values()), [0.75, 0.25], atol=1e-6)
    np.testing.assert_allclose(vector_of(server.sent_to(0)), 1, atol=1e-6)
    figures = server.round_figures
    assert figures["norm_ratio"] == pytest.approx(0, abs=1e-3)
    assert figures["aggregation_note"] == "the deviations cancel, the model stays"
    # so does the average of these
    stays, _ = aggregated(np.ones(4), np.stack([row, -row]), [1, 1], 0.2)
    assert stays.round_figures["norm_ratio"] is None
    assert stays.round_figures["aggregation_note"] == "the deviations cancel, the model stays"


def test_buffers_are_averaged_by_examples_and_have_no_say():
    start = np.zeros(4)
    rows = np.array([[1.0, 0, 0, 0], [0, 2, 0, 0]])
    server = Consistent(
        arrays_of(start) | {"n.running_mean": np.zeros(2, np.float32)},
        Keys.model_construct(radius=np.inf, deviations="raw"),
    )
    replies = {
        p: Statistics(
            update.arrays | {"n.running_mean": np.full(2, 8.0 * p, np.float32)}, update.weight
        )
        for p, update in replies_of(start, rows, [3, 1]).items()
    }
    server.aggregate(replies)
    np.testing.assert_allclose(list(server.weights.values()), [0.8, 0.2], atol=1e-6)
    np.testing.assert_array_equal(server.sent_to(0)["n.running_mean"], [6, 6])
    assert list(server.state()) == ["b.weight", "a.bias", "n.running_mean"]
