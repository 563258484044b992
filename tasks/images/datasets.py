"""The data sets by name: where their files lie, who fetches them, how they are read and normalised.

What reads them takes seconds to import, and is imported when files are looked at: commands list the names alone.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError, did_you_mean
from curvfed.tasks.public_data import Located, PublicData, find_path

if TYPE_CHECKING:
    from curvfed.tasks.images.raw import RawImages


@dataclass(frozen=True, kw_only=True)
class Source(PublicData):
    """A public data set: a row of `SOURCES`.

    Attributes
    ----------
    read : tuple of str
        The function of `curvfed.tasks.images.readers`, and its arguments before the data folder.
    otherwise : callable, optional
        data folder -> Located, or None: finds it as image files where its archive is absent.
    mean, std : tuple of float
        For each channel, of pixels scaled to [0, 1]: over the training images, as widely published; those of "digits" are
        those of a user's own folder.
    augments : bool
        Whether training images are usually cropped and flipped.
    """

    read: tuple[str, ...]
    otherwise: "Callable[[Path], Located[RawImages] | None]" = lambda _: None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augments: bool = False
    origin: str = "torchvision"

    @property
    def channels(self) -> int:
        """Of every image, 1 or 3."""
        return len(self.mean)

    def find(self, data_dir: Path) -> "Located[RawImages] | None":
        """The files, where they are."""
        if not self.folders:
            return Located((), partial(_by, *self.read))
        folder, top = self.folder(data_dir), data_dir.expanduser()
        if folder is None or not self.files:
            return self.otherwise(top)
        return Located(tuple(folder / name for name in self.files), partial(_by, *self.read, top))


def source_of(dataset: str) -> Source | None:
    """The row of a data set by name, in any case, or None."""
    return SOURCES.get(ALIASES.get(dataset.lower(), dataset.lower()))


def locate(dataset: str, data_dir: Path) -> "Located[RawImages]":
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
        located = source.fetched(data_dir, source.find)
        return Located(located.files, partial(_read, source, data_dir, located.read))
    from curvfed.tasks.images.raw import RawImages  # brings torch with it, which the names of data sets do without

    if (own := plugins.located(dataset, data_dir, RawImages)) is not None:
        return own
    try:
        return locate_folder(find_path(dataset, data_dir, Path.is_dir))
    except DataError:
        if "/" in dataset or os.sep in dataset:
            raise
    raise DataError(
        f'unknown image data set "{dataset}"{did_you_mean(dataset, (*SOURCES, *ALIASES))} Known: {", ".join(SOURCES)}, or '
        f"the path of a folder of images"
    )


def locate_folder(path: Path) -> "Located[RawImages]":
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


def _find_cifar10(data_dir: Path) -> "Located[RawImages] | None":
    """Its copy as image files."""
    from curvfed.tasks.images.folder import class_folders, read_parts
    from curvfed.tasks.images.raw import TEST, TRAIN

    parts = {TRAIN: data_dir / "train", TEST: data_dir / "test"}
    if any(class_folders(part) != CIFAR10 for part in parts.values()):
        return None
    return Located(tuple(parts.values()), partial(read_parts, data_dir, parts))


def _find_tiny(data_dir: Path) -> "Located[RawImages] | None":
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


def _idx(*parts: str) -> tuple[str, ...]:
    return tuple(f"{part}-{kind}-ubyte" for part in parts for kind in ("images-idx3", "labels-idx1"))


CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TINY = "tiny-imagenet-200"

SOURCES = {
    "digits": Source(
        "digits", (), (), "", read=("read_digits",), mean=(0.5,), std=(0.25,), origin="built in: scikit-learn's"
    ),
    "mnist": Source(
        "MNIST",
        ("MNIST/raw",),
        _idx("train", "t10k"),
        _torchvision("MNIST"),
        read=("read_mnist",),
        mean=(0.1307,),
        std=(0.3081,),
    ),
    "fmnist": Source(
        "Fashion-MNIST",
        ("FashionMNIST/raw",),
        _idx("train", "t10k"),
        _torchvision("FashionMNIST"),
        read=("read_named", "FashionMNIST"),
        mean=(0.2860,),
        std=(0.3530,),
    ),
    "emnist": Source(
        "EMNIST letters",
        ("EMNIST/raw",),
        _idx("emnist-letters-train", "emnist-letters-test"),
        _torchvision("EMNIST", "split='letters', "),
        read=("read_letters",),
        mean=(0.1722,),
        std=(0.3309,),
    ),
    "cifar10": Source(
        "CIFAR-10",
        ("cifar-10-batches-py", "train", "test"),
        (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta"),
        _torchvision("CIFAR10"),
        read=("read_named", "CIFAR10"),
        otherwise=_find_cifar10,
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        augments=True,
    ),
    "cifar100": Source(
        "CIFAR-100",
        ("cifar-100-python",),
        ("train", "test", "meta"),
        _torchvision("CIFAR100"),
        read=("read_named", "CIFAR100"),
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
        augments=True,
    ),
    "tinyimagenet": Source(
        "TinyImageNet",
        (TINY,),
        (),
        "from torchvision.datasets.utils import download_and_extract_archive as fetch; "
        "fetch('http://cs231n.stanford.edu/tiny-imagenet-200.zip', {root}, md5='90528d7ca1a48142e341f4ef8d21d0de')",
        read=(),
        otherwise=_find_tiny,
        mean=(0.4802, 0.4481, 0.3975),
        std=(0.2770, 0.2691, 0.2821),
        augments=True,
    ),
}

ALIASES = {"fashion-mnist": "fmnist"}
