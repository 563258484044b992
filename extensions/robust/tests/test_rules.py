"""Robust aggregations against SciPy and brute force, and their laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as drawn_arrays
from scipy.optimize import minimize
from scipy.stats import trim_mean

from curvfed.extensions.robust.rows import Robust
from curvfed.extensions.robust.rules import geometric_median, trimmed_mean
from curvfed.strategies.base.aggregation import AggregationError
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.config.build_method import server_class
from curvfed.strategies.methods import aggregation_rows

WIDTH = 4
ROBUST = {
    name: server_class(row)
    for name, row in aggregation_rows().items()
    if row.server.startswith("curvfed.extensions.robust.")
}
RULES = sorted(ROBUST)
SEEDS = st.integers(0, 2**32 - 1)


def model_of(vector, dtype=np.float32):
    """A vector of `WIDTH` entries as two parameters."""
    vector = np.asarray(vector, dtype)
    return {"a.weight": vector[:2].reshape(1, 2), "b.bias": vector[2:]}


def vector_of(model):
    return np.concatenate([model["a.weight"].ravel(), model["b.bias"]]).astype(np.float64)


def combined(rule, start, points, weights, dtype=np.float32, share=0.25):
    """The model after a round, as a vector."""
    server = ROBUST[rule](model_of(start, dtype), Robust(share=share))
    replies = {
        partition: Statistics(model_of(point, dtype), int(weight))
        for partition, (point, weight) in enumerate(zip(points, weights, strict=True))
    }
    server.aggregate(replies)
    model = server.sent_to(0)
    assert {array.dtype for array in model.values()} == {np.dtype(dtype)}
    return vector_of(model)


def cloud(seed, count):
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal(WIDTH),
        rng.standard_normal((count, WIDTH)),
        rng.integers(1, 9, count),
    )


@given(
    drawn_arrays(np.float64, (5, 3), elements=st.floats(-9, 9)),
    st.lists(st.integers(1, 3), min_size=5, max_size=5),
    st.sampled_from([0.0, 0.1, 0.25, 0.4]),
)
def test_a_weight_is_a_repetition(values, weights, share):
    weights = np.array(weights, np.float64)
    repeated = np.repeat(values, weights.astype(int), axis=0)
    trim = np.floor(share * len(repeated))
    expected = trim_mean(repeated, share, axis=0)
    np.testing.assert_allclose(trimmed_mean(values, weights, trim), expected, atol=1e-13)
    middle = trimmed_mean(values, weights, weights.sum() / 2 - 0.25)
    np.testing.assert_allclose(middle, np.median(repeated, axis=0), atol=1e-13)


@given(SEEDS, st.integers(1, 7))
def test_the_geometric_median_has_the_smallest_sum_of_distances(seed, count):
    start, points, weights = cloud(seed, count)

    def objective(point):
        return weights @ np.linalg.norm(points - point, axis=1)

    deviations = points - start
    median = start + geometric_median(deviations @ deviations.T, weights * 1.0) @ deviations
    best = min(
        [minimize(objective, points.mean(axis=0), method="Nelder-Mead").fun]
        + [objective(point) for point in points]
    )
    assert objective(median) <= best * (1 + 1e-3) + 1e-9


def test_krum_averages_the_updates_nearest_to_their_neighbours():
    for seed in range(20):
        start, points, weights = cloud(seed, 8)
        liars = 2
        lengths = np.linalg.norm(points - start, axis=1)
        near = start + (points - start) * np.minimum(1, 2 * np.median(lengths) / lengths)[:, None]
        distances = np.sort(np.linalg.norm(near[:, None] - near, axis=2) ** 2, axis=1)
        scores = distances[:, 1 : 8 - liars - 1].sum(axis=1)
        chosen = np.argsort(scores)[: 8 - liars]
        heavy = np.minimum(weights, 2 * np.median(weights))[chosen]
        expected = heavy @ near[chosen] / heavy.sum()
        mean = combined("krum", start, points, weights)
        np.testing.assert_allclose(mean, expected, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", RULES)
def test_laws_of_every_rule(rule, dtype):
    tolerance = 2e-3 if rule == "geometric-median" else 1e-5
    for seed in range(10):
        start, points, weights = cloud(seed, 7)
        model = combined(rule, start, points, weights, dtype)
        order = np.random.default_rng(seed).permutation(7)
        permuted = combined(rule, start, points[order], weights[order], dtype)
        np.testing.assert_allclose(permuted, model, atol=tolerance)
        moved = combined(rule, start + 3, points + 3, weights, dtype)
        np.testing.assert_allclose(moved, model + 3, atol=tolerance)
        # a client without examples
        idle = combined(rule, start, [*points, start + 1e6], [*weights, 0], dtype)
        np.testing.assert_array_equal(idle, model)
        single = combined(rule, start, points[:1], weights[:1], dtype)
        np.testing.assert_allclose(single, points[0], atol=1e-5)
        equal = combined(rule, start, [points[0]] * 5, weights[:5], dtype)
        np.testing.assert_allclose(equal, points[0], atol=1e-5)
        np.testing.assert_allclose(
            combined(rule, start, points, weights * 0, dtype), start, atol=1e-6
        )


def test_the_near_mean_is_the_mean_of_the_updates_near_and_along_the_geometric_median():
    for seed in range(20):
        start, points, weights = cloud(seed, 9)
        points[:2] = start + 4 * (points[:2] - start)
        heavy = np.minimum(weights, 2 * np.median(weights))
        deviations = points - start
        lengths = np.linalg.norm(deviations, axis=1, keepdims=True)
        deviations *= np.minimum(1, np.median(lengths) / lengths)
        centre = geometric_median(deviations @ deviations.T, heavy) @ deviations
        distances = np.linalg.norm(deviations - centre, axis=1)
        near = (distances <= 3 * np.median(distances)) & (deviations @ centre >= 0)
        expected = start + heavy[near] @ deviations[near] / heavy[near].sum()
        np.testing.assert_allclose(
            combined("near-mean", start, points, weights), expected, atol=1e-4
        )


@given(
    SEEDS,
    st.floats(0, 1e15),
    st.integers(3, 9),
    st.sampled_from(["median", "geometric-median", "krum", "near-mean"]),
)
def test_false_updates_of_fewer_than_half_move_the_model_a_little(seed, length, count, rule):
    """At most `longest` times the longest honest update, in any direction; the median at most the
    largest honest change of each entry."""
    start, points, weights = cloud(seed, count)
    num_liars = (count - 1) // 2
    points[:num_liars] = start + length * points[:num_liars]
    honest = np.abs(points[num_liars:] - start)
    if rule == "median":
        model = combined(rule, start, points, np.ones(count))
        assert (np.abs(model - start) <= honest.max(axis=0) + 1e-5).all()
    else:
        model = combined(rule, start, points, weights)
        longest = np.linalg.norm(honest, axis=1).max()
        assert np.linalg.norm(model - start) <= ROBUST[rule].longest * longest + 1e-5


@given(SEEDS, st.floats(0, 1e15), st.sampled_from(RULES))
def test_a_quarter_of_false_updates_moves_the_model_a_little(seed, length, rule):
    start, points, _ = cloud(seed, 8)
    liars = points.copy()
    liars[:2] = start + length * points[:2]
    model = combined(rule, start, liars, np.ones(8))
    radius = np.linalg.norm(points[2:] - start, axis=1).max()
    assert np.linalg.norm(model - start) <= 4 * radius


def test_no_client_states_its_own_weight():
    start, points, weights = cloud(0, 8)
    for rule in RULES:
        heavy = combined(rule, start, points, [10**6, *weights[1:]])
        capped = combined(rule, start, points, [2 * np.median([10**6, *weights[1:]]), *weights[1:]])
        np.testing.assert_allclose(heavy, capped, atol=1e-6)


def test_running_statistics_are_medians():
    for rule in ("median", "krum", "geometric-median", "near-mean"):
        server = ROBUST[rule]({"w": np.zeros(2), "n.running_var": np.ones(1)}, Robust())
        replies = {
            partition: Statistics({"w": np.full(2, 0.1), "n.running_var": np.array([value])}, 1)
            for partition, value in enumerate([1.0, 2.0, 1e30])
        }
        server.aggregate(replies)
        assert server.sent_to(0)["n.running_var"] == [2.0]


def test_updates_that_are_all_too_long_are_refused():
    server = ROBUST["geometric-median"]({"w": np.zeros(2, np.float32)}, Robust())
    replies = {0: Statistics({"w": np.full(2, 1e30, np.float32)}, 1)}
    with pytest.raises(AggregationError, match="too long"), np.errstate(over="ignore"):
        server.aggregate(replies)
