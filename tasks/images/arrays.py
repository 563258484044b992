"""Images in arrays: their shape and values checked, their parts joined."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from curvfed.tasks.errors import DataError
from curvfed.tasks.images.layout import TEST, VAL
from curvfed.tasks.images.raw import RawImages, raw_images
from curvfed.tasks.labels import number_labels

ALLOWED = "uint8, 0 to 255, of shape (n, h, w), (n, c, h, w) or (n, h, w, c) with c of 1 or 3"


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

    images: NDArray[Any]
    labels: NDArray[Any]
    fields: tuple[str, str]


def pixels_of(where: str, images: NDArray[Any]) -> NDArray[np.uint8]:
    """Images (n, c, h, w) of an array with the channels anywhere.

    Parameters
    ----------
    where : str
        The beginning of an error's text.
    images : array

    Raises
    ------
    DataError
        If the shape or the type is not `ALLOWED`.
    """
    pixels = images[:, None] if images.ndim == 3 else images
    # These images have the channels last.
    if pixels.ndim == 4 and pixels.shape[1] not in (1, 3) and pixels.shape[3] in (1, 3):
        pixels = pixels.transpose(0, 3, 1, 2)
    if (
        pixels.dtype != np.uint8
        or pixels.ndim != 4
        or pixels.shape[1] not in (1, 3)
        or 0 in pixels.shape[2:]
    ):
        raise DataError(
            f"{where}: images are {images.dtype} of shape {images.shape}; allowed are {ALLOWED}",
            key="images",
        )
    return pixels


class StoredPixels(NamedTuple):
    """Images of one user, before it is known how the pixels of all users are scaled.

    Attributes
    ----------
    pixels : (n, c, h, w), uint8
        Whole numbers as they are stored; fractions of 1 times 255.
    has_fractions : bool
        Whether the stored numbers are from 0 to 1, and not all whole.
    """

    pixels: NDArray[np.uint8]
    has_fractions: bool


def stored_pixels(where: str, values: NDArray[Any]) -> StoredPixels:
    """Images of numbers from 0 to 1, or of whole numbers up to 255.

    Raises
    ------
    DataError
        If there are other values, or the shape is not `ALLOWED`.
    """
    lowest = values.min(initial=0)
    highest = values.max(initial=0)
    is_whole = values.dtype.kind in "biu" or bool((values % 1 == 0).all())
    if not (lowest >= 0 and highest <= (255 if is_whole else 1)):
        raise DataError(
            f"{where}: images have values other than 0 to 1, and other than whole numbers from 0"
            " to 255; allowed are these two",
            key="pixel-values",
        )
    whole = values if is_whole else np.rint(255 * values)
    return StoredPixels(pixels_of(where, whole.astype(np.uint8)), not is_whole)


def scaled_pixels(where: str, parts: Sequence[StoredPixels]) -> NDArray[np.uint8]:
    """The images of all users (n, c, h, w) in one scale, 0 to 255.

    A user whose numbers are only 0 and 1 has the scale of the others.

    Raises
    ------
    DataError
        If some users have fractions of 1, and others whole numbers above 1.
    """
    has_fractions = any(part.has_fractions for part in parts)
    highest = max((part.pixels.max() for part in parts if not part.has_fractions), default=0)
    if has_fractions and highest > 1:
        raise DataError(
            f"{where}: some users have images of fractions of 1, others of whole numbers up to"
            f" {highest}; allowed is one scale for all users",
            key="pixel-values",
        )
    factor = np.uint8(1 if highest > 1 else 255)
    return np.concatenate(
        [part.pixels if part.has_fractions else factor * part.pixels for part in parts]
    )


def joined_splits(
    where: str, splits: Mapping[int, StoredSplit], class_names: Sequence[str] = ()
) -> RawImages:
    """The images of a data set with parts by role. Labels are numbers in `class_names`, or
    themselves the names.

    Without a test part the validation part is the test part, as in folders; without both there are
    no roles.

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
