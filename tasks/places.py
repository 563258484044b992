"""The places of the data sets of a run, in words."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from curvfed.tasks.formats import Decision
from curvfed.tasks.public_data import Located, PublicData


class Place(NamedTuple):
    """The place of a data set, in words.

    Attributes
    ----------
    text : str
    exists : bool
        Whether the files are on this machine.
    notes : tuple of str
        Notes for the user about the files.
    decision : Decision or None
        For a user's path, its format.
    """

    text: str
    exists: bool = True
    notes: tuple[str, ...] = ()
    decision: Decision | None = None


def place_of(source: PublicData, find: Callable[[], Located[Any] | None], data_dir: Path) -> Place:
    """The place of a public data set, or the target of its download.

    Parameters
    ----------
    source : PublicData
    find : callable
        () -> Located or None: the files, if they are on this machine.
    data_dir : Path
        The folder of the public data sets.
    """
    if not source.folders:
        return Place(f"{source.title}, {source.built_in}")
    located = find()
    if located is not None:
        return Place(f"{source.title}, all files in {folders_of(located.files)}")
    source.check_published(data_dir)
    data_dir = data_dir.expanduser()
    target = f"{data_dir}" if data_dir.is_dir() else f"{data_dir}, a new folder"
    folders = " nor in ".join(map(str, source.search_folders(data_dir)))
    return Place(
        f"{source.title} is not in {folders}; the run would try to download it to {target}, as"
        f" does\n{source.command(data_dir)}",
        exists=False,
    )


def folders_of(files: Sequence[Path]) -> str:
    """The folders of files and the folders among them, in words."""
    folders = [path if path.is_dir() else path.parent for path in files]
    return " and ".join(dict.fromkeys(map(os.path.normpath, folders)))
