"""Classification of images: data sets, their partition, networks. Here image files are found, and
the folders that hold those of a class."""

import errno
import os
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal

from curvfed.tasks.errors import DataError

EXTENSIONS = (".jpg", ".jpeg", ".jfif", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""torchvision's extensions, and .jfif, which browsers use for JPEG. Other files are counted and
left out; hidden files and folders are ignored."""

HIDDEN = (
    "__macosx",
    "@eadir",
    "#recycle",
    "$recycle.bin",
    "system volume information",
    "lost+found",
    "__pycache__",
    "thumbs.db",
    "ehthumbs.db",
    "desktop.ini",
    "icon\r",
)
"""Files and folders of systems and tools, in small letters."""

PEEK_FOLDERS = 1000
"""The maximum number of folders that `first_image` searches."""


def class_folders(folder: Path) -> tuple[str, ...]:
    """The sorted names of the visible folders in `folder`; none if `folder` is not a folder.

    Raises
    ------
    DataError
        If the folder cannot be read.
    """
    try:
        if not folder.is_dir():
            return ()
        with os.scandir(folder) as entries:
            names = [
                entry.name for entry in entries if entry.is_dir() and not _is_hidden(entry.name)
            ]
    except OSError as error:
        raise DataError(
            f"{folder} cannot be looked into ({error.strerror})", key="unreadable"
        ) from error
    return tuple(sorted(names))


def first_image(folder: Path) -> Path | None:
    """An image in one of the first folders below `folder`, or None."""
    for path, folders, files in islice(os.walk(folder, followlinks=True), PEEK_FOLDERS):
        image = next(filter(is_image, files), None)
        if image is not None:
            return Path(path, image)
        folders[:] = [name for name in folders if not _is_hidden(name)]
    return None


def is_image(path: str) -> bool:
    """Whether a file is an image, by its name."""
    return path.lower().endswith(EXTENSIONS) and not _is_hidden(os.path.basename(path))


def has_images(folder: Path) -> bool:
    """Whether a folder itself holds an image."""
    with os.scandir(folder) as entries:
        return any(is_image(entry.name) and entry.is_file() for entry in entries)


def images_in(folder: Path) -> list[Path]:
    """The images in a folder itself, by name; none if `folder` is not a folder."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if is_image(path.name) and path.is_file())


FRAMED = (".tif", ".tiff", ".webp", ".png")
"""The formats that may hold several images: pages, or the frames of an animation."""

HEAD = 4096
"""The number of bytes of a PNG that are searched for the mark of an animation."""


def has_frames(path: str) -> bool:
    """Whether an image file holds several images, by its headers; False for damaged files."""
    if not path.lower().endswith(FRAMED) or not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD)
            if head[:4] in (b"II*\0", b"MM\0*"):
                return _has_pages(file, "little" if head[:1] == b"I" else "big")
    except OSError:
        return False
    is_animated_webp = head[12:16] == b"VP8X" and any(flags & 2 for flags in head[20:21])
    return is_animated_webp or b"acTL" in head.partition(b"IDAT")[0]


def _has_pages(file: BinaryIO, order: Literal["little", "big"]) -> bool:
    """Whether a TIFF has a second directory."""
    file.seek(4)
    file.seek(int.from_bytes(file.read(4), order))
    num_entries = int.from_bytes(file.read(2), order)
    file.seek(12 * num_entries, os.SEEK_CUR)
    return any(file.read(4))


def class_files(folder: Path) -> tuple[list[str], Counter[str], list[str]]:
    """The paths of the images in a class's folder, in torchvision's order; the numbers of other
    files by ending; and the folder itself with the folders in it."""
    entries = list(_below(str(folder)))
    files = [entry.path for entry in entries if not entry.is_dir()]
    images = sorted(filter(is_image, files), key=os.path.split)
    ignored = [Path(path).suffix.lower() for path in files if not is_image(path)]
    folders = [str(folder), *(entry.path for entry in entries if entry.is_dir())]
    return images, Counter(ending or "without ending" for ending in ignored), folders


def _below(
    folder: str, above: frozenset[tuple[int, int]] = frozenset()
) -> Iterator[os.DirEntry[str]]:
    """The visible entries of a folder and of the folders in it, by name; `above` identifies the
    folders around it."""
    stat = os.stat(folder)
    identity = (stat.st_dev, stat.st_ino)
    if identity in above:
        raise OSError(errno.ELOOP, "a link to a folder that holds it", folder)
    with os.scandir(folder) as entries:
        visible = [entry for entry in entries if not _is_hidden(entry.name)]
    for entry in sorted(visible, key=lambda entry: entry.name):
        yield entry
        if entry.is_dir():
            yield from _below(entry.path, above | {identity})


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name.lower() in HIDDEN
