"""Write a file so that it appears whole or not at all."""

import os
import re
from pathlib import Path


def write_atomically(path: Path, data: bytes, private: bool = False) -> None:
    """Replace the file `path` by one with this content, all or nothing.

    Only its owner may ever read a private file. Temporary files that killed writers of `path` left are removed.
    """
    remove_abandoned(path.parent, re.escape(path.name))
    temporary = temporary_path(path)
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if private else 0o666), "wb") as file:
            file.write(data)
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
    """Remove the temporary files, of one file or of all, that were written by this process or by one that has ended."""
    for entry in os.scandir(folder):
        found = re.fullmatch(rf"\.{name}-(\d+)", entry.name)
        if found and not _is_other_process(int(found[1])):
            Path(entry).unlink(missing_ok=True)


def _is_other_process(number: int) -> bool:
    """Whether another process with this number is running."""
    import psutil

    return number != os.getpid() and number in psutil.pids()
