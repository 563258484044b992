"""Arrays on disk under a stamp, written atomically, the last two stamps kept.

The server's checkpoints and the clients' personal state are both kept so: whoever goes on from round r finds round r
even if the writer died while it wrote r + 1.
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
from curvfed.tasks.atomic_file import remove_abandoned, temporary_path

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
"""What safetensors calls them."""
_MOST_BUFFERS = 512  # what one system call takes, with room to spare
_NAME = re.compile(r"^(\d{8})\.safetensors$")


class StoreError(RuntimeError):
    """A stamp that is absent or unreadable."""


class Store:
    """A folder of stamped arrays (files of mode 0600 in a folder of mode 0700).

    A write is a file beside, then a rename: a process killed at any moment leaves old or new, whole. Clients do not force
    their files to the disk, which would cost more than a round; a power failure may tear the newest, and a client whose
    state is gone is dropped with that reason. The server's checkpoint, one file per round, is forced.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: set[int] | None = None  # the stamps there are, once this object has written

    def stamps(self) -> list[int]:
        """The stamps there are, ascending."""
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
        """Write one stamp and keep it beside `base`, the stamp that it was made from; remove all older ones.

        Parameters
        ----------
        stamp : int
            1 or more.
        arrays : mapping of str to array
        metadata : mapping of str to JSON values
        base : int
        durable : bool
            Wait until the file is on the disk, so that a power failure does not tear it either.

        Raises
        ------
        StoreError
            If an array has a dtype that the format has not.
        """
        for name, array in arrays.items():
            if array.dtype not in _DTYPES:
                raise StoreError(f'"{name}" is {array.dtype}; allowed is one of {", ".join(map(str, _DTYPES))}')
        if self._known is None:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            remove_abandoned(self.folder)
            self._known = set(self.stamps())
        target = self._path(stamp)
        temporary = temporary_path(target)
        spare = self.folder / ".spare"
        try:
            # Written over a file whose time is past, in pages that the system has at hand: four times quicker.
            with contextlib.suppress(FileNotFoundError):
                os.rename(spare, temporary)
            _write(temporary, arrays, metadata, durable)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
        # Only what is older: a straggler that ends late must not remove the state of a later round.
        for other in {known for known in self._known if known < stamp} - {base}:
            with contextlib.suppress(FileNotFoundError):
                os.replace(self._path(other), spare)
        # Another process may have written `base`: this one removes it in its turn.
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
        StoreError
            If it is absent, torn, or of another format.
        """
        path = self._path(stamp)
        try:
            with safe_open(path, framework="np") as file:
                told = file.metadata()
                metadata: dict[str, Any] = json.loads(told["json"])
                if reason := unreadable(told.get("format", "1")):
                    raise StoreError(f"the state of round {stamp} in {self.folder} is unreadable: {reason}")
                return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118
        except FileNotFoundError:
            kept = ", ".join(map(str, self.stamps())) or "none"
            raise StoreError(f"no state of round {stamp} in {self.folder}; kept are: {kept}") from None
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"the state of round {stamp} in {self.folder} is unreadable ({type(error).__name__})"
            ) from None

    def _path(self, stamp: int) -> Path:
        return self.folder / f"{stamp:08d}.safetensors"


def _write(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any], durable: bool) -> None:
    """A safetensors file: length of the header, header, the arrays one after the other.

    The library's own writer copies the arrays and empties the file first; this one is called for every client in every
    round. What it writes is read by the library.
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
