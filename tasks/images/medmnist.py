"""The archives of MedMNIST (Yang et al., 2023): images and labels of three parts in one `.npz`."""

from functools import partial
from pathlib import Path

import numpy as np

from curvfed.tasks.errors import DataError, unreadable
from curvfed.tasks.images.layout import TEST, TRAIN, VAL
from curvfed.tasks.images.raw import RawImages, StoredSplit, joined_splits
from curvfed.tasks.public_data import Located

PREFIXES = {TRAIN: "train", VAL: "val", TEST: "test"}
"""The beginning of the arrays' names by role."""


def locate(path: Path) -> Located[RawImages]:
    """The archive and its reader."""
    return Located((path,), partial(read, path))


def read(path: Path) -> RawImages:
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
