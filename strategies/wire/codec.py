"""Messages in Flower's records, and arrays in NumPy's format, with few copies. No other file uses
the keys of the records.

A run may halve the bytes of its parameters (`Precision`): float32 is rounded to bfloat16 or float16
when it is encoded, and widened again when it is decoded. Both sides compute in float32, and the
server keeps its model in float32. It adds the rounding error of the sent model (`Precision.lost`)
to the replies, so that their distances from the model are those from the received model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np
import numpy.lib.format as npy
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from numpy.typing import NDArray

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

BFLOAT16 = np.dtype([("bfloat16", np.uint16)])
"""The upper half of a float32, a type that NumPy lacks. The field's name travels in the array's
header."""

_FORMATS = {"bfloat16": (BFLOAT16, 2.0**128 - 2.0**119), "float16": (np.dtype(np.float16), 65520.0)}
"""The type on the wire, and the smallest number that would become infinite: halfway from the
largest finite number to its successor."""


@dataclass(frozen=True)
class Precision:
    """The rounding in the messages of a run.

    Values are rounded to the nearest, ties to even. The error is at most a share of the value, 2⁻⁸
    for bfloat16 and 2⁻¹¹ for float16. Values below the smallest normal number (2⁻¹²⁶ and 2⁻¹⁴) have
    an absolute error of at most 2⁻¹³⁴ and 2⁻²⁵. Values that would become infinite, from 65520 in
    float16, are refused.

    Attributes
    ----------
    name : str
        "float32" rounds nothing; "bfloat16" or "float16".
    parameters : frozenset of str
        Names of the model's trained parameters, which are float32. Arrays with these names are
        rounded, also behind a prefix that ends with a slash, such as "variate/head.weight"; other
        arrays are not.
    """

    name: str = "float32"
    parameters: frozenset[str] = frozenset()

    def rounds(self, name: str) -> bool:
        """Whether an array of this name is rounded, if it is float32."""
        return self.name != "float32" and name.rpartition("/")[2] in self.parameters

    def narrow(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """An array as it is sent.

        Raises
        ------
        MessageError
            If a finite value would become infinite. NaN and infinite values are unchanged.
        """
        if not self.rounds(name) or array.dtype != np.float32:
            return array
        flat = array.reshape(-1)
        wire, limit = _FORMATS[self.name]
        if (largest := np.abs(flat[np.isfinite(flat)]).max(initial=0)) >= limit:
            raise MessageError(
                f"{name} has values of up to {largest:g}; allowed with wire-precision ="
                f' "{self.name}" are values below {limit:g}',
                key="too-large",
            )
        if wire != BFLOAT16:
            return array.astype(wire)
        bits = flat.view(np.uint32)
        # The carry of a NaN could make it a number.
        rounded = np.where(np.isnan(flat), bits | 0x400000, bits + (0x7FFF + (bits >> 16 & 1)))
        return (rounded >> 16).astype(np.uint16).view(wire).reshape(array.shape)

    def widen(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """A received array, as float32 again if it is rounded.

        Raises
        ------
        MessageError
            If an array that must be rounded is not.
        """
        if not self.rounds(name):
            return array
        if array.dtype != _FORMATS[self.name][0]:
            raise MessageError(
                f"{name} is {array.dtype}, expected {self.name}, for wire-precision ="
                f' "{self.name}"',
                key="shape",
            )
        if array.dtype != BFLOAT16:
            return array.astype(np.float32)
        return (
            (array["bfloat16"].reshape(-1).astype(np.uint32) << 16)
            .view(np.float32)
            .reshape(array.shape)
        )

    def lost(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The rounding errors of the model's parameters in these arrays: sent minus received, exact
        in float32."""
        lost = {}
        for name, array in arrays.items():
            if name in self.parameters and self.rounds(name):
                lost[name] = array - self.widen(name, self.narrow(name, array))
        return lost

    def size(self, arrays: Mapping[str, NDArray[Any]]) -> int:
        """Bytes of the arrays in a message, without the encoding's overhead."""
        if not self.parameters:
            return sum(array.nbytes for array in arrays.values())
        return sum(array.nbytes // (1 + self.rounds(name)) for name, array in arrays.items())


EXACT = Precision()
"""Nothing is rounded."""


def encode_arrays(arrays: Mapping[str, NDArray[Any]], precision: Precision = EXACT) -> ArrayRecord:
    """Arrays as one record in the same order, in NumPy's format, with one copy; Flower's own
    conversion makes three.

    Raises
    ------
    MessageError
        If a value is too large for the precision.
    """
    if precision.parameters:
        arrays = {name: precision.narrow(name, array) for name, array in arrays.items()}
    record = ArrayRecord()
    for name, values in arrays.items():
        array = np.asarray(values, order="C")
        dtype, header = _header_of(array.shape, array.dtype)
        data = b"".join([header, array.data if array.size else b""])
        record[name] = Array(dtype, array.shape, _NUMPY, data)
    return record


@lru_cache(maxsize=1024)
def _header_of(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[str, bytes]:
    """The name of the dtype, and the header of an array in C order; see `_read_header`."""
    header = BytesIO()
    fields = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
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
            shape, dtype = _read_header(array.data[:offset])
            # refuses too many or too few bytes
            arrays[name] = np.frombuffer(array.data, dtype, offset=offset).reshape(shape)
    except Exception as error:  # the exceptions of NumPy's header reader depend on the damage
        raise MessageError(
            f"an array cannot be read ({type(error).__name__})", key="unreadable-array"
        ) from None
    if precision.parameters:
        return {name: precision.widen(name, array) for name, array in arrays.items()}
    return arrays


@lru_cache(maxsize=1024)
def _read_header(header: bytes) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype. Cached: headers repeat in every round, and reading one takes as long as
    copying 100 kB."""
    stream = BytesIO(header)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError("not of version 1.0 of NumPy's format")
    shape, fortran, dtype = npy.read_array_header_1_0(stream)
    if fortran or dtype.hasobject:
        raise ValueError("not an array of numbers in C order")
    return shape, dtype


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
