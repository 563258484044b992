"""Images in memory: opened by Pillow, encoded as Hugging Face stores them, or arrays, each of its
own size."""

import io
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from curvfed.geometry.arrays import Array
from curvfed.tasks.class_names import number_labels
from curvfed.tasks.errors import DataError
from curvfed.tasks.images.decoding import picture, read_images
from curvfed.tasks.images.raw import RawImages, pixels_of


def pixels(where: str, dtype: str | None, value: Any) -> Tensor:
    """The image (1, c, h, w), uint8, of an image of Pillow, of a dict of its encoded "bytes" or its
    "path", or of an array of this dtype: whole numbers up to 255, or fractions of 1.

    Raises
    ------
    DataError
        If the image is missing, or an array has other values or another shape.
    """
    if value is None:
        raise DataError(
            f"{where}: an image is missing; leave such rows out, in Hugging Face's datasets by"
            ' data = data.filter(lambda row: row["image"] is not None)',
            key="no-image",
        )
    if isinstance(value, dict):
        from PIL import Image

        encoded = value.get("bytes")
        with Image.open(io.BytesIO(encoded) if encoded else value["path"]) as image:
            return picture(image)
    if hasattr(value, "convert"):
        return picture(value)
    array = np.asarray(value, dtype)
    lowest = array.min()
    highest = array.max()
    if array.dtype.kind == "f" and lowest >= 0 and highest <= 1:
        array = np.rint(255 * array).astype(np.uint8)
    if array.dtype.kind in "iu" and lowest >= 0 and highest <= 255:
        array = array.astype(np.uint8)
    return torch.from_numpy(pixels_of(where, array[None]))


def is_picture(value: object) -> bool:
    """Whether an object is one image: Pillow's, an array with two or three axes, or a list of
    rows."""
    is_array = hasattr(value, "__array__") and np.ndim(value) in (2, 3)
    is_rows = isinstance(value, list) and bool(value) and isinstance(value[0], list)
    return is_array or is_rows or hasattr(value, "convert")


def in_columns(item: Any) -> Any:
    """Images and labels, of a list of pairs of both, or of a list of the two; images and None, of a
    list of images; any other object unchanged."""
    if not isinstance(item, list | tuple) or not item:
        return item
    if all(isinstance(pair, tuple) and len(pair) == 2 and is_picture(pair[0]) for pair in item):
        return tuple(map(list, zip(*item, strict=True)))
    if isinstance(item, list) and all(map(is_picture, item)):
        return item, None
    is_pair = len(item) == 2 and (hasattr(item[0], "__array__") or are_pictures(item[0]))
    return tuple(item) if is_pair else item


def are_pictures(images: object) -> bool:
    """Whether an object is a list of images, which may differ in size."""
    return isinstance(images, list | tuple) and bool(images) and all(map(is_picture, images))


def listed_images(where: str, images: Sequence[Any], labels: Array) -> RawImages:
    """The images of a list, with a label for each.

    Raises
    ------
    DataError
        If labels are missing or unfit; the reader, if an image is.
    """
    numbers, class_names = number_labels(where, labels, len(images), "labels")

    def decode(index: int) -> Tensor:
        return pixels(where, None, images[index])

    return RawImages(numbers, class_names, None, partial(read_images, where, str, decode))


def check_not_flat(where: str, values: Array) -> None:
    """Refuse rows that are as long as a square image.

    Raises
    ------
    DataError
    """
    length = values.shape[1]
    side = math.isqrt(length)
    if side > 3 and side * side == length:
        raise DataError(
            f"{where}: rows of {length} values are no points in the plane, but may be flat images;"
            f" allowed are images of uint8, such as values.reshape(-1, {side}, {side})",
            key="flat-images",
        )
