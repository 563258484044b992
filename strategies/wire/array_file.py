"""Named arrays in a safetensors file with a format number and a digest of itself.

The library reads the files. Its writer is not used because it copies the arrays, for every client
in every round, and writes the metadata in an order that changes.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load

from curvfed.tasks.stored_files import (
    FORMAT,
    UNSEALED,
    DamagedError,
    check_whole,
    metadata_of,
    sealed,
    unreadable,
)

_NAMES = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64"
_CODES = "BOOL U8 U16 U32 U64 I8 I16 I32 I64 F16 F32 F64"
DTYPES = dict(zip(map(np.dtype, _NAMES.split()), _CODES.split(), strict=True))
"""Their names in safetensors."""


class FormatError(ValueError):
    """An undamaged file of a format that this version does not read."""


def file_parts(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> list[memoryview]:
    """The parts of a file: its header after the header's length, and views of the arrays."""
    contents = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    entries: dict[str, Any] = {
        "__metadata__": {"digest": UNSEALED, "format": str(FORMAT), **metadata}
    }
    end = 0
    for name, array in contents.items():
        start = end
        end = end + array.nbytes
        entries[name] = {
            "dtype": DTYPES[array.dtype],
            "shape": array.shape,
            "data_offsets": [start, end],
        }
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    views = [memoryview(array.reshape(-1).view(np.uint8)) for array in contents.values()]  # type: ignore[arg-type]
    return [memoryview(sealed(len(header).to_bytes(8, "little") + header, *views)), *views]


def read(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Arrays, sorted by name, and metadata of a file.

    Raises
    ------
    OSError
    DamagedError
    FormatError
        If it is undamaged, and of a format that this version does not read.
    """
    data = path.read_bytes()
    try:
        metadata = metadata_of(data)
        check_whole(data)
        arrays = load(data)  # in an order that changes
    except DamagedError:
        raise
    except (SafetensorError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"it is damaged ({type(error).__name__})") from None
    if reason := unreadable(metadata.get("format", "none")):
        raise FormatError(reason)
    return {name: arrays[name] for name in sorted(arrays)}, metadata
