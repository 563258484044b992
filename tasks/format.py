"""A format of data: its recognition and its reader."""

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Format:
    """A format of data.

    Attributes
    ----------
    title : str
        The name in lists and error texts.
    tasks : tuple of str
        The names of `curvfed.tasks.kinds.KINDS` that it may be read as.
    recognise : callable
        Why an existing path has this format, in words; "" if it has not. Reads little, and imports
        no large library.
    reader : str
        For a format of another tool, the place of the function of a path that returns the data's
        `Located`; "" for those that the data set of each task reads.
    has_users : bool
        Whether the data belong to users, whom the clients share by default.
    """

    title: str
    tasks: tuple[str, ...]
    recognise: Callable[[Path], str]
    reader: str = ""
    has_users: bool = False


def holds_array(path: Path, name: str) -> str:
    """The reason for an `.npz` with this array; "" for other or damaged files."""
    if path.suffix.lower() != ".npz" or not path.is_file():
        return ""
    try:
        with zipfile.ZipFile(path) as stored:
            return f"it holds {name}" if f"{name}.npy" in stored.namelist() else ""
    except (OSError, zipfile.BadZipFile):
        return ""
