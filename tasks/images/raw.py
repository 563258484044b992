"""The images of a data set before partitioning: labels in memory, pixels read on demand, or in
arrays with checked shape and values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from curvfed.geometry.arrays import Array, Integers
from curvfed.tasks.errors import DataError
from curvfed.tasks.images.label_partition import by_class
from curvfed.tasks.images.layout import TEST, TRAIN
from curvfed.tasks.record_split import RecordSplit, records_of

TEST_SHARE = 0.2
"""The share of each class in the global test set of data without a test part, for all seeds."""

CONVERSION_BATCH = 4096
"""Images converted together: intermediate results take several times their memory."""


@dataclass
class Depth:
    """The bits of white in files with 16 bits per channel: 8 to 16.

    Attributes
    ----------
    guess : callable
        () -> int: the bits by the values of the files; raises an error if these are ambiguous.
    bits : int
        The bits in use; 0 until a file with 16 bits per channel is read. Given bits are not
        guessed.
    """

    guess: Callable[[], int]
    bits: int = 0

    def __call__(self) -> int:
        """The bits, guessed at the first call if they are not given."""
        self.bits = self.bits or self.guess()
        return self.bits


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
    content : callable, or None
        (index) -> bytes: an image as stored; None: its pixels, in colour.
    depth : Depth or None
        The bits of files with 16 bits per channel, which `read` takes as its argument `depth`; None
        without such files.
    names : sequence of str, (n,)
        The path of each image from its folder; empty for images that are no files.
    """

    task: ClassVar[str] = "images"

    labels: Integers
    class_names: tuple[str, ...]
    roles: Integers | None
    read: Callable[[Integers, int, int], Tensor]
    users: Integers | None = None
    content: Callable[[int], bytes] | None = None
    depth: Depth | None = None
    names: Sequence[str] = ()

    @property
    def bits(self) -> int:
        """The bits of the files with 16 bits per channel that were read; 0 without such files."""
        return self.depth.bits if self.depth else 0

    def in_bits(self, bits: int) -> "RawImages":
        """These images, with files of 16 bits per channel read as this number of bits; 0: by the
        values of the files."""
        if not bits or self.depth is None:
            return self
        depth = replace(self.depth, bits=bits)
        read = cast(Callable[..., Tensor], self.read)
        return replace(self, depth=depth, read=partial(read, depth=depth))

    def records(self, indices: Integers) -> list[bytes]:
        """The images of these numbers with their classes, as they are stored, before a run's choice
        of size and colour."""
        content = self.content or self._pixels
        labels = self.labels[indices].tolist()
        return records_of(map(content, indices.tolist()), labels, self.class_names)

    def _pixels(self, index: int) -> bytes:
        image = self.read(np.array([index]), 0, 3)
        return f"{tuple(image.shape)}".encode() + image.numpy().tobytes()

    def with_test(self, record_split: RecordSplit | None = None) -> Integers:
        """The data set's own roles; without roles `TEST` for `TEST_SHARE` of each class, or of the
        records, and `TRAIN` for the other images."""
        if self.roles is not None:
            return self.roles
        if record_split is not None:
            records = self.records(np.arange(len(self.labels)))
            is_test = record_split.draw(records, TEST_SHARE, "global test set")
            return np.where(is_test, TEST, TRAIN)
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
        If the numbers of images and labels differ, or a label lacks a class.
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
        grey = (19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16
        return grey.to(torch.uint8)[:, None]
    return images


def _resized(images: Tensor, size: int) -> Tensor:
    if not size or images.shape[2:] == (size, size):
        return images
    return F.interpolate(images, size=(size, size), mode="bilinear", antialias=True)


ALLOWED = "uint8, 0 to 255, of shape (n, h, w), (n, c, h, w) or (n, h, w, c) with c of 1 or 3"


def pixels_of(where: str, images: Array) -> NDArray[np.uint8]:
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
