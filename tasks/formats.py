"""Formats of other tools: how a file or a folder is recognised by its content, and what reads
it."""

import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curvfed.tasks.public_data import Located


@dataclass(frozen=True)
class Format:
    """A format of another tool.

    Attributes
    ----------
    title : str
        The name in lists and error texts.
    task : str
        "nodes", "graphs", "images" or "points".
    module : str
        The module below `curvfed.tasks` whose `locate(path)` returns the data's `Located`.
    recognises : callable
        Whether an existing path has this format; reads little, and imports no large library.
    """

    title: str
    task: str
    module: str
    recognises: Callable[[Path], bool]

    def locate(self, path: Path) -> "Located[Any]":
        """The files of the data and their reader.

        Raises
        ------
        DataError
            If the files are incomplete.
        """
        located: Located[Any] = import_module(f"curvfed.tasks.{self.module}").locate(path)
        return replace(located, title=self.title)


def format_of(path: Path) -> Format | None:
    """The format of a file or folder; None for the formats of curvfed itself, and absent paths."""
    if not path.exists():
        return None
    return next((form for form in FORMATS if form.recognises(path)), None)


def _array_names(path: Path) -> list[str]:
    """The names of the arrays in an `.npz`, with .npy; none in other or damaged files."""
    if path.suffix.lower() != ".npz" or not path.is_file():
        return []
    try:
        with zipfile.ZipFile(path) as stored:
            return stored.namelist()
    except (OSError, zipfile.BadZipFile):
        return []


def _is_medmnist(path: Path) -> bool:
    return "train_images.npy" in _array_names(path)


FORMATS = (Format("MedMNIST's .npz", "images", "images.medmnist", _is_medmnist),)
