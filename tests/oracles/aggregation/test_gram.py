"""Inner products and weighted sums of deviations against float64 programs of this test's own."""

import tracemalloc

import numpy as np
import pytest
from errors import refuses
from hypothesis import given
from hypothesis import strategies as st

from curvfed.strategies.base.aggregation import AggregationError
from curvfed.strategies.base.deviations import gram, weighted_step
from curvfed.strategies.base.statistics import Statistics, is_buffer

EPS = {np.float32: float(np.finfo(np.float32).eps), np.float64: float(np.finfo(np.float64).eps)}
SHAPES = {
    "b.weight": (300, 200),
    "a.bias": (7,),
    "c.scale": (),
    "a.none": (0, 3),
    "a.weight": (50, 31, 21),
}


def arrays_of(rng, dtype, shapes=SHAPES, scale=1.0):
    return {
        name: np.asarray(scale * rng.standard_normal(shape), dtype)
        for name, shape in shapes.items()
    }


def around(start, rng, scale):
    return {
        name: (array + scale * rng.standard_normal(array.shape)).astype(array.dtype)
        for name, array in start.items()
    }


def exact(start, models):
    rows = [
        np.concatenate([(m[n].astype(float) - start[n].astype(float)).ravel() for n in start])
        for m in models
    ]
    return np.array(rows) @ np.array(rows).T


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("num", [1, 2, 9, 40])
def test_inner_products(num, dtype):
    rng = np.random.default_rng(num)
    start = arrays_of(rng, dtype)
    models = [around(start, rng, 0.01) for _ in range(num)]
    expected = exact(start, models)
    lengths = np.sqrt(expected.diagonal())
    products = gram(start, models)
    assert products.dtype == np.float64
    np.testing.assert_array_equal(products, products.T)
    assert (np.abs(products - expected) <= 16 * EPS[dtype] * np.outer(lengths, lengths)).all()


def test_float64_sums_over_blocks_beat_one_product():
    rng = np.random.default_rng(1)
    start = {"w": rng.standard_normal(2_000_000).astype(np.float32)}
    drift = rng.standard_normal(2_000_000)
    models = [{"w": (start["w"] + 0.1 * drift).astype(np.float32)} for _ in range(4)]
    expected = exact(start, models)
    error = np.abs(gram(start, models) / expected - 1).max()
    rows = np.stack([model["w"] - start["w"] for model in models])
    assert error <= 2e-7
    assert error < np.abs((rows @ rows.T) / expected - 1).max()


def test_names_decide_not_their_order_and_buffers_do_not_enter():
    rng = np.random.default_rng(2)
    start = arrays_of(rng, np.float32)
    models = [around(start, rng, 1.0) for _ in range(4)]
    expected = gram(start, models)
    buffers = {"a.running_mean": np.zeros(3, np.float32), "a.running_var": np.ones(3, np.float32)}
    turned = [
        dict(reversed(model.items())) | {n: b + 7 for n, b in buffers.items()} for model in models
    ]
    np.testing.assert_array_equal(gram(dict(reversed(start.items())) | buffers, turned), expected)
    assert is_buffer("bn.running_var")
    assert not is_buffer("running.weight")


@pytest.mark.parametrize("num", [20, 400])
def test_memory_does_not_grow_with_the_models(num):
    length = 20_000_000 // num
    start = {"w": np.zeros(length, np.float32)}
    models = [{"w": np.ones(length, np.float32)} for _ in range(num)]
    tracemalloc.start()
    try:
        gram(start, models)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**20 * 14  # 8 MB of a block, and a few K × K


@given(
    st.lists(st.tuples(st.integers(0, 50), st.floats(-2, 2)), min_size=1, max_size=5),
    st.integers(0, 9),
)
def test_moved(clients, seed):
    rng = np.random.default_rng(seed)
    start = arrays_of(rng, np.float32, {"w": (3, 2), "s": (), "n.running_var": (2,)})
    updates = [Statistics(around(start, rng, 1.0), examples) for examples, _ in clients]
    weights = [weight for _, weight in clients]
    stepped = weighted_step(start, updates, weights)
    assert list(stepped) == list(start)
    for name in ("w", "s"):
        assert stepped[name].dtype == np.float32
        expected = start[name] + sum(
            weight * (update.arrays[name].astype(float) - start[name])
            for weight, update in zip(weights, updates, strict=True)
        )
        np.testing.assert_allclose(stepped[name], expected, rtol=2 * EPS[np.float32], atol=1e-30)
    total = sum(update.weight for update in updates)
    mean = (
        sum(u.weight * u.arrays["n.running_var"].astype(float) for u in updates) / total
        if total
        else None
    )
    np.testing.assert_allclose(
        stepped["n.running_var"],
        start["n.running_var"] if mean is None else mean,
        rtol=1e-6,
        atol=1e-6,
    )


def test_an_update_without_weight_is_not_looked_at():
    start = {"w": np.zeros(2, np.float32)}
    bad = Statistics({"w": np.full(2, np.nan, np.float32)}, 5)
    good = Statistics({"w": np.ones(2, np.float32)}, 5)
    np.testing.assert_array_equal(weighted_step(start, [bad, good], [0, 0.5])["w"], [0.5, 0.5])


def test_other_arrays_are_refused():
    start = {"w": np.zeros(3, np.float32)}
    for arrays in (
        {},
        {"v": np.zeros(3, np.float32)},
        {"w": np.zeros(3, np.float32), "v": np.zeros(1, np.float32)},
    ):
        with refuses("parameters", error=AggregationError):
            gram(start, [start, arrays])
        with refuses("parameters", error=AggregationError):
            weighted_step(start, [Statistics(arrays, 1)], [1.0])
