"""Store files atomically, with the number of their format and a digest of themselves.

The digest is text inside the file, at any place for text in its format. It is computed over the
whole file with zeros in place of the digest, so that any program can compute it without knowing the
format. It detects damage and slips, not forgery: whoever can write the file can write another
digest.
"""

import contextlib
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar

# Each client's state is written and read in each round, and this is 60 times as fast as BLAKE2b.
from xxhash import xxh3_128

FORMAT = 6

ZEROS = 32 * b"0"
UNSEALED = f"xxh128:{ZEROS.decode()}"
"""The placeholder of a digest: XXH3 of 128 bits, in hexadecimal digits."""

MAX_FILES = 4096
MAX_BYTES = 2**26
"""The contents of files are compared up to this number of files and of bytes together."""

_SEAL = re.compile(rb"xxh128:([0-9a-f]{32})")


def unreadable(number: str) -> str:
    """Why a file with this format number is unreadable; "" if it is readable."""
    if number == str(FORMAT):
        return ""
    return (
        f"it has format {number}, written by another version of curvfed; this one reads format"
        f" {FORMAT}"
    )


def file_stamps(paths: Sequence[str | Path]) -> list[tuple[str, int, int, str]]:
    """Path, size and time of each file, and the digest of its contents if the files are few and
    small.

    Two states of a file may have equal sizes and times: if they are written within a tick of the
    file system's clock, or copied with their times. A file without access has zeros; reading it
    later raises an error.
    """
    stats = [_size_and_time(path) for path in paths]
    is_small = len(paths) <= MAX_FILES and sum(size for size, _ in stats) <= MAX_BYTES
    return [
        (str(path), size, changed, _contents_digest(path) if is_small else "")
        for path, (size, changed) in zip(paths, stats, strict=True)
    ]


def _size_and_time(path: str | Path) -> tuple[int, int]:
    try:
        stat = os.stat(path)
    except OSError:
        return 0, 0
    # A copy may have the time of its original; the inode's own time is then later.
    return stat.st_size, max(stat.st_mtime_ns, stat.st_ctime_ns)


def _contents_digest(path: str | Path) -> str:
    try:
        # Folders lack contents, and a pipe would wait for its writer.
        return xxh3_128(Path(path).read_bytes()).hexdigest() if os.path.isfile(path) else ""
    except OSError:
        return ""


TICK_NS = 2 * 10**9
"""Two states of a file that lie further apart have different times on every file system."""

Content = TypeVar("Content")


class LastRead(Generic[Content]):
    """The content that was read last, valid until the size or time of one of its files changes.

    Files and folders that changed just before they were read may change again with equal sizes and
    times, so these are read again.
    """

    def __init__(self) -> None:
        self._last: tuple[Hashable, dict[str | Path, tuple[int, int]], Content] | None = None

    def get(
        self, key: Hashable, read: Callable[[], tuple[Content, Sequence[str | Path]]]
    ) -> Content:
        """The stored content, or that of `read`, with the files and folders that determine it."""
        last = self._last
        if last is not None and last[0] == key and last[1] == _states(last[1]):
            return last[2]
        latest = time.time_ns() - TICK_NS
        content, paths = read()
        states = _states(paths)
        is_old = all(changed < latest for _, changed in states.values())
        self._last = (key, states, content) if is_old else None
        return content


def _states(paths: Iterable[str | Path]) -> dict[str | Path, tuple[int, int]]:
    return {path: _size_and_time(path) for path in paths}


class DamagedError(ValueError):
    """A file with other contents than those written."""


def sealed(head: bytes, *tail: bytes | memoryview) -> bytes:
    """The head of a file with `UNSEALED` replaced by the digest of the whole file, head and
    tail."""
    digest = xxh3_128(head)
    for chunk in tail:
        digest.update(chunk)
    return head.replace(UNSEALED.encode(), b"xxh128:" + digest.hexdigest().encode(), 1)


def is_whole(data: bytes) -> bool | None:
    """Whether the digest in a file is correct; None without a digest."""
    match = _SEAL.search(data)
    if match is None:
        return None
    digest = xxh3_128(memoryview(data)[: match.start(1)])
    digest.update(ZEROS)
    digest.update(memoryview(data)[match.end(1) :])
    return digest.hexdigest().encode() == match[1]


def metadata_of(data: bytes) -> dict[str, str]:
    """The metadata of a safetensors file, which begins with the length of its header and the
    header, in JSON."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]).get("__metadata__", {})


def check_whole(data: bytes) -> None:
    """Refuse a file without a correct digest.

    Raises
    ------
    DamagedError
    """
    if not is_whole(data):
        raise DamagedError(
            "it is damaged, or was changed by hand: its contents do not match its digest"
        )


def write_atomically(path: Path, data: bytes, private: bool = False, durable: bool = False) -> None:
    """Replace the file `path` atomically.

    Only the owner can read a private file, at any time. The contents of a durable file are on disk
    before its name.
    """
    mode = 0o600 if private else 0o666
    with (
        replacing(path) as new,
        open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file,
    ):
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file that replaces `path` at the end of the block, unless the block raises an
    error.

    Temporary files of killed writers of `path` are removed, and no others.
    """
    remove_abandoned(path.parent, re.escape(path.name))
    temporary = temporary_path(path)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):  # also of an absent file, if its disk is read-only
            temporary.unlink()


def write_fault(folder: Path) -> str:
    """The reason why no file can be made in a folder, in words; "" for none. Rights say too little:
    root has them in places where nothing can be made."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"{folder} takes no file: {error.strerror}"


def make_private(folder: Path) -> None:
    """Create a folder and its absent parents with access only for their owner."""
    for path in (*reversed(folder.parents), folder):
        path.mkdir(mode=0o700, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Wait until the names of a folder's files are on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def temporary_path(path: Path) -> Path:
    """The file that this process writes before it replaces `path`."""
    return path.with_name(f".{path.name}-{os.getpid()}")


def remove_abandoned(folder: Path, name: str = r".+") -> None:
    """Remove the temporary files, of one file or of all, of this process and of ended
    processes."""
    for entry in os.scandir(folder):
        match = re.fullmatch(rf"\.{name}-(\d+)", entry.name)
        if match and not _is_other_process(int(match[1])):
            Path(entry).unlink(missing_ok=True)


def _is_other_process(number: int) -> bool:
    """Whether another process with this number is running."""
    import psutil

    return number != os.getpid() and number in psutil.pids()
