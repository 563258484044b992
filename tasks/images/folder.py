"""The images of a folder: one folder per class, or parts of such folders."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.images.label_partition import Integers
from curvfed.tasks.images.layout import LAYOUTS, TABLE, read_layout
from curvfed.tasks.images.pixels import common_bits, decoded
from curvfed.tasks.images.raw import RawImages, converted
from curvfed.tasks.public_data import Located

LOGGED_IMAGES = 10_000
"""Reading more images is logged, as it takes a while."""

log = logging.getLogger("curvfed")


def located_folder(folder: Path, parts: Mapping[int, Path] | None = None) -> Located[RawImages]:
    """The files of a folder, or of its parts, and their reader."""
    layout = read_layout(folder, parts)
    is_tiny = any(file.name == TABLE for file in layout.files)
    return Located(
        files=layout.files,
        read=partial(read_folder, folder, parts),
        notes=layout.notes,
        digest=layout.digest,
        title="TinyImageNet's folder" if is_tiny else "",
    )


def read_folder(folder: Path, parts: Mapping[int, Path] | None = None) -> RawImages:
    """The images of a user's folder in one of the `LAYOUTS`, or of its `parts`, CLASS/* each, by
    role.

    The names of the classes are those of their folders, in alphabetical order over all parts; a
    folder without files is also a class. Reading the images raises DataError if a file is damaged
    or not an image, or if sizes differ and none is requested. If some images read together are in
    colour, grey images get three channels. Without a test part there are no roles.

    Raises
    ------
    DataError
        If there is no class or no image, or if the classes are ambiguous.
    """
    layout = read_layout(folder, parts)
    return raw_files(folder, layout.samples, layout.class_names, layout.has_test)


def raw_files(
    folder: Path,
    samples: Sequence[tuple[str, int, int]],
    class_names: Sequence[str],
    has_test: bool = True,
) -> RawImages:
    """`RawImages` of image files below `folder`, each with label and role; without a test part
    there are no roles.

    Raises
    ------
    DataError
        If there is no file.
    """
    if not samples:
        raise DataError(f"{folder} holds no images; allowed is {LAYOUTS}", key="no-images")
    files, labels, roles = zip(*samples, strict=True)
    return RawImages(
        labels=np.array(labels, dtype=np.int64),
        class_names=tuple(class_names),
        roles=np.array(roles, dtype=np.int64) if has_test else None,
        read=partial(_read, folder, files),
    )


def _read(
    folder: Path, files: Sequence[str], indices: Integers, size: int, channels: int
) -> Tensor:
    # The bits of all files, so that every subset is read in the same way.
    bits = cache(partial(common_bits, files))
    return read_images(
        str(folder),
        lambda index: os.path.relpath(files[index], folder),
        lambda index: decoded(files[index], bits),
        indices,
        size,
        channels,
    )


def read_images(
    where: str,
    name_of: Callable[[int], str],
    decode: Callable[[int], Tensor],
    indices: Integers,
    size: int,
    channels: int,
) -> Tensor:
    """Images that are decoded one by one, as `RawImages.read` returns them.

    Parameters
    ----------
    where : str
        The data in error texts.
    name_of, decode : callable
        The name and the pixels (1, c, h, w) of the image with a number.
    indices, size, channels
        As in `RawImages.read`.

    Raises
    ------
    DataError
        If an image is damaged, or sizes differ and none is requested.
    """
    if len(indices) > LOGGED_IMAGES:
        log.info("reading %d images of %s", len(indices), where)
    images = torch.empty(0)
    for place, index in enumerate(indices.tolist()):
        name = name_of(index)
        try:
            image = converted(decode(index), size, channels)
        except DataError:
            raise
        except Exception as error:  # each decoder has its own errors
            # Pillow's text ends with the whole path in brackets.
            reason = getattr(error, "strerror", None) or str(error).partition(" <")[0]
            raise DataError(
                f"{where}: image {name} cannot be read ({type(error).__name__}: {reason}); allowed"
                " are complete images with 8 or 16 bits per channel; cut an image with too many"
                " pixels into tiles, or save it smaller",
                name,
                reason,
                key="unreadable",
            ) from error
        if not place:
            images = torch.empty(len(indices), *image.shape[1:], dtype=torch.uint8)
        if image.shape[2:] != images.shape[2:]:
            height, width = image.shape[2:]
            first_height, first_width = images.shape[2:]
            raise DataError(
                f"{where}: image {name} is {height}x{width} (height x width), the images before it"
                f" are {first_height}x{first_width}; images must have one size, or be resized, such"
                " as by images.size=32",
                name,
                key="image-sizes",
            )
        # The first image in colour comes after grey images.
        if image.shape[1] > images.shape[1]:
            images = images.repeat(1, 3, 1, 1)
        images[place] = image[0]
    return images
