"""The image files of a data set, by its name or by the path of a folder: where they are, and what
reads them."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from curvfed.tasks.class_names import names_listed
from curvfed.tasks.errors import DataError
from curvfed.tasks.formats import format_of
from curvfed.tasks.images import readers
from curvfed.tasks.images.folder import read_folder
from curvfed.tasks.images.layout import LAYOUTS, TABLE, TEST, TRAIN, class_folders, read_layout
from curvfed.tasks.images.raw import RawImages
from curvfed.tasks.images.sources import TINY, Source, source_of
from curvfed.tasks.public_data import Located, find_path, locate_plugin_data

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def locate(dataset: str, data_dir: Path) -> Located[RawImages]:
    """Find the images of a named data set, in any case, or of a folder's path.

    Absent files of a named data set are downloaded. A relative path is looked up in the working
    folder, then in `data_dir`.

    Raises
    ------
    DataError
        An unknown name, an absent folder, or a failed download; names the folders searched and the
        command to download the files.
    """
    source = source_of(dataset)
    if source is not None:
        located = source.find_or_download(data_dir, partial(find, source))
        return Located(located.files, partial(_read, source, data_dir, located))
    plugin_data = locate_plugin_data(dataset, data_dir, RawImages)
    if plugin_data is not None:
        return plugin_data
    path = find_path(dataset, data_dir, Path.exists)
    if format_of(path) is not None or not path.is_dir():
        return locate_folder(path)
    if untrained := read_layout(path).untrained:
        raise DataError(
            f"{path}: {names_listed(untrained)} are classes of only the test part, which no model"
            " learns; allowed are test images of the classes of the training part",
            key="untrained-classes",
        )
    return locate_folder(path)


def locate_folder(path: Path) -> Located[RawImages]:
    """Locate a user's folder of images, or images in the format of another tool.

    Raises
    ------
    DataError
        If the folder is absent, or its classes are ambiguous.
    """
    path = path.expanduser()
    other = format_of(path)
    if other is not None:
        return other.locate(path)
    if not path.is_dir():
        raise DataError(f"no folder {path}; allowed is one with {LAYOUTS}", key="no-file")
    return _located(path)


def find(source: Source, data_dir: Path) -> Located[RawImages] | None:
    """The files of a public data set, or None if they are absent."""
    folder = source.folder(data_dir)
    top = data_dir.expanduser()
    if not source.folders:
        return Located((), readers.read_digits)
    if folder is not None and source.files:
        reader, *arguments = source.read
        files = tuple(folder / name for name in source.files)
        return Located(files, partial(getattr(readers, reader), *arguments, top))
    if source.title == "CIFAR-10":
        return _find_cifar10(top)
    return _find_tiny(top) if source.title == "TinyImageNet" else None


def _read(source: Source, data_dir: Path, located: Located[RawImages]) -> RawImages:
    try:
        return located.read()
    except (DataError, ImportError):
        raise
    except Exception as error:  # the loaders may raise anything
        folders = " or ".join(map(str, source.search_folders(data_dir)))
        raise DataError(
            f"the files of {source.title} in {folders} cannot be read ({type(error).__name__}:"
            f" {error}): they are damaged, or not the original ones. Remove them, and on a machine"
            f" with a network run:\n{source.command(data_dir)}",
            str(error),
            key="unreadable",
        ) from error


def _find_cifar10(data_dir: Path) -> Located[RawImages] | None:
    """CIFAR-10 as image files, CLASS/* in train/ and test/."""
    parts = {TRAIN: data_dir / "train", TEST: data_dir / "test"}
    if any(class_folders(folder) != CIFAR10 for folder in parts.values()):
        return None
    return _located(data_dir, parts)


def _find_tiny(data_dir: Path) -> Located[RawImages] | None:
    """TinyImageNet; its test part val/ is one folder with a table, as published, or has a folder
    per class."""
    folder = data_dir / TINY
    parts = {TRAIN: folder / "train", TEST: folder / "val"}
    train, val = map(class_folders, parts.values())
    is_published = val == ("images",) and (parts[TEST] / TABLE).is_file()
    if not train or not val or not (is_published or set(val) <= set(train)):
        return None
    return _located(folder, parts)


def _located(folder: Path, parts: Mapping[int, Path] | None = None) -> Located[RawImages]:
    layout = read_layout(folder, parts)
    is_tiny = any(file.name == TABLE for file in layout.files)
    return Located(
        files=layout.files,
        read=partial(read_folder, folder, parts),
        notes=layout.notes,
        digest=layout.digest,
        title="TinyImageNet's folder" if is_tiny else "",
    )
