"""Named arrays in messages: NumPy's format in Flower's records, with few copies, and checks of
received arrays."""

from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np
import numpy.lib.format as npy
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from curvfed.tasks.errors import SafeError

# magic, version and the header's length take ten bytes
_NUMPY = "numpy.ndarray"
_PREFIX = 10

MAX_REASON = 2000
"""Maximum number of characters of a logged reason. It may quote the other side, which could
otherwise fill a disk."""


class MessageError(SafeError, ValueError):
    """An unexpected message; the text is safe to print, whatever it quotes (`one_line`)."""

    area = "message"

    def __init__(self, reason: str, *, key: str = "") -> None:
        super().__init__(one_line(reason), key=key)


def one_line(text: str, length: int = MAX_REASON) -> str:
    """A text on one line without control characters, cut off after `length` characters."""
    line = "".join(
        char if char.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for char in " ".join(text[: 2 * length].split())
    )
    return line if len(line) <= length else line[: length - 1] + "…"


def encode_arrays(arrays: Mapping[str, NDArray[Any]]) -> ArrayRecord:
    """Arrays as one record in the same order, in NumPy's format, with one copy; Flower's own
    conversion makes three."""
    return ArrayRecord(
        {name: _pack(np.asarray(array, order="C")) for name, array in arrays.items()}
    )


def _pack(array: NDArray[Any]) -> Array:
    header = BytesIO()
    npy.write_array_header_1_0(header, npy.header_data_from_array_1_0(array))
    data = b"".join([header.getvalue(), array.data if array.size else b""])
    return Array(dtype=str(array.dtype), shape=tuple(array.shape), stype=_NUMPY, data=data)


def decode_arrays(record: ArrayRecord) -> dict[str, NDArray[Any]]:
    """Inverse of `encode_arrays`; the arrays are read-only views of the message.

    Raises
    ------
    MessageError
        If the bytes are not a NumPy array, or are one of objects.
    """
    try:
        return {name: _unpack(array) for name, array in record.items()}
    except Exception as error:  # the exceptions of NumPy's header reader depend on the damage
        raise MessageError(
            f"an array cannot be read ({type(error).__name__})", key="unreadable-array"
        ) from None


def _unpack(array: Array) -> NDArray[Any]:
    if array.stype != _NUMPY or len(array.data) < _PREFIX:
        raise ValueError("not in NumPy's format")
    offset = _PREFIX + int.from_bytes(array.data[_PREFIX - 2 : _PREFIX], "little")
    shape, dtype = _read_header(array.data[:offset])
    # refuses too many or too few bytes
    return np.frombuffer(array.data, dtype, offset=offset).reshape(shape)


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


def check_arrays(arrays: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]]) -> None:
    """Refuse arrays that have other names, shapes or dtypes than expected, or are not finite.

    Raises
    ------
    MessageError
        Names the first wrong parameter and what is wrong with it.
    """
    if arrays.keys() != expected.keys():
        extra = sorted(arrays.keys() - expected.keys())
        missing = sorted(expected.keys() - arrays.keys())
        raise MessageError(
            f"parameters do not match: unexpected {extra}, missing {missing}", key="parameters"
        )
    for name, array in arrays.items():
        template = expected[name]
        if array.shape != template.shape or array.dtype != template.dtype:
            raise MessageError(
                f"{name} is {array.dtype}{list(array.shape)}, expected"
                f" {template.dtype}{list(template.shape)}",
                key="shape",
            )
        if not np.isfinite(array).all():
            raise MessageError(f"{name} has values that are not finite", key="not-finite")
