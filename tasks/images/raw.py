"""The images of a data set before partitioning: labels in memory, pixels read on demand, or in
arrays whose shape and values are checked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from curvfed.tasks.class_names import number_labels
from curvfed.tasks.errors import DataError
from curvfed.tasks.images.label_partition import Integers, by_class
from curvfed.tasks.images.layout import TEST, TRAIN, VAL

TEST_SHARE = 0.2
"""The share of each class in the global test set of data without a test part, for all seeds."""

CONVERSION_BATCH = 4096
"""Images converted together: intermediate results take several times their memory."""


@dataclass(frozen=True, eq=False)
class RawImages:
    """Images of one data set.

    Attributes
    ----------
    labels : (n,), int64
        Indices into `class_names`.
    class_names : tuple of str
    roles : (n,), int64, or None
        `TRAIN`, `VAL` or `TEST`, by the data set's own parts; None without parts.
    read : callable
        (indices, size, channels) -> Tensor (len(indices), c, h, w), uint8: the images in this
        order, converted by `converted`. Raises DataError.
    users : (n,), int64, or None
        The number of the user of each image, where images belong to users.
    """

    labels: Integers
    class_names: tuple[str, ...]
    roles: Integers | None
    read: Callable[[Integers, int, int], Tensor]
    users: Integers | None = None

    def with_test(self) -> Integers:
        """The data set's own roles; without roles `TEST` for `TEST_SHARE` of each class and `TRAIN`
        for the other images."""
        if self.roles is not None:
            return self.roles
        roles = np.full(len(self.labels), TRAIN)
        for images in by_class(self.labels, np.random.default_rng(0)):
            roles[images[: round(TEST_SHARE * len(images))]] = TEST
        return roles


def raw_images(
    images: Tensor, labels: Integers, class_names: Sequence[str], roles: Integers | None = None
) -> RawImages:
    """`RawImages` of images (n, c, h, w), uint8, in memory.

    Raises
    ------
    ValueError
        If the numbers of images and labels differ, or a label has no class.
    """
    if len(images) != len(labels) or (
        len(labels) and not 0 <= labels.min() <= labels.max() < len(class_names)
    ):
        raise ValueError("images, labels and classes do not belong together")

    def read(indices: Integers, size: int, channels: int) -> Tensor:
        return converted(images[torch.from_numpy(indices)], size, channels)

    return RawImages(np.asarray(labels, dtype=np.int64), tuple(class_names), roles, read)


def converted(images: Tensor, size: int, channels: int) -> Tensor:
    """Convert images (n, c, h, w), uint8, to 1 or 3 channels and to `size` pixels in height and
    width; 0 keeps them.

    Grey is the luma of ITU-R 601, in Pillow's arithmetic; resizing is bilinear, with antialiasing.
    """
    has_channels = channels in (0, images.shape[1])
    has_size = not size or images.shape[2:] == (size, size)
    if has_channels and has_size:
        return images
    batches = torch.split(images, CONVERSION_BATCH)
    return torch.cat([_resized(_in_channels(batch, channels), size) for batch in batches])


def _in_channels(images: Tensor, channels: int) -> Tensor:
    if channels == 3 and images.shape[1] == 1:
        return images.expand(-1, 3, -1, -1)
    if channels == 1 and images.shape[1] == 3:
        red, green, blue = images.int().unbind(dim=1)
        return ((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16).to(torch.uint8)[:, None]
    return images


def _resized(images: Tensor, size: int) -> Tensor:
    if not size or images.shape[2:] == (size, size):
        return images
    return F.interpolate(images, size=(size, size), mode="bilinear", antialias=True)


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
