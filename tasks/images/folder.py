"""The images of a folder: one folder per class, or parts of such folders."""

import logging
import os
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.images.label_partition import Integers
from curvfed.tasks.images.layout import LAYOUTS, read_layout
from curvfed.tasks.images.pixels import common_bits, decoded
from curvfed.tasks.images.raw import RawImages, brought_to

MANY = 10_000
"""From so many images on, reading them is logged, as it takes a while."""

log = logging.getLogger("curvfed")


def read_folder(folder: Path, parts: Mapping[int, Path] | None = None) -> RawImages:
    """The images of a user's folder in one of the `LAYOUTS`, or of its `parts`, CLASS/* each, by
    role.

    Classes are named by their folders, in alphabetical order over all parts; a folder without files
    is also a class.

    Raises
    ------
    DataError
        No class, no image, or classes that cannot be told. Reading the images may raise it as well:
        see `listed`.
    """
    layout = read_layout(folder, parts)
    return listed(folder, layout.samples, layout.class_names, layout.has_test)


def listed(
    folder: Path,
    samples: Sequence[tuple[str, int, int]],
    class_names: Sequence[str],
    has_test: bool = True,
) -> RawImages:
    """`RawImages` of image files, each with label and role, below `folder`; errors name them by
    their paths from there.

    Reading them raises DataError where a file is damaged or no image, and where sizes differ and
    none is given. If some of the images read together are in colour, grey ones get three channels.
    Without a test part there are no roles.

    Raises
    ------
    DataError
        If there is no file.
    """
    if not samples:
        raise DataError(f"{folder} holds no images; allowed is {LAYOUTS}")
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
    if len(indices) > MANY:
        log.info("reading %d images of %s", len(indices), folder)
    # of all files, so that any part of them is read in the same way
    bits = cache(partial(common_bits, files))
    images = torch.empty(0)
    for place, index in enumerate(indices.tolist()):
        name = os.path.relpath(files[index], folder)
        try:
            image = brought_to(decoded(files[index], bits), size, channels)
        except Exception as error:  # every decoder has errors of its own
            # without the whole path
            reason = getattr(error, "strerror", None) or str(error).partition(" <")[0]
            raise DataError(
                f"{folder}: image {name} cannot be read ({type(error).__name__}: {reason}); allowed"
                " are whole images with 8 or 16 bits per channel; one with too many pixels can be"
                " cut into tiles, or saved smaller",
                name,
                reason,
            ) from error
        if not place:
            images = torch.empty(len(indices), *image.shape[1:], dtype=torch.uint8)
        if image.shape[2:] != images.shape[2:]:
            (height, width) = image.shape[2:]
            (first_height, first_width) = images.shape[2:]
            raise DataError(
                f"{folder}: image {name} is {height}x{width} (height x width), those before it are"
                f" {first_height}x{first_width}; images must be of one size, or be brought to one,"
                " such as by images.size=32",
                name,
            )
        if image.shape[1] > images.shape[1]:  # the first in colour after grey ones
            images = images.repeat(1, 3, 1, 1)
        images[place] = image[0]
    return images
