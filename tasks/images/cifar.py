"""The published folders of CIFAR-10 and CIFAR-100 (Krizhevsky, 2009): pickled batches of images."""

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.tasks.errors import DataError, unreadable
from curvfed.tasks.formats import cifar_files
from curvfed.tasks.graphs.data.stored_objects import READABLE, StoredArray
from curvfed.tasks.images.layout import TEST, TRAIN
from curvfed.tasks.images.raw import RawImages, StoredSplit, joined_splits
from curvfed.tasks.public_data import Located

SIDE = 32

FIELDS = {"batches.meta": ("label_names", "labels"), "meta": ("fine_label_names", "fine_labels")}
"""The lists of class names and of labels by the file with the class names; the coarse labels of
CIFAR-100 are not read."""


class _Unpickler(pickle.Unpickler):
    """Reads containers, numbers, texts and arrays of NumPy, and runs no code of a file."""

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for a class of NumPy.

        Raises
        ------
        pickle.UnpicklingError
            For any other class or function.
        """
        if (module, name) == ("_codecs", "encode"):  # bytes, as Python 3 stores them for Python 2
            return lambda text, encoding: text.encode("latin1")
        if f"{module}.{name}" in READABLE and module.startswith("numpy"):
            stand_in = READABLE[f"{module}.{name}"]
            # A pickle may set the attributes of a function, also its default arguments.
            return stand_in if isinstance(stand_in, type) else lambda *items: stand_in(*items)
        raise pickle.UnpicklingError(f"it holds {module}.{name}, which is not opened")


def locate(path: Path) -> Located[RawImages]:
    """The batches and their reader."""
    names, train, test = cifar_files(path)
    return Located((names, *train, *test), partial(read, path))


def read(path: Path) -> RawImages:
    """Read the batches of a folder, with the fine labels of CIFAR-100.

    Raises
    ------
    DataError
        If a file is damaged or incomplete, or holds other objects than numbers, texts and arrays.
    """
    names, train, test = cifar_files(path)
    names_field, labels_field = FIELDS[names.name]
    class_names = _entries(names, names_field)[0]
    if not isinstance(class_names, list) or not all(isinstance(name, str) for name in class_names):
        raise DataError(f"{names}: {names_field} is no list of names", key="class-names")
    splits = {}
    for role, files in ((TRAIN, train), (TEST, test)):
        batches = [_batch(file, labels_field, len(class_names)) for file in files]
        if batches:
            images, labels = map(np.concatenate, zip(*batches, strict=True))
            splits[role] = StoredSplit(images, labels, ("data", labels_field))
    return joined_splits(str(path), splits, class_names)


def _batch(path: Path, field: str, num_classes: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The images (n, 3, 32, 32) and labels of a file."""
    data, labels = _entries(path, "data", field)
    pixels = data.value if isinstance(data, StoredArray) else data
    num_values = 3 * SIDE * SIDE
    if not isinstance(pixels, np.ndarray) or pixels.shape[1:] != (num_values,):
        raise DataError(f"{path}: data is no array of (n, {num_values}) numbers", key="images")
    if isinstance(labels, StoredArray):
        labels = np.asarray(labels.value).tolist()
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise DataError(f"{path}: {field} is no list of whole numbers", key="labels")
    if len(labels) != len(pixels):
        raise DataError(
            f"{path}: data has {len(pixels)} images, {field} has {len(labels)} labels; every image"
            " needs one",
            key="unequal-lengths",
        )
    if labels and not 0 <= min(labels) <= max(labels) < num_classes:
        raise DataError(
            f"{path}: {field} has numbers outside 0..{num_classes - 1}, the classes with names",
            key="labels",
        )
    return pixels.reshape(-1, 3, SIDE, SIDE), np.array(labels, dtype=np.int64)


def _entries(path: Path, *fields: str) -> list[Any]:
    """These entries of a pickled dict."""
    try:
        with path.open("rb") as file:
            stored = _Unpickler(file, encoding="latin1").load()
    except Exception as error:  # a pickle is a program, which may raise anything
        raise unreadable(path, error, "batch of CIFAR") from error
    if not isinstance(stored, dict) or not set(fields) <= stored.keys():
        raise DataError(
            f"{path} lacks one of {', '.join(fields)}; all are required", key="no-array"
        )
    return [stored[field] for field in fields]
