"""Messages in Flower's records, and arrays in NumPy's format, with few copies. No other file uses
the keys of the records."""

from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any, Literal

import numpy as np
import numpy.lib.format as npy
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from numpy.typing import NDArray

from curvfed.geometry.arrays import memory_order
from curvfed.strategies.wire.checks import (
    MessageError,
    check_bits,
    check_data,
    check_partition,
    check_statistics,
    check_texts,
    one_line,
)
from curvfed.strategies.wire.messages import (
    DESCRIBE,
    WITHOUT_ARRAYS,
    Description,
    Facts,
    Header,
    Holders,
    Parts,
    Reply,
    Request,
    build_dataclass,
    entry,
    lists_to_tuples,
    record_of,
    tuples_to_lists,
)
from curvfed.strategies.wire.precision import EXACT, Precision

_HEADER = "header"
_FACTS = "facts"
_ARRAYS = "arrays"
_FIXED = "fixed"
_METRICS = "metrics"
_BODY = "body"
_PARTS = "parts"
_HOLDERS = "holders"

_NUMPY = "numpy.ndarray"
_PREFIX = 10  # bytes of NumPy's magic text, the version and the header's length


def encode_arrays(arrays: Mapping[str, NDArray[Any]], precision: Precision = EXACT) -> ArrayRecord:
    """Arrays as one record in the same order, in NumPy's format, with one copy; Flower's own
    conversion makes three. A matrix stored by columns stays so: to reorder it takes ten copies'
    time, in every reply.

    Raises
    ------
    MessageError
        If a value is too large for the precision.
    """
    if precision.parameters:
        arrays = {name: precision.narrow(name, array) for name, array in arrays.items()}
    record = ArrayRecord()
    for name, values in arrays.items():
        order = memory_order(values)
        dtype, header = _header_of(values.shape, values.dtype, order)
        flat = values.ravel(order=order)
        data = b"".join([header, flat.data if flat.size else b""])
        record[name] = Array(dtype, values.shape, _NUMPY, data)
    return record


@lru_cache(maxsize=1024)
def _header_of(shape: tuple[int, ...], dtype: np.dtype[Any], order: str) -> tuple[str, bytes]:
    """The name of the dtype, and the header of an array; see `_read_header`."""
    header = BytesIO()
    fields = {"descr": npy.dtype_to_descr(dtype), "fortran_order": order == "F", "shape": shape}
    npy.write_array_header_1_0(header, fields)
    return str(dtype), header.getvalue()


def decode_arrays(record: ArrayRecord, precision: Precision = EXACT) -> dict[str, NDArray[Any]]:
    """Inverse of `encode_arrays`; arrays that are not rounded are read-only views of the message.

    Raises
    ------
    MessageError
        If the bytes are not a NumPy array, are one of objects, or have another precision.
    """
    arrays = {}
    try:
        for name, array in record.items():
            if array.stype != _NUMPY or len(array.data) < _PREFIX:
                raise ValueError("not in NumPy's format")
            offset = _PREFIX + int.from_bytes(array.data[_PREFIX - 2 : _PREFIX], "little")
            shape, dtype, order = _read_header(array.data[:offset])
            flat = np.frombuffer(array.data, dtype, offset=offset)
            # refuses too many or too few bytes
            arrays[name] = flat.reshape(shape, order=order)
    except Exception as error:  # the exceptions of NumPy's header reader depend on the damage
        raise MessageError(
            f"an array cannot be read ({type(error).__name__})", key="unreadable-array"
        ) from None
    if precision.parameters:
        return {name: precision.widen(name, array) for name, array in arrays.items()}
    return arrays


@lru_cache(maxsize=1024)
def _read_header(header: bytes) -> tuple[tuple[int, ...], np.dtype[Any], Literal["C", "F"]]:
    """Shape, dtype and order. Cached: headers repeat in every round, and reading one takes as long
    as copying 100 kB."""
    stream = BytesIO(header)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError("not of version 1.0 of NumPy's format")
    shape, is_by_column, dtype = npy.read_array_header_1_0(stream)
    if dtype.hasobject:
        raise ValueError("not an array of numbers")
    return shape, dtype, "F" if is_by_column else "C"


def encode_request(request: Request) -> RecordDict:
    """A request as Flower's records."""
    content = RecordDict({_HEADER: ConfigRecord(vars(request.header) | {"stamp": request.stamp})})
    if request.facts is not None:
        content[_FACTS] = _facts_record(request.facts)
    if request.arrays:
        content[_ARRAYS] = request.arrays
    if request.fixed:
        content[_FIXED] = request.fixed
    if request.parts:
        content[_PARTS] = ConfigRecord(dict(request.parts))
    if request.holders is not None:
        content[_HOLDERS] = ConfigRecord(tuples_to_lists(vars(request.holders)))
    return content


@lru_cache(maxsize=8)
def _facts_record(facts: Facts) -> ConfigRecord:
    """The facts as a record that all requests share: there may be a thousand names."""
    return ConfigRecord(tuples_to_lists(vars(facts)))


@lru_cache(maxsize=8, typed=True)
def _facts(**record: Any) -> Facts:
    """The facts from the entries of their record, with tuples for lists; they repeat in every
    message of a run."""
    return build_dataclass(Facts, record)


def round_of(content: RecordDict) -> int:
    """The round of a request; see `decode_request`."""
    return entry(record_of(content, _HEADER, ConfigRecord, is_required=True), "round", int)


def decode_request(content: RecordDict) -> Request:
    """A request from Flower's records.

    Raises
    ------
    MessageError
        If a record or a key is missing or has another type, or a name is too long.
    """
    header = record_of(content, _HEADER, ConfigRecord, is_required=True)
    facts = None
    if _FACTS in content:
        record = record_of(content, _FACTS, ConfigRecord, is_required=True)
        facts = _facts(**lists_to_tuples(record))
    arrays = record_of(content, _ARRAYS, ArrayRecord)
    fixed = record_of(content, _FIXED, ArrayRecord)
    check_texts([*arrays, *fixed])
    holders = None
    if _HOLDERS in content:
        record = record_of(content, _HOLDERS, ConfigRecord, is_required=True)
        holders = build_dataclass(Holders, record)
    return Request(
        build_dataclass(Header, header),
        entry(header, "stamp", int),
        facts,
        arrays,
        fixed,
        _parts(content) if _PARTS in content else {},
        holders,
    )


def encode_reply(reply: Reply, precision: Precision = EXACT) -> RecordDict:
    """A reply as Flower's records.

    Raises
    ------
    MessageError
        If a value is too large for the precision.
    """
    header = {
        "partition": reply.partition,
        "error": reply.error,
        "num_examples": reply.num_examples,
    }
    header |= {} if reply.restored is None else {"restored": reply.restored}
    content = RecordDict({_HEADER: ConfigRecord(vars(reply.header) | header)})
    if reply.description is not None:
        body = dict(vars(reply.description))
        statistics = {
            key: value for key, value in body.pop("statistics").items() if value is not None
        }
        content[_BODY] = ConfigRecord(tuples_to_lists(body))
        content["statistics"] = ConfigRecord(tuples_to_lists(statistics))
    if reply.arrays:
        content[_ARRAYS] = encode_arrays(reply.arrays, precision)
    if reply.parts:
        content[_PARTS] = ConfigRecord(dict(reply.parts))
    if reply.metrics:
        content[_METRICS] = MetricRecord(
            {name: float(value) for name, value in reply.metrics.items()}
        )
    return content


def decode_reply(content: RecordDict, expected: Header, precision: Precision = EXACT) -> Reply:
    """A reply from Flower's records; its form, run, phase and round are checked.

    Raises
    ------
    MessageError
        If a record or a key is missing or has another type, a name is too long, or the reply
        belongs to another run, phase or round.
    """
    record = record_of(content, _HEADER, ConfigRecord, is_required=True)
    header = build_dataclass(Header, record)
    for name, value in vars(expected).items():
        received = getattr(header, name)
        if received != value:
            raise MessageError(f"the reply has {name} {received}, expected {value}", key="header")
    partition = entry(record, "partition", int)
    error = entry(record, "error", str)
    if error:
        error = one_line(error)
    description = None
    if header.phase == DESCRIBE and not error:
        description = _description(content, partition)
    num_examples = entry(record, "num_examples", int)
    if num_examples < 0:
        raise MessageError(f"num_examples is {num_examples}; allowed is 0 or more", key="examples")
    metrics = record_of(content, _METRICS, MetricRecord)
    if header.phase in WITHOUT_ARRAYS and _ARRAYS in content:
        raise MessageError(
            f"arrays are not expected in phase {header.phase}", key="unexpected-arrays"
        )
    arrays = record_of(content, _ARRAYS, ArrayRecord)
    check_texts([*arrays, *metrics])
    numbers = [(name, item) for name, item in metrics.items() if isinstance(item, int | float)]
    restored = entry(record, "restored", int) if "restored" in record else None
    return Reply(
        header,
        partition,
        error=error,
        description=description,
        num_examples=num_examples,
        arrays=decode_arrays(arrays, precision),
        metrics={name: float(item) for name, item in numbers},
        parts=_parts(content) if _PARTS in content else {},
        restored=restored,
    )


def _description(content: RecordDict, partition: int) -> Description:
    """The checked description of a client."""
    body: dict[str, Any] = dict(record_of(content, _BODY, ConfigRecord, is_required=True))
    statistics = record_of(content, "statistics", ConfigRecord, is_required=True)
    body["statistics"] = dict(statistics)
    data = build_dataclass(Description, body)
    check_texts(data.statistics)
    check_data(data.task, data.space, data.shape, data.num_features, data.class_names)
    check_bits(data.bits)
    check_statistics(data.task, data.statistics, len(data.class_names))
    check_partition(partition, data.num_partitions, data.partition_digest)
    return data


def _parts(content: RecordDict) -> Parts:
    parts = dict(record_of(content, _PARTS, ConfigRecord))
    check_texts([*parts, *(value for value in parts.values() if isinstance(value, str))])
    return parts
