"""A format of data: its recognition and its readers.

Extensions and other packages add formats by entry points of the group `curvfed.formats`; those of
the core are in `curvfed.tasks.formats`.
"""

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from curvfed.tasks.public_data import PublicData


@dataclass(frozen=True)
class Format:
    """A format of data. A place, "package.module:name", names each of its functions, which is
    imported where a run needs it.

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
        The place of a function from a path to the data's `Located`; "" for the formats that the
        data set of each task reads. For points it also takes the settings of `read_points` as
        keywords: `embedding_key`, `label_key` and `bare`.
    has_users : bool
        Whether the data belong to users, whom the clients share by default.
    endings : tuple of str
        Ends of the names of such files; an absent path that ends so may have this format.
    writer : str
        The place of a function that writes a copy of such a file with predictions: from its path,
        the table of the predictions, with a row per example, and the path of the copy.
    objects : str
        The place of a function that reads such data from an object of Python: from the object's
        name in error texts, the object, and the name of the column of classes or "", to the data
        before partitioning; None for other objects.
    objects_hint : str
        These objects, for error texts.
    sources : mapping of str to PublicData
        The public data sets in this format that are downloaded, by name in small letters.
    known : tuple of str
        Names of published data sets in this format that are read by path alone.
    example : str
        Such a path.
    is_broad : bool
        Whether it takes what no other format of the group recognises, as those of other packages.
    """

    title: str
    tasks: tuple[str, ...]
    recognise: Callable[[Path], str]
    reader: str = ""
    has_users: bool = False
    endings: tuple[str, ...] = ()
    writer: str = ""
    objects: str = ""
    objects_hint: str = ""
    sources: Mapping[str, PublicData] = field(default_factory=dict)
    known: tuple[str, ...] = ()
    example: str = ""
    is_broad: bool = False


def holds_array(path: Path, name: str) -> str:
    """The reason for an `.npz` with this array; "" for other or damaged files."""
    if path.suffix.lower() != ".npz" or not path.is_file():
        return ""
    try:
        with zipfile.ZipFile(path) as stored:
            return f"it holds {name}" if f"{name}.npy" in stored.namelist() else ""
    except (OSError, zipfile.BadZipFile):
        return ""


def ends_in(path: Path, endings: tuple[str, ...]) -> str:
    """The reason for a file whose name ends in one of these; "" for others."""
    is_one = path.is_file() and path.name.lower().endswith(endings)
    return f"it ends in {path.suffix.lower()}" if is_one else ""
