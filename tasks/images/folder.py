"""Read the images of a folder: which files, and their classes, roles and users."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from torch import Tensor

from curvfed.geometry.arrays import Integers
from curvfed.tasks.errors import DataError
from curvfed.tasks.images.decoding import common_bits, decoded, has_colour, read_images
from curvfed.tasks.images.layout import LAYOUTS, TABLE, read_layout
from curvfed.tasks.images.raw import Depth, RawImages, converted
from curvfed.tasks.public_data import Located


def located_folder(
    folder: Path, parts: Mapping[int, Path] | None = None, level: int = 0
) -> Located[RawImages]:
    """The files of a folder, or of its parts, and their reader; see `read_layout`."""
    layout = read_layout(folder, parts, level)
    is_tiny = any(file.name == TABLE for file in layout.files)
    return Located(
        files=layout.files,
        read=partial(read_folder, folder, parts, level),
        notes=layout.notes,
        digest=layout.digest,
        title="TinyImageNet's folder" if is_tiny else "",
        sites=layout.sites,
    )


def read_folder(folder: Path, parts: Mapping[int, Path] | None = None, level: int = 0) -> RawImages:
    """The images of a user's folder in one of the `LAYOUTS`, or of its `parts`, CLASS/* each, by
    role.

    The names of the classes are those of their folders, in alphabetical order over all parts; a
    folder without files is also a class. Reading the images raises DataError if a file is damaged
    or not an image, or if sizes differ and none is requested. If some files are in colour, grey
    images get three channels. Without a test part roles are missing. The users of the images are
    the sites of their folders, if there are any.

    Raises
    ------
    DataError
        If classes or images are missing, or if the classes are ambiguous.
    """
    layout = read_layout(folder, parts, level)
    raw = raw_files(folder, layout.samples, layout.class_names, layout.has_test)
    return replace(raw, users=np.array(layout.users, dtype=np.int64)) if layout.sites else raw


def raw_files(
    folder: Path,
    samples: Sequence[tuple[str, int, int]],
    class_names: Sequence[str],
    has_test: bool = True,
) -> RawImages:
    """`RawImages` of image files below `folder`, each with label and role; without a test part
    roles are missing.

    Raises
    ------
    DataError
        If `samples` is empty.
    """
    if not samples:
        raise DataError(f"{folder} holds no images; allowed is {LAYOUTS}", key="no-images")
    files, labels, roles = zip(*samples, strict=True)
    stored_roles = np.array(roles, dtype=np.int64) if has_test else None
    names = [_place(file, folder) for file in files]
    # The bits and the colour of all files, so that every subset is read in the same way.
    depth = Depth(partial(common_bits, files))
    in_colour = cache(lambda: any(map(has_colour, files)))
    return RawImages(
        labels=np.array(labels, dtype=np.int64),
        class_names=tuple(class_names),
        roles=stored_roles,
        read=partial(_read, folder, files, names, in_colour, depth=depth),
        content=lambda index: Path(files[index]).read_bytes(),
        depth=depth,
        names=names,
    )


def _place(file: str, folder: Path) -> str:
    """The path of a file from a folder, with escapes for bytes that are not UTF-8."""
    return os.path.relpath(file, folder).encode(errors="backslashreplace").decode()


def _read(
    folder: Path,
    files: Sequence[str],
    names: Sequence[str],
    in_colour: Callable[[], bool],
    indices: Integers,
    size: int,
    channels: int,
    depth: Depth,
) -> Tensor:
    images = read_images(
        str(folder),
        lambda index: names[index],
        lambda index: decoded(files[index], depth),
        indices,
        size,
        channels,
    )
    if not channels and len(images) and images.shape[1] == 1 and in_colour():
        return converted(images, 0, 3)
    return images
