"""Rounding on the wire: torch's conversions to the bit, ties, subnormals, limits, messages."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from curvfed.strategies.wire.checks import MessageError, check_arrays
from curvfed.strategies.wire.codec import decode_arrays, encode_arrays
from curvfed.strategies.wire.precision import BFLOAT16, EXACT, Precision

NAMES = frozenset({"head.weight", "k"})
NARROW = {name: Precision(name, NAMES) for name in ("bfloat16", "float16")}
TORCH = {"bfloat16": torch.bfloat16, "float16": torch.float16}
LARGEST = {"bfloat16": 2.0**128 - 2.0**120, "float16": 65504.0}
LIMIT = {"bfloat16": 2.0**128 - 2.0**119, "float16": 65520.0}

both = pytest.mark.parametrize("name", NARROW)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
bits = hnp.arrays(np.uint32, shapes)
"""Any float32: uniform over exponents, with subnormal numbers, infinities and NaN."""


def received(name, values):
    """What the other side has, after a message."""
    precision = NARROW[name]
    sent = encode_arrays({"head.weight": values}, precision)
    return decode_arrays(sent, precision)["head.weight"]


def by_torch(name, values):
    return torch.from_numpy(values.copy()).to(TORCH[name]).to(torch.float32).numpy()


def float32(*values):
    return np.array(values, np.float32)


@both
@given(bits)
def test_as_torch_rounds(name, bits):
    values = bits.view(np.float32)
    values = np.where(np.abs(values) < LIMIT[name], values, np.float32(0))  # NaN too
    arrived = received(name, values)
    assert (arrived.dtype, arrived.shape) == (np.float32, values.shape)
    assert arrived.tobytes() == by_torch(name, values).tobytes()


@both
@given(bits)
def test_a_second_message_changes_nothing_and_the_loss_is_exact(name, bits):
    values = bits.view(np.float32)
    values = np.where(np.abs(values) < LIMIT[name], values, np.float32(1))
    arrived = received(name, values)
    exact, rounded = values.astype(np.float64), arrived.astype(np.float64)
    assert received(name, arrived).tobytes() == arrived.tobytes()
    lost = NARROW[name].lost({"k": values})["k"]
    assert (lost.astype(np.float64) == exact - rounded).all()


@both
def test_every_number_stays_and_ties_go_to_the_even_neighbour(name):
    halves = np.arange(2**16, dtype=np.uint16)
    numbers = torch.from_numpy(halves.view(np.int16)).view(TORCH[name]).to(torch.float32).numpy()
    odd = halves % 2 == 1
    finite = np.isfinite(numbers)
    assert received(name, numbers[finite]).tobytes() == numbers[finite].tobytes()
    nonnegative = finite & (halves < 2**15)
    lower, upper = numbers[nonnegative][:-1], numbers[nonnegative][1:]
    middle = ((lower.astype(np.float64) + upper) / 2).astype(np.float32)
    even = np.where(odd[nonnegative][:-1], upper, lower)
    assert (received(name, middle) == even).all()
    assert (received(name, -middle) == -even).all()
    assert (received(name, np.nextafter(middle, upper)) == upper).all()
    assert (received(name, np.nextafter(middle, lower)) == lower).all()


@both
@pytest.mark.parametrize("sign", [1, -1])
def test_a_value_that_would_become_infinite_is_refused_by_name(name, sign):
    below = np.nextafter(np.float32(LIMIT[name]), np.float32(0))
    assert received(name, float32(sign * below)).tolist() == [sign * LARGEST[name]]
    for values in (float32(0, sign * LIMIT[name]), float32(np.nan, sign * LIMIT[name], np.inf)):
        with pytest.raises(
            MessageError, match=rf'^variate/head.weight has values .* wire-precision = "{name}"'
        ):
            NARROW[name].narrow("variate/head.weight", values)


@both
@given(hnp.arrays(np.uint32, 8, elements=st.integers(0x7F800000, 0x7FFFFFFF)), st.booleans())
def test_what_is_not_finite_stays_so_and_is_refused_where_it_arrives(name, bits, is_negative):
    values = (bits | np.uint32(is_negative << 31)).view(np.float32)
    arrived = received(name, values)
    assert (np.isnan(arrived) == np.isnan(values)).all()
    assert (np.isinf(arrived) == np.isinf(values)).all()
    with pytest.raises(MessageError, match="not finite"):
        check_arrays({"head.weight": arrived}, {"head.weight": values})


@both
@given(shapes)
def test_half_the_bytes_of_the_parameters_and_all_of_the_others(name, shape):
    parameter = np.ones(shape, np.float32)
    unrounded = {
        "norm.running_mean": parameter,
        "moments": parameter,
        "head.weight/moments": parameter,
        "masked": np.ones(shape, np.uint64),
        "shares": np.ones(shape),
    }
    arrays = {
        "head.weight": parameter,
        "variate/k": parameter,
        "core/3/head.weight": parameter,
        **unrounded,
    }
    precision = NARROW[name]
    sent = {key: precision.narrow(key, array) for key, array in arrays.items()}
    halves = 2 * parameter.size
    assert [array.nbytes for array in sent.values()][:3] == [halves] * 3
    assert all(sent[key] is array for key, array in unrounded.items())
    assert precision.size(arrays) == sum(array.nbytes for array in sent.values())
    back = decode_arrays(encode_arrays(arrays, precision), precision)
    check_arrays(back, arrays)
    assert all((back[key] == array).all() for key, array in arrays.items())
    assert sorted(precision.lost(arrays)) == ["head.weight"]  # others have no place in the model


@given(bits)
def test_float32_is_sent_as_it_is(bits):
    arrays = {"head.weight": bits.view(np.float32)}
    for precision in (EXACT, Precision("float32", NAMES)):
        for name, array in arrays.items():
            assert precision.narrow(name, array) is array
            assert precision.widen(name, array) is array
        assert precision.lost(arrays) == {}
        assert precision.size(arrays) == arrays["head.weight"].nbytes


def test_a_turned_array_keeps_its_places():
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    for name in NARROW:
        assert (received(name, turned) == turned).all()


@both
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.uint16, ">f2", [("bfloat16", ">u2")], [("float16", "<u2")]]
)
def test_a_parameter_of_another_type_is_refused(name, dtype):
    with pytest.raises(
        MessageError, match=rf"^head.weight is .*, expected {name}, for wire-precision"
    ):
        NARROW[name].widen("head.weight", np.zeros(2, dtype))


def test_the_other_precision_is_refused_and_so_is_one_where_none_is_awaited():
    zeros = {"head.weight": np.zeros(2, np.float32)}
    for name, wrong_name in (("bfloat16", "float16"), ("float16", "bfloat16")):
        sent = encode_arrays(zeros, NARROW[name])
        with pytest.raises(MessageError, match=f"expected {wrong_name}"):
            decode_arrays(sent, NARROW[wrong_name])
        with pytest.raises(MessageError, match=r"expected float32\[2\]"):
            check_arrays(decode_arrays(sent), zeros)
    assert NARROW["bfloat16"].narrow("head.weight", zeros["head.weight"]).dtype == BFLOAT16
