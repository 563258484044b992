"""Messages: what goes in comes out; what is none is refused in words that hold none of it."""

import io
import math
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from errors import refuses
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from curvfed.strategies.wire.checks import (
    MAX_PARTITIONS,
    MAX_REASON,
    MessageError,
    check_arrays,
    one_line,
)
from curvfed.strategies.wire.codec import (
    decode_arrays,
    decode_reply,
    decode_request,
    encode_arrays,
    encode_reply,
    encode_request,
)
from curvfed.strategies.wire.messages import (
    MESSAGE_TYPES,
    TRAIN,
    WITHOUT_ARRAYS,
    Description,
    Facts,
    Header,
    Reply,
    Request,
)

HEADER = Header("run", "train", 3)
ASKED = Header("run", "describe", 0)
DESCRIPTION = Description(
    "nodes", "", "accuracy", 3, ("a", "b"), "d" * 64, "", {"num_test": 4, "class_counts": [5, 6]}
)

ints = st.integers(0, 2**63 - 1)
numbers = st.floats(allow_nan=False)
finite = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(max_size=20).filter(str.isprintable)
names = texts.filter(str.isprintable)
arrays = hnp.arrays(
    st.sampled_from([np.float32, np.float64, np.float16, np.int64, np.uint8, np.bool_]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
headers = st.builds(Header, texts, st.sampled_from(["curvature", "train", "evaluate"]), ints)
facts = st.builds(
    Facts,
    texts,
    ints,
    st.lists(texts).map(tuple),
    texts,
    st.booleans(),
    st.lists(numbers).map(tuple),
)
values = st.one_of(
    *(
        one | st.lists(one, min_size=1, max_size=3)
        for one in (ints, numbers, texts, st.binary(max_size=20))
    )
)
parts = st.dictionaries(texts.filter(bool), values, max_size=4)
named_arrays = st.dictionaries(texts.filter(bool), arrays, max_size=4)


@st.composite
def descriptions(draw):
    task = draw(st.sampled_from(["nodes", "graphs", "points"]))
    classes = tuple(draw(st.lists(names, min_size=task != "points", max_size=5, unique=True)))
    counts = draw(st.lists(ints, min_size=len(classes), max_size=len(classes)))
    ranges = {
        "num_test": st.integers(0, 2**53 - 1),
        "forman": finite,
        "majority_accuracy": st.floats(0, 1),
    }
    statistics = draw(st.fixed_dictionaries({}, optional=ranges))
    partition_digest = draw(names)
    return Description(
        task,
        draw(names) if task == "graphs" else "",
        draw(names),
        2 if task == "points" else draw(ints) + 1,
        classes,
        draw(names),
        partition_digest,
        statistics | {"class_counts": counts},
        num_partitions=draw(st.integers(1, MAX_PARTITIONS)) if partition_digest else 0,
    )


def equal(one, other):
    """Equal to the bit: names, order, shapes, dtypes, bytes."""
    return list(one) == list(other) and all(
        one[name].shape == other[name].shape
        and one[name].dtype == other[name].dtype
        and one[name].tobytes() == other[name].tobytes()
        for name in one
    )


def record(header=HEADER, **changes):
    content = {"run": header.run, "phase": header.phase, "round": header.round}
    content |= {"partition": 1, "error": "", "num_examples": 2} | changes
    return ConfigRecord({key: value for key, value in content.items() if value is not None})


def described(**changes):
    """The records of a good answer to `describe`, some changed; None takes one away."""
    content = encode_reply(Reply(ASKED, 1, description=DESCRIPTION))
    for key, change in changes.items():
        if change is None:
            del content[key]
        else:
            content[key] = ConfigRecord(
                {k: v for k, v in {**content[key], **change}.items() if v is not None}
            )
    return content


def raw(data, stype="numpy.ndarray"):
    return ArrayRecord({"w": Array("float32", (2,), stype, data)})


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def header_of(description):
    """An .npy file whose header says this, and no data."""
    text = description.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def archive():
    stream = io.BytesIO()
    np.savez(stream, w=np.zeros(2, np.float32))
    return stream.getvalue()


@given(named_arrays)
def test_arrays_come_back_to_the_bit(given_arrays):
    odd = {
        "k": np.float32(0.5) * np.ones((), np.float32),
        "empty": np.zeros((0, 3), np.float32),
        "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "strided": np.arange(6, dtype=np.float64)[::2],
    }
    for arrays in (given_arrays, odd):
        assert equal(decode_arrays(encode_arrays(arrays)), arrays)


def test_a_matrix_stored_by_columns_stays_so():
    arrays = {"turned": np.arange(6, dtype=np.float32).reshape(2, 3).T}
    record = encode_arrays(arrays)
    read_by_numpy = np.load(io.BytesIO(record["turned"].data))
    for back in (decode_arrays(record)["turned"], read_by_numpy):
        assert np.array_equal(back, arrays["turned"])
        assert back.flags.f_contiguous


@given(headers, ints, facts, named_arrays, named_arrays, parts)
def test_request_round_trip(header, stamp, notes, sent, fixed, besides):
    request = Request(header, stamp, notes, encode_arrays(sent), encode_arrays(fixed), besides)
    back = decode_request(encode_request(request))
    assert replace(back, arrays=request.arrays, fixed=request.fixed) == request
    assert equal(decode_arrays(back.arrays), sent)
    assert equal(decode_arrays(back.fixed), fixed)


@given(
    headers,
    st.sampled_from([TRAIN, "hulls"]),
    ints,
    texts,
    ints,
    named_arrays,
    st.dictionaries(texts.filter(bool), numbers),
    parts,
)
@example(Header("run", TRAIN, 0), TRAIN, 0, "two\nlines", 1, {}, {}, {})
def test_reply_round_trip(header, phase, partition, error, examples, sent, metrics, besides):
    header = replace(header, phase=phase)
    reply = Reply(header, partition, error, None, examples, sent, metrics, besides)
    back = decode_reply(encode_reply(reply), header)
    assert replace(back, arrays=reply.arrays) == replace(reply, error=one_line(error))
    assert equal(back.arrays, sent)


@given(descriptions(), st.data())
def test_description_round_trip(description, data):
    whose = st.integers(0, description.num_partitions - 1) if description.partition_digest else ints
    reply = Reply(ASKED, data.draw(whose), description=description)
    assert decode_reply(encode_reply(reply), ASKED) == reply


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ({"task": "texts"}, 'the task of the data is "texts"'),
        ({"task": "points", "num_features": 3}, "num_features is 3; points have 2"),
        ({"num_features": 2, "space": "MUTAG"}, "no feature space"),
        ({"num_features": 2, "class_names": ("a", "a")}, "2 class names; allowed are 0"),
        ({"task": "nodes", "class_names": ()}, "0 class names; allowed are 1"),
        ({"bits": 7}, "bits is 7; allowed are 0 and 8 to 16"),
    ],
)
def test_points_have_two_coordinates_and_may_have_no_classes(description, words):
    """A client that holds no points may take part."""
    notes = replace(DESCRIPTION, statistics={})
    points = replace(notes, task="points", num_features=2, class_names=())
    reply = Reply(ASKED, 0, description=points)
    assert decode_reply(encode_reply(reply), ASKED) == reply
    wrong = Reply(ASKED, 0, description=replace(points, **description))
    with pytest.raises(MessageError, match=words):
        decode_reply(encode_reply(wrong), ASKED)


@pytest.mark.parametrize(
    ("partition", "parts"), [(1, 0), (1, 1), (1, -1), (-1, 3), (1, MAX_PARTITIONS + 1)]
)
def test_a_part_that_a_public_data_set_cannot_have(partition, parts):
    notes = replace(DESCRIPTION, partition_digest="p" * 64, num_partitions=2)
    assert (
        decode_reply(encode_reply(Reply(ASKED, 1, description=notes)), ASKED).description == notes
    )
    with pytest.raises(MessageError) as caught:
        decode_reply(
            encode_reply(Reply(ASKED, partition, description=replace(notes, num_partitions=parts))),
            ASKED,
        )
    assert str(caught.value).startswith(
        f"num_partitions is {parts}; allowed is a number above partition-id, {partition},"
    )


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        (Header("other", "train", 3), "the reply has run run, expected other"),
        (Header("run", "evaluate", 3), "the reply has phase train, expected evaluate"),
        (Header("run", "train", 4), "the reply has round 3, expected 4"),
    ],
)
def test_reply_that_belongs_elsewhere(expected, words):
    with pytest.raises(MessageError, match=words):
        decode_reply(encode_reply(Reply(HEADER, 0)), expected)


OF_NODES = {"task": "nodes", "num_features": 3, "class_names": ["a"]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, 'the record "header" is missing'),
        ({"header": record()}, '"stamp" is NoneType, expected int'),
        ({"header": record(stamp=0), "facts": ConfigRecord()}, '"task" is NoneType, expected str'),
        ({"header": record(stamp=0), "facts": MetricRecord()}, 'the record "facts" is missing'),
        ({"header": record(stamp=0), "facts": ConfigRecord(OF_NODES)}, '"shape" is NoneType'),
    ],
)
def test_request_of_another_form(content, words):
    with pytest.raises(MessageError, match=f"^{words}"):
        decode_request(RecordDict(content))


def test_equal_facts_of_another_type_are_refused_after_those_of_the_right_one():
    rest = {"shape": "", "own_ends": False, "figures": [], "partitions": [], "bits": 0}
    for own_ends, is_right in ((False, True), (0, False), (False, True)):
        facts = ConfigRecord(OF_NODES | rest | {"own_ends": own_ends})
        content = RecordDict({"header": record(stamp=0), "facts": facts})
        if is_right:
            assert decode_request(content).facts == Facts("nodes", 3, ("a",))
            continue
        with pytest.raises(MessageError, match='"own_ends" is int, expected bool'):
            decode_request(content)


def replied(**fields):
    return RecordDict({"header": record(**fields)})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (RecordDict(), 'the record "header" is missing'),
        (replied(run=None), '"run" is NoneType, expected str'),
        (replied(round="3"), '"round" is str, expected int'),
        (replied(round=True), '"round" is bool, expected int'),
        (replied(partition=None), '"partition" is NoneType, expected int'),
        (replied(error=b"text"), '"error" is bytes, expected str'),
        (replied(num_examples=-1), "num_examples is -1"),
        (described(body=None), 'the record "body" is missing'),
        (described(statistics=None), 'the record "statistics" is missing'),
        (described(body={"task": None}), '"task" is NoneType, expected str'),
        (described(body={"class_names": "ab"}), '"class_names" is not a list of strings'),
        (described(body={"class_names": [1, 2]}), '"class_names" is not a list of strings'),
        (described(body={"digest": b"d"}), '"digest" is bytes, expected str'),
        (described(body={"num_partitions": True}), '"num_partitions" is bool, expected int'),
        (described(body={"num_partitions": 2}), "num_partitions is 2"),
        (described(statistics={"num_test": "4"}), '"num_test" is not a finite number'),
        (described(statistics={"forman": math.nan}), '"forman" is not a finite number'),
        (described(statistics={"majority_accuracy": [0.5]}), '"majority_accuracy" is not'),
        (described(statistics={"class_counts": [5]}), '"class_counts" does not have'),
        (described(statistics={"class_counts": [5, -1]}), '"class_counts" does not have'),
        (described(statistics={"class_counts": "56"}), '"class_counts" does not have'),
        (described(body={"class_names": ["a", "b\n"]}), "a name or a text has"),
        (described(body={"class_names": ["a", 201 * "b"]}), "a name or a text has"),
        (described(body={"space": "\x1b[2J"}), "a name or a text has"),
        (described(body={"metric": "\t"}), "a name or a text has"),
    ],
)
def test_reply_of_another_form(content, words):
    expected = ASKED if "body" in content or "statistics" in content else HEADER
    with pytest.raises(MessageError, match=f"^{words}"):
        decode_reply(content, expected)


def test_what_is_no_record_of_values_or_numbers_is_left_out():
    """Who takes parts checks that those awaited are there."""
    asked, answered = encode_request(Request(HEADER)), encode_reply(Reply(HEADER, 0))
    asked["parts"], answered["parts"] = MetricRecord({"masked": 1}), ArrayRecord()
    assert decode_request(asked).parts == decode_reply(answered, HEADER).parts == {}
    answered["metrics"] = MetricRecord({"loss": 1, "score": [0.5, 0.5]})
    assert decode_reply(answered, HEADER).metrics == {"loss": 1.0}
    assert decode_reply(described(), ASKED).description == DESCRIPTION


@pytest.mark.parametrize(
    "arrays_record",
    [
        raw(b""),
        raw(b"\x93NUMPY"),
        raw(npy(np.zeros(2, np.float32))[:-3]),
        raw(npy(np.array([{"any": "thing"}], dtype=object))),
        raw(npy(np.zeros(2, np.float32)), stype="torch.tensor"),
        raw(archive()),
        raw(b"PK\x03\x04 no archive"),
        raw(header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -1), }")),
        raw(header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999999,), }")),
        raw(header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (9" + "9" * 40 + ",), }")),
        raw(header_of("{'descr': '<f4', 'fortran_order': False, 'shape': ((((((")),
        raw(header_of("__import__('os')")),
    ],
)
def test_bytes_that_are_no_array(arrays_record):
    with refuses("unreadable-array", error=MessageError):
        decode_arrays(arrays_record)
    with refuses("unreadable-array", error=MessageError):
        decode_reply(RecordDict({"header": record(), "arrays": arrays_record}), HEADER)


@given(
    st.binary(max_size=300)
    | st.binary(max_size=200).map(lambda tail: npy(np.ones((2, 2), np.float32))[:80] + tail)
)
def test_any_bytes_are_an_array_or_refused(data):
    try:
        result = decode_arrays(raw(data))
    except MessageError:
        return
    assert isinstance(result["w"], np.ndarray)
    assert not result["w"].dtype.hasobject


@given(st.data())
def test_a_damaged_archive_is_refused(data):
    """A zip file, which NumPy's reader takes for one of its archives, with any byte changed."""
    content = bytearray(archive())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    assert zipfile.is_zipfile(io.BytesIO(archive()))
    with refuses("unreadable-array", error=MessageError):
        decode_arrays(raw(bytes(content)))


EXPECTED = {
    "w": np.zeros((2, 3), np.float32),
    "b": np.zeros(3, np.float32),
    "k": np.zeros((), np.float32),
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"k": None}, "parameters do not match: unexpected [], missing ['k']"),
        ({"t": np.zeros(3, np.float32)}, "parameters do not match: unexpected ['t'], missing []"),
        ({"w": np.zeros((3, 2), np.float32)}, "w is float32[3, 2], expected float32[2, 3]"),
        ({"k": np.zeros(1, np.float32)}, "k is float32[1], expected float32[]"),
        ({"b": np.zeros(3, np.float64)}, "b is float64[3], expected float32[3]"),
        ({"b": np.array(["a", "b", "c"])}, "b is <U1[3], expected float32[3]"),
        ({"b": np.array([0, np.nan, 0], np.float32)}, "b has values that are not finite"),
        ({"w": np.full((2, 3), -np.inf, np.float32)}, "w has values that are not finite"),
    ],
)
def test_arrays_that_do_not_fit_are_named(changes, words):
    check_arrays(dict(EXPECTED), EXPECTED)
    changed = {name: array for name, array in (EXPECTED | changes).items() if array is not None}
    with pytest.raises(MessageError) as caught:
        check_arrays(changed, EXPECTED)
    assert str(caught.value) == words


@given(st.text())
def test_a_reason_is_one_line_that_moves_no_cursor(text):
    result = str(MessageError(text))
    assert len(result) <= MAX_REASON
    assert result.isprintable()
    assert one_line(result) == result
    if text.isprintable() and len(text) <= MAX_REASON and text == " ".join(text.split()):
        assert result == text


@pytest.mark.parametrize("phase", WITHOUT_ARRAYS)
def test_arrays_come_where_they_are_awaited_alone(phase):
    header = Header("run", phase, 0)
    with refuses("unexpected-arrays", error=MessageError):
        decode_reply(encode_reply(Reply(header, 0, "an error", arrays={"k": np.zeros(1)})), header)


LONG = 10**6 * "x"


@pytest.mark.parametrize("phase", MESSAGE_TYPES)
@pytest.mark.parametrize(
    "changes",
    [
        {"header": Header(LONG, TRAIN, 1)},
        {"header": Header("run\x1b[2J", TRAIN, 1)},
        {"facts": Facts(LONG, 1, ())},
        {"facts": Facts("points", 1, ("a", LONG))},
        {"arrays": encode_arrays({LONG: np.zeros(1)})},
        {"fixed": encode_arrays({LONG: np.zeros(1)})},
        {"parts": {LONG: 1}},
        {"parts": {"target": LONG}},
    ],
    ids=["run", "characters", "task", "classes", "arrays", "fixed", "parts", "part"],
)
def test_no_request_brings_a_long_name(changes, phase):
    """They became lines of ledgers and logs, of a million characters each."""
    request = Request(Header("run", phase, 1)) if "header" not in changes else Request(HEADER)
    with refuses("text", 200, error=MessageError):
        decode_request(encode_request(replace(request, **changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {"arrays": {LONG: np.zeros(1)}},
        {"metrics": {LONG: 1.0}},
        {"parts": {"digest": LONG}},
        {"description": replace(DESCRIPTION, statistics={LONG: 1.0})},
    ],
    ids=["arrays", "metrics", "parts", "statistics"],
)
def test_no_reply_brings_a_long_name(changes):
    expected = ASKED if "description" in changes else HEADER
    with refuses("text", 200, error=MessageError):
        decode_reply(encode_reply(Reply(expected, 1, **changes)), expected)
