"""Named arrays in safetensors files with a format number and a digest of themselves, and a folder
of them by round that keeps the last two.

The server's checkpoints and the clients' personal state are stored this way: a run that resumes
from round r finds round r even if the process was killed while it wrote round r + 1.

The library reads the files. Its writer is not used because it copies the arrays, for every client
in every round, and writes the metadata in an order that changes.
"""

import contextlib
import json
import math
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from curvfed.geometry.arrays import Array
from curvfed.tasks.errors import SafeError
from curvfed.tasks.stored_files import (
    FORMAT,
    UNSEALED,
    DamagedError,
    check_whole,
    make_private,
    metadata_of,
    remove_abandoned,
    sealed,
    sync_folder,
    temporary_path,
    unreadable,
)

_MOST_BUFFERS = 512  # well below the limit of one system call
_NAME = re.compile(r"^(\d{8})\.safetensors$")


_DTYPE_NAMES = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64"
_DTYPE_CODES = "BOOL U8 U16 U32 U64 I8 I16 I32 I64 F16 F32 F64"
DTYPES = dict(zip(map(np.dtype, _DTYPE_NAMES.split()), _DTYPE_CODES.split(), strict=True))
"""The types of arrays that can be stored, with their names in safetensors."""


class FormatError(ValueError):
    """An undamaged file of a format that this version does not read."""


def file_parts(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> list[memoryview]:
    """The parts of a file: its header after the header's length, and views of the arrays."""
    contents = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    layout = _layout(*((name, array.dtype, array.shape) for name, array in contents.items()))
    entries = {"__metadata__": {"digest": UNSEALED, "format": str(FORMAT), **metadata}}
    header = (json.dumps(entries).removesuffix("}") + layout + "}").encode()
    header += b" " * (-len(header) % 8)
    views = [memoryview(array.reshape(-1).view(np.uint8)) for array in contents.values()]  # type: ignore[arg-type]
    return [memoryview(sealed(len(header).to_bytes(8, "little") + header, *views)), *views]


@lru_cache(maxsize=64)
def _layout(*forms: tuple[str, np.dtype[Any], tuple[int, ...]]) -> str:
    """The entries of arrays with these names, dtypes and shapes in a header, each after a comma;
    those of a client's state repeat in every round."""
    text = ""
    end = 0
    for name, dtype, shape in forms:
        start = end
        end = end + math.prod(shape) * dtype.itemsize
        entry = {"dtype": DTYPES[dtype], "shape": shape, "data_offsets": [start, end]}
        text += f", {json.dumps(name)}: {json.dumps(entry)}"
    return text


def read(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
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


class StoreError(SafeError, RuntimeError):
    """A stamp that is missing or unreadable."""

    area = "store"


class LostState(StoreError):
    """A stamp with a missing or damaged file."""


class Store:
    """A folder of stamped arrays (files of mode 0600 in a folder of mode 0700).

    A file is written under a temporary name and then renamed, so that a killed process leaves the
    old or the new file complete. The server and real nodes flush it to the disk, so that a power
    failure damages nothing; simulated clients, and the server in their process, do not, since it
    would take longer than a round. The digest of a file reveals damage.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # the existing stamps, after the first write of this object
        self._known: set[int] | None = None

    def stamps(self) -> list[int]:
        """The existing stamps, ascending."""
        if not self.folder.is_dir():
            return []
        names = (entry.name for entry in os.scandir(self.folder) if entry.is_file())
        matches = map(_NAME.match, names)
        return sorted(int(match[1]) for match in matches if match)

    def save(
        self,
        stamp: int,
        arrays: Mapping[str, Array],
        metadata: Mapping[str, Any],
        base: int = 0,
        durable: bool = False,
    ) -> None:
        """Write a stamp, keep it and `base`, the stamp that it was computed from, and remove all
        older ones.

        Parameters
        ----------
        stamp : int
            1 or more.
        arrays : mapping of str to array
        metadata : mapping of str to JSON values
        base : int
        durable : bool
            Wait until the file is on the disk, so that it survives a power failure.

        Raises
        ------
        StoreError
            If the format does not support the dtype of an array, or the file's place is a folder.
        """
        for name, array in arrays.items():
            if array.dtype not in DTYPES:
                raise StoreError(
                    f'"{name}" is {array.dtype}; allowed is one of {", ".join(map(str, DTYPES))}',
                    key="dtype",
                )
        if self._known is None:
            make_private(self.folder)
            remove_abandoned(self.folder)
            (self.folder / ".spare").unlink(missing_ok=True)  # of earlier versions
            self._known = set(self.stamps())
        target = self._path(stamp)
        if target.is_dir():
            raise StoreError(f"{target} is a folder; remove it", key="folder")
        temporary = temporary_path(target)
        # Only older stamps: a client that finishes late must not remove the state of a later round.
        outdated = {number for number in self._known if number < stamp} - {base}
        try:
            # Overwriting an old file, with its pages in memory, is four times faster than creating
            # a new one. Without `base` the old file is the only state until the new one is whole.
            if outdated and self._path(base).exists():
                with contextlib.suppress(FileNotFoundError):
                    os.rename(self._path(outdated.pop()), temporary)
            _write(
                temporary,
                file_parts(arrays, {"stamp": str(stamp), "json": json.dumps(metadata)}),
                durable,
            )
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if durable:
            sync_folder(self.folder)
        for number in outdated:
            self._path(number).unlink(missing_ok=True)
        # Another process may have written `base`; a later save of this one removes it.
        self._known = {number for number in self._known if number > stamp} | {base, stamp}

    def discard_after(self, stamp: int) -> None:
        """Remove later stamps, which an earlier run of the same name may have left."""
        for later in self.stamps():
            if later > stamp:
                self._path(later).unlink(missing_ok=True)
        self._known = None

    def load(self, stamp: int) -> tuple[dict[str, Array], dict[str, Any]]:
        """Arrays and metadata of one stamp.

        Raises
        ------
        LostState
            If it is missing or damaged, or that of another stamp.
        StoreError
            If it has another format.
        """
        what = f"the state of round {stamp} in {self.folder}"
        try:
            arrays, header = read(self._path(stamp))
            if (stored_stamp := header.get("stamp", str(stamp))) != str(stamp):
                raise ValueError(f"it is the state of round {stored_stamp}")
            return arrays, dict(json.loads(header["json"]))
        except FileNotFoundError:
            available = ", ".join(map(str, self.stamps())) or "none"
            raise LostState(
                f"no state of round {stamp} in {self.folder}; available are: {available}",
                key="missing",
            ) from None
        except FormatError as error:
            raise StoreError(f"{what} is unreadable: {error}", key="format") from None
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise LostState(f"{what} is unreadable: {error}", key="damaged") from None

    def _path(self, stamp: int) -> Path:
        return self.folder / f"{stamp:08d}.safetensors"


def _write(path: Path, buffers: list[memoryview], durable: bool) -> None:
    """Overwrite a file, which need not be empty, without a copy of the buffers."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    size = sum(buffer.nbytes for buffer in buffers)
    try:
        while buffers:
            written = os.writev(descriptor, buffers[:_MOST_BUFFERS])
            while buffers and written >= buffers[0].nbytes:
                written -= buffers.pop(0).nbytes
            if written:
                buffers[0] = buffers[0][written:]
        os.ftruncate(descriptor, size)
        if durable:
            os.fsync(descriptor)
    except OSError as error:  # without a name, as it is about the descriptor
        needed = f"{error.strerror}; this file needs {size:,} bytes"
        raise OSError(error.errno, needed, str(path)) from None
    finally:
        os.close(descriptor)
