"""The data sets by name: where their files lie, who fetches them, how they are read and normalised.

What reads them takes seconds to import, and is imported when files are looked at: commands list the names alone.
"""

import difflib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs import download

if TYPE_CHECKING:
    from curvfed.tasks.images.raw import RawImages


@dataclass(frozen=True)
class Located:
    """Images that are there.

    Attributes
    ----------
    files : tuple of Path
        What is read: files, or folders whose images are.
    read : callable
        () -> RawImages; raises DataError.
    """

    files: tuple[Path, ...]
    read: "Callable[[], RawImages]"


@dataclass(frozen=True)
class Source:
    """A public data set: a row of `SOURCES`.

    Attributes
    ----------
    title : str
        Its name as it is written.
    folders : tuple of str
        Where below the data folder it is looked for; a download goes to the first.
    find : callable
        data folder -> Located, or None where files are absent.
    fetch : str
        Python that downloads it below the folder `{root}`; "" where it is built in.
    mean, std : tuple of float
        For each channel, of pixels scaled to [0, 1]: over the training images, as widely published; those of "digits" are
        those of a user's own folder.
    augments : bool
        Whether training images are usually cropped and flipped.
    """

    title: str
    folders: tuple[str, ...]
    find: Callable[[Path], Located | None]
    fetch: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augments: bool

    @property
    def channels(self) -> int:
        """Of every image, 1 or 3."""
        return len(self.mean)

    def looked_in(self, data_dir: Path) -> list[Path]:
        """The folders that it is looked for in."""
        return [data_dir.expanduser() / folder for folder in self.folders]

    def command(self, root: Path) -> str:
        """The shell command that fetches it."""
        return f'python -c "{self.fetch.format(root=repr(str(root)))}"'


def source_of(dataset: str) -> Source | None:
    """The row of a data set by name, in any case, or None."""
    return SOURCES.get(ALIASES.get(dataset.lower(), dataset.lower()))


def locate(dataset: str, data_dir: Path) -> Located:
    """Find the images of a named data set, in any case, or of a folder's path.

    Absent files of a named data set are downloaded. A relative path is looked up in the working folder, then in
    `data_dir`.

    Raises
    ------
    DataError
        An unknown name, an absent folder, or files that are absent and cannot be fetched; names the folders looked in and
        the command to fetch them.
    """
    source = source_of(dataset)
    if source is not None:
        located = source.find(data_dir.expanduser()) or _fetched(source, data_dir.expanduser())
        return Located(located.files, partial(_read, source, data_dir.expanduser(), located.read))
    from curvfed.tasks.images.raw import RawImages  # brings torch with it, which the names of data sets do without

    if (own := plugins.located(dataset, data_dir, RawImages)) is not None:
        return Located(*own)
    given = Path(dataset).expanduser()
    path = next((path for path in (given, data_dir.expanduser() / given) if path.is_dir()), None)
    if path is not None:
        return locate_folder(path)
    if "/" in dataset or os.sep in dataset:
        raise DataError(f"no folder {given}, nor {data_dir / given}")
    near = difflib.get_close_matches(dataset.lower(), [*SOURCES, *ALIASES], n=1)
    hint = f'; did you mean "{near[0]}"?' if near else "."
    raise DataError(
        f'unknown image data set "{dataset}"{hint} Known: {", ".join(SOURCES)}, or the path of a folder of images'
    )


def locate_folder(path: Path) -> Located:
    """A user's folder of images.

    Raises
    ------
    DataError
        If there is no folder.
    """
    from curvfed.tasks.images.folder import LAYOUTS, parts_of, read_folder

    path = path.expanduser()
    if not path.is_dir():
        raise DataError(f"no folder {path}; allowed is one with {LAYOUTS}")
    return Located(tuple(parts_of(path).values()), partial(read_folder, path))


def _fetched(source: Source, data_dir: Path) -> Located:
    code = f"import sys; {source.fetch.format(root='sys.argv[1]')}"
    folder = source.folders[0].partition("/")[0]
    try:
        download.fetch_by(code, data_dir, folder)
        reason = "the download lacks some"
    except OSError as error:
        reason = str(error)
    located = source.find(data_dir)
    if located is None:
        places = " nor in ".join(map(str, source.looked_in(data_dir)))
        raise DataError(
            f"the files of {source.title} are not in {places}{download.absent(data_dir)}, and they cannot be downloaded: "
            f"{reason}. On a machine with a network run:\n{source.command(data_dir)}\nand copy {data_dir / folder} here."
        )
    return located


def _by(reader: str, *arguments: Any) -> "RawImages":
    """What a function of `curvfed.tasks.images.readers` reads."""
    from curvfed.tasks.images import readers

    found: RawImages = getattr(readers, reader)(*arguments)
    return found


def _read(source: Source, data_dir: Path, read: "Callable[[], RawImages]") -> "RawImages":
    try:
        return read()
    except (DataError, ImportError):
        raise
    except Exception as error:  # the loaders raise whatever they come upon
        raise DataError(
            f"the files of {source.title} in {' or '.join(map(str, source.looked_in(data_dir)))} cannot be read "
            f"({type(error).__name__}): they are damaged, or not the original ones. Remove them, and on a machine with a "
            f"network run:\n{source.command(data_dir)}"
        ) from error


def _archive(
    folder: str, files: tuple[str, ...], read: "Callable[[Path], RawImages]", data_dir: Path
) -> Located | None:
    """What torchvision reads from `files`."""
    paths = tuple(data_dir / folder / name for name in files)
    return Located(paths, partial(read, data_dir)) if all(path.is_file() for path in paths) else None


def _find_cifar10(data_dir: Path) -> Located | None:
    """The original, else its copy as image files."""
    from curvfed.tasks.images.folder import class_folders, read_parts
    from curvfed.tasks.images.raw import TEST, TRAIN

    files = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta")
    found = _archive("cifar-10-batches-py", files, partial(_by, "read_named", "CIFAR10"), data_dir)
    if found is not None:
        return found
    parts = {TRAIN: data_dir / "train", TEST: data_dir / "test"}
    if any(class_folders(part) != CIFAR10 for part in parts.values()):
        return None
    return Located(tuple(parts.values()), partial(read_parts, data_dir, parts))


def _find_tiny(data_dir: Path) -> Located | None:
    """As it is published, val/ in one folder, or with a folder per class; val/ is the test part."""
    from curvfed.tasks.images.folder import class_folders, read_parts
    from curvfed.tasks.images.raw import TEST, TRAIN

    folder = data_dir / TINY
    train, val = folder / "train", folder / "val"
    table = val / "val_annotations.txt"
    if class_folders(train) and class_folders(val) == ("images",) and table.is_file():
        return Located((train, val, table), partial(_by, "read_tiny", folder))
    if not class_folders(val) or not set(class_folders(val)) <= set(class_folders(train)):
        return None
    return Located((train, val), partial(read_parts, folder, {TRAIN: train, TEST: val}))


def _torchvision(collection: str, more: str = "") -> str:
    return f"from torchvision.datasets import {collection}; {collection}({{root}}, {more}download=True)"


_PARTS = ("train", "t10k")
_LETTERS = ("emnist-letters-train", "emnist-letters-test")


def _idx(parts: tuple[str, str]) -> tuple[str, ...]:
    return tuple(f"{part}-{kind}-ubyte" for part in parts for kind in ("images-idx3", "labels-idx1"))


CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TINY = "tiny-imagenet-200"

SOURCES = {
    "digits": Source(
        "digits", (), lambda _: Located((), partial(_by, "read_digits")), "", mean=(0.5,), std=(0.25,), augments=False
    ),
    "mnist": Source(
        "MNIST",
        ("MNIST/raw",),
        partial(_archive, "MNIST/raw", _idx(_PARTS), partial(_by, "read_mnist")),
        _torchvision("MNIST"),
        mean=(0.1307,),
        std=(0.3081,),
        augments=False,
    ),
    "fmnist": Source(
        "Fashion-MNIST",
        ("FashionMNIST/raw",),
        partial(_archive, "FashionMNIST/raw", _idx(_PARTS), partial(_by, "read_named", "FashionMNIST")),
        _torchvision("FashionMNIST"),
        mean=(0.2860,),
        std=(0.3530,),
        augments=False,
    ),
    "emnist": Source(
        "EMNIST letters",
        ("EMNIST/raw",),
        partial(_archive, "EMNIST/raw", _idx(_LETTERS), partial(_by, "read_letters")),
        _torchvision("EMNIST", "split='letters', "),
        mean=(0.1722,),
        std=(0.3309,),
        augments=False,
    ),
    "cifar10": Source(
        "CIFAR-10",
        ("cifar-10-batches-py", "train", "test"),
        _find_cifar10,
        _torchvision("CIFAR10"),
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        augments=True,
    ),
    "cifar100": Source(
        "CIFAR-100",
        ("cifar-100-python",),
        partial(_archive, "cifar-100-python", ("train", "test", "meta"), partial(_by, "read_named", "CIFAR100")),
        _torchvision("CIFAR100"),
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
        augments=True,
    ),
    "tinyimagenet": Source(
        "TinyImageNet",
        (TINY,),
        _find_tiny,
        "from torchvision.datasets.utils import download_and_extract_archive as fetch; "
        "fetch('http://cs231n.stanford.edu/tiny-imagenet-200.zip', {root}, md5='90528d7ca1a48142e341f4ef8d21d0de')",
        mean=(0.4802, 0.4481, 0.3975),
        std=(0.2770, 0.2691, 0.2821),
        augments=True,
    ),
}

ALIASES = {"fashion-mnist": "fmnist"}
