"""How files are stored: whole or not at all, with the number of their format and a digest of
themselves.

The digest stands in the file as text, wherever the kind of file has a place for text. It is that of
the whole file with zeros in the digest's own place, so that any program can compute it without
knowing the kind. It shows damage and slips, not forgery: whoever can write the file can write
another digest.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

# 60 times as fast as BLAKE2b: every client's state is written and read in every round
from xxhash import xxh3_128

FORMAT = 5

ZEROS = 32 * b"0"
UNSEALED = f"xxh128:{ZEROS.decode()}"
"""The place of a digest, before it is known: XXH3 of 128 bits, in hexadecimal digits."""

MOST_FILES = 4096
MOST_BYTES = 2**26
"""Files are compared by their contents up to this number, and as long as they have no more bytes
together."""

_SEAL = re.compile(rb"xxh128:([0-9a-f]{32})")


def unreadable(number: str) -> str:
    """Why a file of this format cannot be read; "" if it can."""
    if number == str(FORMAT):
        return ""
    return (
        f"it has format {number}, written by another version of curvfed; this one reads format"
        f" {FORMAT}"
    )


def file_stamps(paths: Sequence[str | Path]) -> list[tuple[str, int, int, str]]:
    """Path, size and time of each file, and the digest of its contents if the files are few and
    small.

    Two states of a file may have one size and one time: they are written within a tick of the file
    system's clock, or copied with their times. A file that cannot be looked into has zeros: who
    reads it says why.
    """
    stats = [_size_and_time(path) for path in paths]
    is_little = len(paths) <= MOST_FILES and sum(size for size, _ in stats) <= MOST_BYTES
    return [
        (str(path), size, changed, _contents_digest(path) if is_little else "")
        for path, (size, changed) in zip(paths, stats, strict=True)
    ]


def _size_and_time(path: str | Path) -> tuple[int, int]:
    try:
        stat = os.stat(path)
    except OSError:
        return 0, 0
    # A copy may have the time of its original; the inode's own time is later then.
    return stat.st_size, max(stat.st_mtime_ns, stat.st_ctime_ns)


def _contents_digest(path: str | Path) -> str:
    try:
        # Folders have no contents, and a pipe would wait for its writer.
        return xxh3_128(Path(path).read_bytes()).hexdigest() if os.path.isfile(path) else ""
    except OSError:
        return ""


class DamagedError(ValueError):
    """A file whose contents are not those that were written."""


def sealed(head: bytes, *rest: bytes | memoryview) -> bytes:
    """The beginning of a file, `UNSEALED` replaced by the digest of the whole file; `rest` is what
    follows it."""
    digest = xxh3_128(head)
    for part in rest:
        digest.update(part)
    return head.replace(UNSEALED.encode(), b"xxh128:" + digest.hexdigest().encode(), 1)


def is_whole(data: bytes) -> bool | None:
    """Whether the digest in a file is that of the file; None if it has none."""
    found = _SEAL.search(data)
    if found is None:
        return None
    digest = xxh3_128(memoryview(data)[: found.start(1)])
    digest.update(ZEROS)
    digest.update(memoryview(data)[found.end(1) :])
    return digest.hexdigest().encode() == found[1]


def metadata_of(data: bytes) -> dict[str, str]:
    """The metadata of a file in safetensors, which begins with the length of its header and the
    header, in JSON."""
    found: dict[str, str] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get(
        "__metadata__", {}
    )
    return found


def check_whole(data: bytes) -> None:
    """Refuse a file that has changed since it was written, or has no digest.

    Raises
    ------
    DamagedError
    """
    if not is_whole(data):
        raise DamagedError(
            "it is damaged, or was changed by hand: its contents are not those of its digest"
        )


def write_atomically(path: Path, data: bytes, private: bool = False) -> None:
    """Replace the file `path` by one with this content, all or nothing.

    Only its owner may ever read a private file.
    """
    mode = 0o600 if private else 0o666
    with (
        replacing(path) as new,
        open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file,
    ):
        file.write(data)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Another file beside `path`, which takes its place at the end of the block, unless an error is
    raised there.

    Temporary files that killed writers of `path` left are removed, and no others.
    """
    remove_abandoned(path.parent, re.escape(path.name))
    temporary = temporary_path(path)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are absent, that only their owner may enter."""
    for path in (*reversed(folder.parents), folder):
        path.mkdir(mode=0o700, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Wait until the names of a folder's files are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def temporary_path(path: Path) -> Path:
    """The file that this process writes before it takes the place of `path`."""
    return path.with_name(f".{path.name}-{os.getpid()}")


def remove_abandoned(folder: Path, name: str = r".+") -> None:
    """Remove the temporary files, of one file or of all, that were written by this process or by
    one that has ended."""
    for entry in os.scandir(folder):
        found = re.fullmatch(rf"\.{name}-(\d+)", entry.name)
        if found and not _is_other_process(int(found[1])):
            Path(entry).unlink(missing_ok=True)


def _is_other_process(number: int) -> bool:
    """Whether another process with this number is running."""
    import psutil

    return number != os.getpid() and number in psutil.pids()
