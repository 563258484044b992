"""Split aggregation against the weighted mean in exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from errors import refuses
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from curvfed.strategies.base import aggregation as split
from curvfed.strategies.base.aggregation import AggregationError
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.methods import METHODS

SHAPE = (2, 3)
float32 = st.floats(-1e6, 1e6, width=32)
float64 = st.floats(-1e6, 1e6)
weights = st.integers(0, 10**7)


def split_average(before, pairs):
    return split.split_average(before, [Statistics(arrays, examples) for examples, arrays in pairs])


@st.composite
def replies(draw, dtype=np.float32, shape=SHAPE, min_size=1, examples=weights):
    """Numbers of examples with arrays w, and a scalar k."""
    elements = float32 if dtype == np.float32 else float64
    reply = st.tuples(
        examples,
        st.fixed_dictionaries(
            {
                "w": hnp.arrays(dtype, shape, elements=elements),
                "k": hnp.arrays(dtype, (), elements=elements),
            }
        ),
    )
    return draw(st.lists(reply, min_size=min_size, max_size=6))


def current(dtype=np.float32):
    return {"w": np.full(SHAPE, 7, dtype), "k": np.array(-7, dtype)}


def exact(given_replies, name, index):
    """The weighted mean and the weighted mean of absolute values, in fractions."""
    total = sum(examples for examples, _ in given_replies)
    terms = [
        (Fraction(examples, total), Fraction(float(arrays[name][index])))
        for examples, arrays in given_replies
    ]
    return sum(share * value for share, value in terms), sum(
        share * abs(value) for share, value in terms
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(st.data())
def test_equals_the_exact_weighted_mean(dtype, data):
    given_replies = data.draw(
        replies(dtype).filter(lambda drawn: any(examples for examples, _ in drawn))
    )
    averaged = split_average(current(dtype), given_replies)
    eps = np.finfo(dtype).eps
    # of the sum, which is made in float64
    rounds = 1 if dtype == np.float32 else 2 * len(given_replies) + 1
    for name, array in averaged.items():
        assert array.dtype == dtype
        for index in np.ndindex(array.shape):
            mean, scale = exact(given_replies, name, index)
            bound = rounds * Fraction(float(eps)) * scale + Fraction(
                float(np.finfo(dtype).smallest_subnormal)
            )
            assert abs(Fraction(float(array[index])) - mean) <= bound


@given(
    hnp.arrays(np.float32, SHAPE, elements=float32),
    st.lists(st.integers(1, 10**7), min_size=1, max_size=30),
)
def test_equal_replies_come_out_as_they_are(array, sizes):
    averaged = split_average(
        {"w": np.zeros(SHAPE, np.float32)}, [(examples, {"w": array}) for examples in sizes]
    )
    np.testing.assert_array_equal(averaged["w"], array)


@given(replies(), st.integers(0, 6))
def test_who_has_no_examples_has_no_say(given_replies, place):
    """Not even if what it sends is NaN."""
    nothing = {"w": np.full(SHAPE, np.nan, np.float32), "k": np.array(np.inf, np.float32)}
    with_idle = [*given_replies[:place], (0, nothing), *given_replies[place:]]
    plain, extended = split_average(current(), given_replies), split_average(current(), with_idle)
    assert all(plain[name].tobytes() == extended[name].tobytes() for name in plain)


@pytest.mark.parametrize(
    "given_replies", [[], [(0, current())], [(0, {"w": np.zeros(SHAPE), "k": np.zeros(())})] * 3]
)
def test_without_examples_nothing_changes(given_replies):
    before = current()
    after = split_average(before, given_replies)
    assert all(after[name].tobytes() == before[name].tobytes() for name in before)
    after["w"][0, 0] = 0
    assert before["w"][0, 0] == 7


def test_names_and_their_order_are_those_of_the_server():
    averaged = split_average(current(), [(1, dict(reversed(current().items())))])
    assert list(averaged) == ["w", "k"]


PERSONAL = ("first.time", "second.gate", "k")


@pytest.mark.parametrize("name", PERSONAL)
def test_a_personal_parameter_is_refused_by_name(name):
    assert METHODS["flatland"].is_personal(name)
    shared = {"first.weight": np.zeros(SHAPE, np.float32)}
    carrying = shared | {name: np.zeros(3, np.float32)}
    with refuses("parameters", name, "['first.weight']", error=AggregationError):
        split_average(shared, [(1, shared), (1, carrying)])


def test_a_missing_parameter_is_refused_by_name_even_without_examples():
    with refuses("parameters", "['k']", error=AggregationError):
        split_average(current(), [(0, {"w": np.zeros(SHAPE, np.float32)})])


def test_replies_are_not_changed():
    reply = current()
    for array in reply.values():
        array.flags.writeable = False
    split_average(reply, [(1, reply), (2, reply)])


@pytest.mark.parametrize("columns", [0b000, 0b001, 0b110, 0b111])
def test_the_order_in_memory_changes_no_bit(columns):
    """Each bit: whether the current model, the first or the second reply is stored by columns."""
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((300, 500)).astype(np.float32) for _ in range(3)]
    expected = split_average({"w": rows[0]}, [(3, {"w": rows[1]}), (4, {"w": rows[2]})])["w"]
    mixed = [
        np.asfortranarray(array) if columns >> bit & 1 else array for bit, array in enumerate(rows)
    ]
    average = split_average({"w": mixed[0]}, [(3, {"w": mixed[1]}), (4, {"w": mixed[2]})])["w"]
    assert np.array_equal(average, expected)
    assert average.flags.f_contiguous == mixed[0].flags.f_contiguous
