"""The connection between a process and its worker. Messages are in files in memory, and large bytes
that several of them have are written once. A socket carries only the place of a message, so that no
large array passes through it."""

import contextlib
import io
import itertools
import os
import pickle
import socket
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

LARGE = 2**14
"""Bytes from which a value is written once, however many messages have it."""

_PLACE = struct.Struct("qqq")


class Place(NamedTuple):
    """The place of an object: the number of its parcel, the first byte, and their number."""

    parcel: int
    start: int
    size: int


class Parcel:
    """Objects in a file in memory, which ends with the last process that has it open."""

    _numbers = itertools.count()

    def __init__(self) -> None:
        self.number = next(self._numbers)
        self.file = os.memfd_create("curvfed")
        self._size = 0
        self._large: dict[int, tuple[Place, bytes]] = {}

    def __del__(self) -> None:
        os.close(self.file)

    def add(self, content: object) -> Place:
        """Write an object."""
        stream = io.BytesIO()
        _Pickler(self, stream).dump(content)
        return self._write(stream.getvalue())

    def add_large(self, content: bytes) -> Place:
        """Write large bytes, unless they are there."""
        if id(content) not in self._large:
            # Kept, so that no later object has the same id.
            self._large[id(content)] = (self._write(content), content)
        return self._large[id(content)][0]

    def _write(self, content: bytes) -> Place:
        place = Place(self.number, self._size, len(content))
        view = memoryview(content)
        while view:
            written = os.pwrite(self.file, view, self._size)
            self._size += written
            view = view[written:]
        return place


class _Pickler(pickle.Pickler):
    def __init__(self, parcel: Parcel, stream: io.BytesIO) -> None:
        super().__init__(stream, pickle.HIGHEST_PROTOCOL)
        self._parcel = parcel

    def persistent_id(self, value: object) -> Place | None:
        """The place of large bytes."""
        if type(value) is bytes and len(value) >= LARGE:
            return self._parcel.add_large(value)
        return None


class Line:
    """One end of the connection between a process and its worker."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._large: dict[Place, bytes] = {}

    def answer(self, handle: Callable[[Any], object]) -> None:
        """Answer each object of the other process, until it has ended."""
        with contextlib.suppress(ConnectionError):
            while (received := self.receive()) is not None:
                self.post(handle(received))

    def post(self, content: object) -> None:
        """Send an object; see `send`."""
        parcel = Parcel()
        self.send(parcel, parcel.add(content))

    def send(self, parcel: Parcel, place: Place) -> None:
        """Send the place of an object.

        Raises
        ------
        ConnectionError
            If the other process has ended.
        """
        socket.send_fds(self.socket, [_PLACE.pack(*place)], [parcel.file])

    def receive(self) -> Any:
        """The next object; None if the other process has ended."""
        try:
            head, files, _, _ = socket.recv_fds(self.socket, _PLACE.size, 1)
        except ConnectionError:
            return None
        if not head:
            return None
        [file] = files
        try:
            return self._read(file, Place(*_PLACE.unpack(head)))
        finally:
            os.close(file)

    def _read(self, file: int, place: Place) -> Any:
        previous = self._large
        # Only of this object: the next one of the phase has the same model, if all clients do.
        self._large = {}

        def load(large: Place) -> bytes:
            if large not in self._large:
                self._large[large] = previous.get(large) or _read_bytes(file, large)
            return self._large[large]

        unpickler = pickle.Unpickler(io.BytesIO(_read_bytes(file, place)))
        unpickler.persistent_load = load  # type: ignore[method-assign]
        return unpickler.load()


def _read_bytes(file: int, place: Place) -> bytes:
    """Bytes of a file in memory; a single read gives at most 2 GiB."""
    content = os.pread(file, place.size, place.start)
    while len(content) < place.size:
        content += os.pread(file, place.size - len(content), place.start + len(content))
    return content
