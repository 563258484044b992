"""Write a file so that it appears whole or not at all."""

import os
import re
from pathlib import Path


def write_atomically(path: Path, data: bytes, private: bool = False) -> None:
    """Put `data` in place of `path`, all or nothing; a private file is its owner's alone, from its first byte on."""
    remove_abandoned(path.parent, re.escape(path.name))
    replace(path, data, private)


def replace(path: Path, data: bytes, private: bool = False) -> None:
    """As `write_atomically`, without a look at what killed writers left in the folder."""
    temporary = temporary_path(path)
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if private else 0o666), "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def temporary_path(path: Path) -> Path:
    """What this process writes before it takes the place of `path`."""
    return path.with_name(f".{path.name}-{os.getpid()}")


def remove_abandoned(folder: Path, name: str = r".+") -> None:
    """Remove the temporary files, of one file or of all, whose writers were killed."""
    for entry in os.scandir(folder):
        found = re.fullmatch(rf"\.{name}-(\d+)", entry.name)
        if found and not _is_other(int(found[1])):
            Path(entry).unlink(missing_ok=True)


def _is_other(process: int) -> bool:
    """Whether this is the number of another process that runs."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):  # of another user; or no number of a process
        return True
    return True
