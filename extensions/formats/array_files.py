"""Arrays of images with the parts of a data set: the archives of MedMNIST (Yang et al., 2023), one
.npz each, and the pickled batches of CIFAR-10 and CIFAR-100 (Krizhevsky, 2009)."""

import pickle
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from curvfed.extensions.formats.rows import cifar_files
from curvfed.geometry.arrays import Array, Integers
from curvfed.tasks.class_names import number_labels
from curvfed.tasks.errors import DataError, unreadable
from curvfed.tasks.graphs.data.stored_objects import READABLE, StoredArray
from curvfed.tasks.images.layout import TEST, TRAIN, VAL
from curvfed.tasks.images.raw import RawImages, pixels_of, raw_images
from curvfed.tasks.public_data import Located


class StoredSplit(NamedTuple):
    """The images of one part of a data set, as stored.

    Attributes
    ----------
    images : array of uint8
        As `pixels_of` allows.
    labels : array, (n,) or (n, 1)
        Numbers or names of classes.
    fields : tuple of str
        The names of images and labels in the file.
    """

    images: Array
    labels: Array
    fields: tuple[str, str]


PREFIXES = {TRAIN: "train", VAL: "val", TEST: "test"}
"""The beginning of the arrays' names by role."""


def locate_medmnist(path: Path) -> Located[RawImages]:
    """The archive and its reader."""
    return Located((path,), partial(read_medmnist, path))


def read_medmnist(path: Path) -> RawImages:
    """Read an archive, with the parts that it has. The names of the classes are their numbers.

    Raises
    ------
    DataError
        If the file is damaged or lacks labels, or if an image has several labels or is a volume.
    """
    splits = {}
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            for role, prefix in PREFIXES.items():
                fields = (f"{prefix}_images", f"{prefix}_labels")
                if fields[0] not in stored:
                    continue
                if fields[1] not in stored:
                    raise DataError(
                        f"{path} lacks {fields[1]}; required is the class of each of {fields[0]}",
                        key="no-array",
                    )
                splits[role] = StoredSplit(stored[fields[0]], stored[fields[1]], fields)
    except DataError:
        raise
    except Exception as error:  # a damaged archive may raise anything
        raise unreadable(path, error, ".npz file of numbers") from error
    for split in splits.values():
        _check_part(path, split)
    return joined_splits(str(path), splits)


def _check_part(path: Path, split: StoredSplit) -> None:
    """Refuse several labels per image, and volumes."""
    if split.labels.ndim == 2 and split.labels.shape[1] > 1:
        raise DataError(
            f"{path}: {split.fields[1]} has {split.labels.shape[1]} labels per image, as ChestMNIST"
            " has; allowed is one class per image, (n, 1)",
            key="several-labels",
        )
    is_volume = split.images.ndim == 5 or (
        split.images.ndim == 4 and split.images.shape[3] not in (1, 3)
    )
    if is_volume:
        raise DataError(
            f"{path}: {split.fields[0]} has the shape {split.images.shape}, of volumes; allowed are"
            " images (n, h, w) or (n, h, w, 3)",
            key="images",
        )


SIDE = 32

FIELDS = {"batches.meta": ("label_names", "labels"), "meta": ("fine_label_names", "fine_labels")}
"""The lists of class names and of labels by the file with the class names; the coarse labels of
CIFAR-100 are not read."""


BATCHES = {
    "batches.meta": (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"),
    "meta": ("train", "test"),
}
"""The published batches, by the file with the class names."""


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


def locate_cifar(path: Path) -> Located[RawImages]:
    """The batches and their reader."""
    names, train, test = cifar_files(path)
    files = (names, *train, *test)
    expected = BATCHES[names.name]
    absent = [name for name in expected if path / name not in files]
    notes = [f"{path}: batches that are absent: {', '.join(absent)}"] if absent else []
    return Located(files, partial(read_cifar, path), notes=tuple(notes))


def read_cifar(path: Path) -> RawImages:
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


def _batch(path: Path, field: str, num_classes: int) -> tuple[NDArray[np.uint8], Integers]:
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


def joined_splits(
    where: str, splits: Mapping[int, StoredSplit], class_names: Sequence[str] = ()
) -> RawImages:
    """The images of a data set with parts by role. Labels are numbers in `class_names`, or
    themselves the names.

    Without a test part the validation part is the test part, as in folders; without both the roles
    are missing.

    Raises
    ------
    DataError
        If images are unfit or differ in shape between the parts, or a label is missing.
    """
    splits = dict(splits)
    if TEST not in splits and VAL in splits:
        splits[TEST] = splits.pop(VAL)
    pixels = {
        role: pixels_of(f"{where}, {split.fields[0]}", split.images)
        for role, split in splits.items()
    }
    shapes = {split.fields[0]: pixels[role].shape[1:] for role, split in splits.items()}
    if len(set(shapes.values())) > 1:
        sizes = ", ".join(f"{field} {'x'.join(map(str, shape))}" for field, shape in shapes.items())
        raise DataError(
            f"{where}: images differ in shape (channels x height x width): {sizes}; all parts must"
            " have one",
            key="image-sizes",
        )
    for split in splits.values():
        if len(split.labels) != len(split.images):
            raise DataError(
                f"{where}: {split.fields[0]} has {len(split.images)} images, {split.fields[1]} has"
                f" {len(split.labels)} labels; every image needs one",
                key="unequal-lengths",
            )
    stored = np.concatenate([split.labels.reshape(len(split.labels)) for split in splits.values()])
    if class_names:
        labels = stored
    else:
        labels, class_names = number_labels(where, stored, len(stored), "labels")
    roles = np.repeat(list(splits), [len(split.labels) for split in splits.values()])
    images = np.concatenate(list(pixels.values()))
    return raw_images(
        torch.from_numpy(images), labels, class_names, roles if len(splits) > 1 else None
    )
