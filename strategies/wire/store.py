"""Arrays on disk, numbered by a stamp (the round), written atomically; the last two stamps are kept.

The server's checkpoints and the clients' personal state are stored this way: a run that resumes from round r finds round r
even if the process was killed while it wrote round r + 1.
"""

import contextlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from curvfed.strategies.wire.stored_format import FORMAT, unreadable
from curvfed.tasks.atomic_file import make_private, remove_abandoned, temporary_path
from curvfed.tasks.errors import SafeError

_DTYPES = {
    np.dtype(name): code
    for name, code in (
        *(("bool", "BOOL"), ("uint8", "U8"), ("uint16", "U16"), ("uint32", "U32"), ("uint64", "U64"), ("int8", "I8")),
        *(
            ("int16", "I16"),
            ("int32", "I32"),
            ("int64", "I64"),
            ("float16", "F16"),
            ("float32", "F32"),
            ("float64", "F64"),
        ),
    )
}
"""Their names in safetensors."""
_MOST_BUFFERS = 512  # well below the limit of one system call
_NAME = re.compile(r"^(\d{8})\.safetensors$")


class StoreError(SafeError, RuntimeError):
    """A stamp that is missing or unreadable."""


class LostState(StoreError):
    """A stamp whose file is missing or damaged."""


class Store:
    """A folder of stamped arrays (files of mode 0600 in a folder of mode 0700).

    A file is written under a temporary name and then renamed, so that a killed process leaves the old or the new file
    complete. Clients do not flush their files to the disk, which would take longer than a round: a power failure can damage
    the newest file, and a client whose state is lost is dropped with that reason. The server's checkpoint is flushed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: set[int] | None = None  # the existing stamps, after the first write of this object

    def stamps(self) -> list[int]:
        """The existing stamps, ascending."""
        if not self.folder.is_dir():
            return []
        matches = (_NAME.match(entry.name) for entry in os.scandir(self.folder))
        return sorted(int(match[1]) for match in matches if match)

    def save(
        self,
        stamp: int,
        arrays: Mapping[str, NDArray[Any]],
        metadata: Mapping[str, Any],
        base: int = 0,
        durable: bool = False,
    ) -> None:
        """Write a stamp, keep it and `base`, the stamp that it was computed from, and remove all older ones.

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
            If the format does not support the dtype of an array.
        """
        for name, array in arrays.items():
            if array.dtype not in _DTYPES:
                raise StoreError(f'"{name}" is {array.dtype}; allowed is one of {", ".join(map(str, _DTYPES))}')
        if self._known is None:
            make_private(self.folder)
            remove_abandoned(self.folder)
            self._known = set(self.stamps())
        target = self._path(stamp)
        temporary = temporary_path(target)
        spare = self.folder / ".spare"
        try:
            # Overwriting an old file, whose pages are in memory, is four times faster than creating a new one.
            with contextlib.suppress(FileNotFoundError):
                os.rename(spare, temporary)
            _write(temporary, arrays, metadata, durable)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
        # Only older stamps: a client that finishes late must not remove the state of a later round.
        for other in {known for known in self._known if known < stamp} - {base}:
            with contextlib.suppress(FileNotFoundError):
                os.replace(self._path(other), spare)
        # Another process may have written `base`; a later save of this one removes it.
        self._known = {known for known in self._known if known > stamp} | {base, stamp}

    def discard_after(self, stamp: int) -> None:
        """Remove later stamps, which an earlier run of the same name may have left."""
        for later in self.stamps():
            if later > stamp:
                self._path(later).unlink(missing_ok=True)
        self._known = None

    def load(self, stamp: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and metadata of one stamp.

        Raises
        ------
        LostState
            If it is missing or damaged.
        StoreError
            If it has another format.
        """
        path = self._path(stamp)
        try:
            with safe_open(path, framework="np") as file:
                header = file.metadata()
                metadata: dict[str, Any] = json.loads(header["json"])
                if reason := unreadable(header.get("format", "1")):
                    raise StoreError(f"the state of round {stamp} in {self.folder} is unreadable: {reason}")
                return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118
        except FileNotFoundError:
            kept = ", ".join(map(str, self.stamps())) or "none"
            raise LostState(f"no state of round {stamp} in {self.folder}; available are: {kept}") from None
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            raise LostState(
                f"the state of round {stamp} in {self.folder} is unreadable ({type(error).__name__})"
            ) from None

    def _path(self, stamp: int) -> Path:
        return self.folder / f"{stamp:08d}.safetensors"


def _write(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any], durable: bool) -> None:
    """Write a safetensors file: length of the header, header, and the arrays one after the other.

    The library's writer is not used because it copies the arrays and truncates the file first, for every client in every
    round. The library reads the files.
    """
    contents = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    entries: dict[str, Any] = {"__metadata__": {"format": str(FORMAT), "json": json.dumps(metadata)}}
    end = 0
    for name, array in contents.items():
        start, end = end, end + array.nbytes
        entries[name] = {"dtype": _DTYPES[array.dtype], "shape": array.shape, "data_offsets": [start, end]}
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    views = [memoryview(array.reshape(-1).view(np.uint8)) for array in contents.values()]  # type: ignore[arg-type]
    buffers = [memoryview(len(header).to_bytes(8, "little") + header), *views]
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        while buffers:
            written = os.writev(descriptor, buffers[:_MOST_BUFFERS])
            while buffers and written >= buffers[0].nbytes:
                written -= buffers.pop(0).nbytes
            if written:
                buffers[0] = buffers[0][written:]
        os.ftruncate(descriptor, 8 + len(header) + end)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
