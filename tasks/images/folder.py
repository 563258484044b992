"""A folder of images: one folder per class, or parts of such folders."""

import dataclasses
import errno
import hashlib
import json
import logging
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.images.label_partition import Integers
from curvfed.tasks.images.raw import TEST, TRAIN, VAL, RawImages, brought_to

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""As torchvision's. Other files are ignored, and so are hidden files and folders."""

LAYOUTS = "CLASS/* or train/CLASS/* and test/CLASS/* (or val/CLASS/*), files in " + " ".join(EXTENSIONS)

MANY = 10_000
"""From so many images on, reading them is logged, as it takes a while."""

PEEK_FOLDERS = 1000
"""How many folders `is_image_folder` looks into."""

log = logging.getLogger("curvfed")


def is_image_folder(path: Path) -> bool:
    """Whether one of the first folders below `path` holds an image."""
    for _, folders, files in islice(os.walk(path, followlinks=True), PEEK_FOLDERS):
        if any(map(_is_image, files)):
            return True
        folders[:] = [name for name in folders if not _hidden(name)]
    return False


def class_folders(folder: Path) -> tuple[str, ...]:
    """Names of the folders in `folder`, sorted, without hidden ones; none where `folder` is no folder.

    Raises
    ------
    DataError
        If the folder cannot be read.
    """
    try:
        if not folder.is_dir():
            return ()
        with os.scandir(folder) as entries:
            return tuple(sorted(entry.name for entry in entries if entry.is_dir() and not _hidden(entry.name)))
    except OSError as error:
        raise DataError(f"{folder} cannot be looked into ({error.strerror})") from error


def parts_of(folder: Path) -> dict[int, Path]:
    """The folder of each role: train/ and test/, and val/ if both are there; val/ is the test part if test/ is absent.

    Without a test part `TRAIN` is the only role: train/, or the folder itself where train/ is absent, or holds images and
    so is a class like others.
    """
    train, val, test = (folder / name for name in ("train", "val", "test"))
    if not class_folders(train) or any(_images_in(train)):
        return {TRAIN: folder}
    if not class_folders(test):
        return {TRAIN: train, TEST: val} if class_folders(val) else {TRAIN: train}
    return {TRAIN: train, VAL: val, TEST: test} if class_folders(val) else {TRAIN: train, TEST: test}


def read_folder(folder: Path) -> RawImages:
    """The images of a user's folder in one of the `LAYOUTS`.

    Classes are named by their folders, in alphabetical order over all parts; a folder without images is also a class.

    Raises
    ------
    DataError
        No class, or no image. Reading the images may raise it as well: see `listed`.
    """
    parts = parts_of(folder)
    raw = read_parts(folder, parts)
    return raw if TEST in parts else dataclasses.replace(raw, roles=None)


def read_parts(folder: Path, parts: Mapping[int, Path]) -> RawImages:
    """The images of `parts`, CLASS/* each, by role.

    Raises
    ------
    DataError
        As `read_folder`.
    """
    names = sorted({name for part in parts.values() for name in class_folders(part)})
    if not names:
        raise DataError(f"{folder} holds no folders of classes; allowed is {LAYOUTS}")
    samples = [(path, label, role) for role, part in parts.items() for path, label in images_of(part, names)]
    return listed(folder, samples, names)


def images_of(part: Path, class_names: Sequence[str]) -> list[tuple[str, int]]:
    """Paths and labels of the images of CLASS/*, in the order of torchvision's ImageFolder; other folders are ignored.

    Raises
    ------
    OSError
        If a folder cannot be read, or is a link to one that holds it.
    """
    return [
        (path, number)
        for number, name in enumerate(class_names)
        if (part / name).is_dir()
        for path in sorted((one.path for one in _below(str(part / name)) if _is_image(one.name)), key=os.path.split)
    ]


def listed(folder: Path, samples: Sequence[tuple[str, int, int]], class_names: Sequence[str]) -> RawImages:
    """`RawImages` of image files, each with label and role, below `folder`; errors name them by their paths from there.

    Reading them raises DataError where a file is damaged or no image, and where sizes differ and none is given. If some of
    the images read together are in colour, grey ones get three channels.

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
        roles=np.array(roles, dtype=np.int64),
        read=partial(_read, folder, files),
    )


def fingerprint(folders: Sequence[Path]) -> str:
    """SHA-256 of name, size and time of every image below the folders, and of the folders' names; "" without folders.

    Within a process the result is kept until a folder or one of its classes changes; that the content of a file has changed
    is seen by the next process.

    Raises
    ------
    DataError
        If a folder cannot be read.
    """
    try:
        watched = [path for folder in folders for path in (folder, *(folder / name for name in class_folders(folder)))]
        return _fingerprint(tuple(folders), tuple(path.stat().st_mtime_ns for path in watched)) if folders else ""
    except OSError as error:
        below = Path(error.filename).parts[len(folders[0].parts) :]
        raise DataError(f"{error.filename} cannot be looked into ({error.strerror})", *below) from error


@lru_cache(maxsize=32)
def _fingerprint(folders: tuple[Path, ...], changed: tuple[int, ...]) -> str:
    # Tens of thousands of files take half a second, and a simulation asks once per client.
    hasher = hashlib.sha256()
    for folder in folders:
        hasher.update(json.dumps([folder.name, *_stats(str(folder))]).encode())
    return hasher.hexdigest()


def _stats(folder: str) -> Iterator[tuple[str, int, int]]:
    for entry in _below(folder):
        place = os.path.relpath(entry.path, folder)
        if entry.is_dir():
            yield f"{place}/", 0, 0
        elif _is_image(entry.name):
            found = entry.stat()
            yield place, found.st_size, found.st_mtime_ns


def _below(folder: str, above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[os.DirEntry[str]]:
    """What is in a folder and in the folders in it, by name, without what is hidden; `above` are the folders around it."""
    own = os.stat(folder)
    if (identity := (own.st_dev, own.st_ino)) in above:
        raise OSError(errno.ELOOP, "a link to a folder that holds it", folder)
    with os.scandir(folder) as entries:
        found = sorted((entry for entry in entries if not _hidden(entry.name)), key=lambda entry: entry.name)
    for entry in found:
        yield entry
        if entry.is_dir():
            yield from _below(entry.path, above | {identity})


def _images_in(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        yield from (entry.name for entry in entries if _is_image(entry.name) and entry.is_file())


def _is_image(path: str) -> bool:
    return path.lower().endswith(EXTENSIONS) and not _hidden(os.path.basename(path))


def _hidden(name: str) -> bool:
    return name.startswith(".")


def _read(folder: Path, files: Sequence[str], indices: Integers, size: int, channels: int) -> Tensor:
    if len(indices) > MANY:
        log.info("reading %d images of %s", len(indices), folder)
    images = torch.empty(0)
    for place, index in enumerate(indices.tolist()):
        try:
            image = brought_to(_decoded(files[index]), size, channels)
        except Exception as error:  # every decoder has errors of its own
            name = os.path.relpath(files[index], folder)
            raise DataError(
                f"{folder}: image {name} cannot be read ({type(error).__name__}); allowed are whole images with 8 or 16 "
                "bits per channel",
                name,
            ) from error
        if not place:
            images = torch.empty(len(indices), *image.shape[1:], dtype=torch.uint8)
        if image.shape[2:] != images.shape[2:]:
            (height, width), (first_height, first_width) = image.shape[2:], images.shape[2:]
            name = os.path.relpath(files[index], folder)
            raise DataError(
                f"{folder}: image {name} is {height}x{width} (height x width), those before it are "
                f"{first_height}x{first_width}; images must be of one size, or be brought to one, such as by "
                "images.size=32",
                name,
            )
        if image.shape[1] > images.shape[1]:  # the first in colour after grey ones
            images = images.repeat(1, 3, 1, 1)
        images[place] = image[0]
    return images


def _decoded(path: str) -> Tensor:
    """The first frame of an image file, (1, c, h, w), uint8: one channel if the file is grey, else three."""
    from PIL import Image

    if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would be waited for
        raise OSError("no regular file")
    with Image.open(path) as image:
        if image.mode.startswith("I"):  # Pillow would clip what exceeds 255
            values = np.asarray(image)
            if values.min() < 0 or values.max() >= 2**16:
                raise ValueError("more than 16 bits")
            pixels = (values >> 8).astype(np.uint8)
        elif image.mode == "F":
            raise ValueError("not of integers")
        elif image.mode in ("1", "L", "LA", "La"):
            pixels = np.array(image.convert("L"))
        else:
            # A palette with transparency is read by way of RGBA: Pillow warns of the other.
            pixels = np.array((image.convert("RGBA") if image.mode == "P" else image).convert("RGB"))
    return torch.from_numpy(pixels.reshape(*pixels.shape[:2], -1)).permute(2, 0, 1)[None]
