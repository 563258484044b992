"""The image files of a data set, by its name or by the path of a folder: where they lie, and what reads them."""

import os
from functools import partial
from pathlib import Path

from curvfed.tasks.errors import DataError
from curvfed.tasks.images import readers
from curvfed.tasks.images.folder import LAYOUTS, class_folders, parts_of, read_folder, read_parts
from curvfed.tasks.images.raw import TEST, TRAIN, RawImages
from curvfed.tasks.images.sources import SOURCES, TINY, Source, source_of
from curvfed.tasks.public_data import Located, brought, find_path

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def locate(dataset: str, data_dir: Path) -> Located[RawImages]:
    """Find the images of a named data set, in any case, or of a folder's path.

    Absent files of a named data set are downloaded. A relative path is looked up in the working folder, then in
    `data_dir`.

    Raises
    ------
    DataError
        An unknown name, an absent folder, or files that are absent and cannot be downloaded; names the folders looked in
        and the command to download them.
    """
    source = source_of(dataset)
    if source is not None:
        located = source.fetched(data_dir, partial(find, source))
        return Located(located.files, partial(_read, source, data_dir, located))
    if (own := brought(dataset, data_dir, RawImages)) is not None:
        return own
    try:
        return locate_folder(find_path(dataset, data_dir, Path.is_dir))
    except DataError:
        if "/" in dataset or os.sep in dataset:
            raise
    raise DataError(
        f'unknown image data set "{dataset}"; allowed is {", ".join(SOURCES)}, or the path of a folder of images'
    )


def locate_folder(path: Path) -> Located[RawImages]:
    """A user's folder of images.

    Raises
    ------
    DataError
        If there is no folder.
    """
    path = path.expanduser()
    if not path.is_dir():
        raise DataError(f"no folder {path}; allowed is one with {LAYOUTS}")
    return Located(tuple(parts_of(path).values()), partial(read_folder, path))


def find(source: Source, data_dir: Path) -> Located[RawImages] | None:
    """The files of a public data set, if they are there."""
    folder, top = source.folder(data_dir), data_dir.expanduser()
    if not source.folders:
        return Located((), readers.read_digits)
    if folder is not None and source.files:
        reader, *arguments = source.read
        return Located(
            tuple(folder / name for name in source.files), partial(getattr(readers, reader), *arguments, top)
        )
    if source.title == "CIFAR-10":
        return _find_cifar10(top)
    return _find_tiny(top) if source.title == "TinyImageNet" else None


def _read(source: Source, data_dir: Path, located: Located[RawImages]) -> RawImages:
    try:
        return located.read()
    except (DataError, ImportError):
        raise
    except Exception as error:  # the loaders raise whatever they come upon
        raise DataError(
            f"the files of {source.title} in {' or '.join(map(str, source.looked_in(data_dir)))} cannot be read "
            f"({type(error).__name__}): they are damaged, or not the original ones. Remove them, and on a machine with a "
            f"network run:\n{source.command(data_dir)}"
        ) from error


def _find_cifar10(data_dir: Path) -> Located[RawImages] | None:
    """CIFAR-10 as image files, CLASS/* in train/ and test/."""
    parts = {TRAIN: data_dir / "train", TEST: data_dir / "test"}
    if any(class_folders(part) != CIFAR10 for part in parts.values()):
        return None
    return Located(tuple(parts.values()), partial(read_parts, data_dir, parts))


def _find_tiny(data_dir: Path) -> Located[RawImages] | None:
    """TinyImageNet: val/, the test part, is in one folder with a table, as published, or has a folder per class."""
    folder = data_dir / TINY
    train, val = folder / "train", folder / "val"
    table = val / "val_annotations.txt"
    if class_folders(train) and class_folders(val) == ("images",) and table.is_file():
        return Located((train, val, table), partial(readers.read_tiny, folder))
    if not class_folders(val) or not set(class_folders(val)) <= set(class_folders(train)):
        return None
    return Located((train, val), partial(read_parts, folder, {TRAIN: train, TEST: val}))
