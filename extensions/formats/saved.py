"""Data sets of Hugging Face's datasets, in memory or in a folder of save_to_disk."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from curvfed.extensions.formats.rows import IMAGE_COLUMNS, column_type, point_column, saved_files
from curvfed.geometry.arrays import Array, Integers
from curvfed.tasks.class_names import names_listed, number_labels
from curvfed.tasks.errors import DataError, unreadable
from curvfed.tasks.images.decoding import read_images
from curvfed.tasks.images.layout import ROLES, TEST, TRAIN, VAL
from curvfed.tasks.images.pictures import pixels
from curvfed.tasks.images.raw import RawImages
from curvfed.tasks.points import RawPoints, raw_points
from curvfed.tasks.points.readers import DEFAULT_LABEL
from curvfed.tasks.public_data import Located

LABELS = ("label", "labels", "y", "target", "class", "fine_label")
"""The names of the column of labels, where there is not exactly one of class labels."""

COLUMNS = (
    "a column of images (Image, Array2D or Array3D) or of points (a list of 2 floats), and a column"
    f" of classes (a ClassLabel, or one named {', '.join(LABELS)})"
)

Features = Mapping[str, Any]
"""The type of each column by name, as `Features.to_dict` has them."""


def locate(path: Path, label_key: str = "", **settings: Any) -> Located[RawImages | RawPoints]:
    """The files of a data set that was saved to disk, and their reader."""
    return Located(saved_files(path), partial(read, path, label_key))


def read(path: Path, label_key: str = "") -> RawImages | RawPoints:
    """Read a data set that was saved by `save_to_disk`, with its splits.

    Raises
    ------
    DataError
        If `datasets` is not installed, a file is damaged, or columns are absent or unfit.
    """
    try:
        import datasets
    except ImportError:
        raise DataError(
            f"{path} was saved by Hugging Face's datasets, which is not installed here: pip install"
            " 'curvfed[huggingface]'",
            key="no-package",
        ) from None
    try:
        stored = datasets.load_from_disk(str(path))
    except Exception as error:  # its readers may raise anything
        raise unreadable(path, error, "folder of save_to_disk") from error
    return from_datasets(str(path), stored, label_key)


def read_object(where: str, item: object, label_key: str) -> RawImages | RawPoints | None:
    """Read a `Dataset` or a `DatasetDict`; see `from_datasets`. None for other objects."""
    splits = item.values() if isinstance(item, dict) and item else [item]
    if all(hasattr(split, "features") and hasattr(split, "column_names") for split in splits):
        return from_datasets(where, item, label_key)
    return None


def from_datasets(where: str, stored: Any, label_key: str = "") -> RawImages | RawPoints:
    """The images or points of a `Dataset`, or of the splits of a `DatasetDict`. The classes are in
    the column `label_key` if that is neither empty nor the default.

    Splits are the training, validation and test part by their names; a single one is the training
    part. Other splits are left out, and those with all labels missing, -1. Without a labelled test
    split the validation split is the test part; with one, points lack a validation part, and the
    split is left out.

    Raises
    ------
    DataError
        If columns are absent, or labels or values unfit.
    """
    splits = _splits(where, stored)
    features: Features = splits[TRAIN].features.to_dict()
    label = _label_column(where, features, label_key)
    splits = {role: split for role, split in splits.items() if label in split.column_names}
    numbers = {role: _labels(where, label, split) for role, split in splits.items()}
    points_column = point_column(features)
    labelled = [role for role in splits if role == TRAIN or not _is_missing(numbers[role])]
    if points_column is not None and TEST in labelled:
        labelled = [role for role in labelled if role != VAL]
    final_roles = [TEST if role == VAL and TEST not in labelled else role for role in labelled]
    roles = np.repeat(final_roles, [len(numbers[role]) for role in labelled])
    # Splits that were encoded apart number the same names differently.
    names = {role: _class_names(splits[role], label) for role in labelled}
    class_names = tuple(dict.fromkeys(name for role in labelled for name in names[role]))
    if class_names:
        coded = [_coded(where, label, numbers[role], names[role], class_names) for role in labelled]
        labels = np.concatenate(coded)
    else:
        stored = np.concatenate([numbers[role] for role in labelled])
        labels, class_names = number_labels(where, stored, len(stored), label)
    rows = [(splits[role], number) for role in labelled for number in range(len(splits[role]))]
    if points_column is not None:
        points = np.array([split[number][points_column] for split, number in rows])
        raw = raw_points(where, points, np.array(class_names)[labels], (points_column, label))
        return replace(raw, test=roles == TEST if len(labelled) > 1 else None)
    column = _image_column(where, features)
    image_roles = roles if len(labelled) > 1 else None
    dtype = features[column].get("dtype")

    def decode(index: int) -> Tensor:
        split, number = rows[index]
        return pixels(f"{where}, column {column}", dtype, split[number][column])

    return RawImages(
        labels=labels,
        class_names=class_names,
        roles=image_roles,
        read=partial(read_images, where, lambda index: f"{index}, of column {column}", decode),
    )


def _splits(where: str, stored: Any) -> dict[int, Any]:
    """The splits by role, without the formats that a user gave them."""
    split_of_name = dict(stored) if isinstance(stored, dict) else {"train": stored}
    if not all(hasattr(split, "__len__") for split in split_of_name.values()):
        raise DataError(
            f"{where} is an IterableDataset, a stream; allowed is a Dataset, by load_dataset"
            " without streaming=True, or by datasets.Dataset.from_list(list(data),"
            " features=data.features)",
            key="stream",
        )
    splits: dict[int, Any] = {}
    for role, pattern in ROLES.items():
        names = [name for name in split_of_name if re.fullmatch(pattern, name.lower())]
        if len(names) > 1:
            raise DataError(
                f"{where} has the splits {names_listed(names)}; allowed is one of them",
                *names,
                key="several-parts",
            )
        if names:
            splits[role] = split_of_name[names[0]].with_format(None)
    if TRAIN not in splits and len(split_of_name) == 1:
        (split,) = split_of_name.values()
        return {TRAIN: split.with_format(None)}
    if TRAIN not in splits:
        raise DataError(
            f"{where} has the splits {names_listed(list(split_of_name))}; required is one called"
            " train",
            *split_of_name,
            key="no-training-part",
        )
    return splits


def _label_column(where: str, features: Features, label_key: str) -> str:
    """The column of the classes."""
    if label_key not in ("", DEFAULT_LABEL):
        if label_key not in features:
            raise _no_column(where, f"classes as {label_key} (points.label-key)", features)
        return label_key
    columns = [name for name, kind in features.items() if column_type(kind) == "ClassLabel"]
    if len(columns) != 1:
        columns = [name for name in LABELS if name in (columns or features)]
    if not columns:
        raise _no_column(where, "classes", features)
    return columns[0]


def _image_column(where: str, features: Features) -> str:
    columns = [name for name, kind in features.items() if column_type(kind) in IMAGE_COLUMNS]
    if len(columns) != 1:
        raise _no_column(where, "images", features)
    return columns[0]


def _no_column(where: str, content: str, features: Features) -> DataError:
    columns = ", ".join(
        f"{name} ({column_type(kind) or 'nested'})" for name, kind in features.items()
    )
    return DataError(
        f"{where}: not exactly one column holds {content}; it has {columns}, required are"
        f" {COLUMNS}",
        *features,
        key="no-column",
    )


def _is_missing(labels: Array) -> bool:
    """Whether no example has a label."""
    return labels.dtype.kind in "iu" and bool((labels == -1).all())


def _labels(where: str, label: str, split: Any) -> Array:
    """The label of each row, (n,).

    Raises
    ------
    DataError
        If a row has several labels, or none in a list of labels.
    """
    values = list(split[label])
    sizes = {np.size(value) for value in values}
    if sizes - {1}:
        raise DataError(
            f"{where}: rows have {min(sizes)} to {max(sizes)} values of {label}; allowed is one"
            " class per row",
            label,
            key="several-labels",
        )
    return np.asarray(values).reshape(len(values))


def _class_names(split: Any, label: str) -> tuple[str, ...]:
    return tuple(split.features.to_dict()[label].get("names") or ())


def _coded(
    where: str, label: str, labels: Array, names: Sequence[str], class_names: Sequence[str]
) -> Integers:
    """The labels of a split, numbers of its own `names`, as numbers of `class_names`."""
    num_bad = sum(
        type(number) is not int or not 0 <= number < len(names) for number in labels.tolist()
    )
    if num_bad:
        raise DataError(
            f"{where}: {num_bad} of {len(labels)} entries of {label} are missing, or outside"
            f" 0..{len(names) - 1}, the classes with names",
            label,
            key="labels",
        )
    places = np.array([class_names.index(name) for name in names], dtype=np.int64)
    return places[labels.astype(np.int64)]
